import { NoAnswer } from "./outcome.js";
import type { Outcome, Refused } from "./outcome.js";
import type { Problem } from "./schema.js";

export interface Options {
  /** `http://127.0.0.1:8080` */
  baseUrl: string;
  /** An API key: `<id>.<secret>`. */
  apiKey?: string;
  /** A try without an answer is given up after so long. */
  timeoutMs?: number;
  /** How often a call is sent at most. */
  triesMax?: number;
  /** The pause before try n + 1 is random, below this times 2^n. A `Retry-After` is added to it. */
  backoffMs?: number;
  /** The random part is never longer, and neither is a `Retry-After`. */
  backoffMsMax?: number;
  /** Stands in for the global one. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Ends the call; what was sent may have its effect, and the same key finds out. */
  signal?: AbortSignal;
}

export interface Page {
  /** `next` of the page before. */
  after?: string;
  limit?: number;
}

export interface Call {
  method: "GET" | "PUT" | "POST" | "DELETE";
  path: string;
  body?: unknown;
  key?: string;
  signal?: AbortSignal | undefined;
}

interface Answer {
  status: number;
  headers: Headers;
  body: unknown;
}

/** Why a try gave no answer. */
interface Failure {
  mayHaveRun: boolean;
  problem: Problem | null;
  again: boolean;
  retryAfterMs: number;
  cause?: unknown;
}

/** Sends a call until it is answered: always the same bytes with the same key, so it has one effect at most. */
export class Transport {
  readonly #options: Required<Omit<Options, "apiKey" | "fetch">>;
  readonly #headers: Record<string, string>;
  readonly #fetch: typeof fetch;

  constructor({ apiKey, fetch: ownFetch, ...options }: Options) {
    this.#options = { timeoutMs: 10_000, triesMax: 6, backoffMs: 100, backoffMsMax: 5_000, ...options };
    this.#headers = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
    this.#fetch = ownFetch ?? fetch;
  }

  get triesMax(): number {
    return this.#options.triesMax;
  }

  get timeoutMs(): number {
    return this.#options.timeoutMs;
  }

  async send<T>(call: Call): Promise<Outcome<T>> {
    let mayHaveRun = false;
    for (let tries = 1; ; tries++) {
      const tried = await this.#try<T>(call);
      if (tried.outcome !== null) return tried.outcome;
      const { failure } = tried;
      mayHaveRun ||= failure.mayHaveRun;
      const giveUp = (why: string, cause: unknown) =>
        new NoAnswer(
          `${call.method} ${call.path}: ${why}`, mayHaveRun ? "unknown" : "not_applied", call.key ?? null,
          failure.problem, tries, { cause },
        );
      if (call.signal?.aborted) throw giveUp("aborted", call.signal.reason);
      if (!failure.again) throw giveUp(failure.problem?.detail ?? "not an answer of Stockade", failure.cause);
      if (tries >= this.#options.triesMax) {
        throw giveUp(`no answer after ${tries} tries`, failure.cause);
      }
      await this.pause(tries, failure.retryAfterMs, call.signal);
      if (call.signal?.aborted) throw giveUp("aborted", call.signal.reason);
    }
  }

  /** Waits before the next try; ends at once where the caller aborts. */
  async pause(tries: number, retryAfterMs: number, signal?: AbortSignal): Promise<void> {
    const { backoffMs, backoffMsMax } = this.#options;
    const jitter = Math.random() * Math.min(backoffMsMax, backoffMs * 2 ** tries);
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, Math.min(retryAfterMs, backoffMsMax) + jitter);
      signal?.addEventListener("abort", end);
      if (signal?.aborted) end();
    });
  }

  async #try<T>(call: Call): Promise<{ outcome: Outcome<T> } | { outcome: null; failure: Failure }> {
    let answer: Answer;
    try {
      answer = await this.#once(call);
    } catch (cause) {
      // Sent or not, answered or not: nobody can tell.
      const failure = { mayHaveRun: true, problem: null, again: true, retryAfterMs: 0, cause };
      return { outcome: null, failure };
    }
    if (answer.status < 300) {
      const word = answer.headers.get("Stockade-Outcome") ?? "";
      return { outcome: { kind: "done", value: answer.body as T, word, replayed: word === "replayed" } };
    }
    const problem = problemOf(answer.body);
    if (problem !== null && answer.status < 500 && !problem.retryable) {
      return { outcome: { kind: "refused", code: problem.code, problem } as Refused };
    }
    // Without a problem it is no answer of Stockade but of something in between, which may have passed the call on.
    const again = problem?.retryable ?? (answer.status >= 500 || answer.status === 429);
    const mayHaveRun = problem === null ? again : problem.outcome === "unknown";
    const retryAfterMs = milliseconds(answer.headers.get("Retry-After"));
    return { outcome: null, failure: { mayHaveRun, problem, again, retryAfterMs } };
  }

  /** One try, within its time: also for the body of the answer. */
  async #once(call: Call): Promise<Answer> {
    const { baseUrl, timeoutMs } = this.#options;
    const controller = new AbortController();
    const abort = () => controller.abort(call.signal?.reason);
    const timer = setTimeout(() => controller.abort(new Error(`no answer in ${timeoutMs} ms`)), timeoutMs);
    call.signal?.addEventListener("abort", abort);
    if (call.signal?.aborted) abort();
    try {
      const headers: Record<string, string> = { ...this.#headers };
      if (call.key !== undefined) headers["Idempotency-Key"] = quoted(call.key);
      if (call.body !== undefined) headers["Content-Type"] = "application/json";
      const body = call.body === undefined ? null : JSON.stringify(call.body);
      const url = baseUrl.replace(/\/+$/, "") + call.path;
      const init = { method: call.method, headers, body, signal: controller.signal, redirect: "manual" } as const;
      const response = await this.#fetch(url, init);
      const text = await response.text();
      // An error page of something in between need not be JSON; a good answer that is not was cut.
      return { status: response.status, headers: response.headers, body: parsed(text, response.ok) };
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", abort);
    }
  }
}

function parsed(text: string, mustBeJson: boolean): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (mustBeJson) throw error;
    return null;
  }
}

function problemOf(body: unknown): Problem | null {
  const isProblem = typeof body === "object" && body !== null && "code" in body && "retryable" in body;
  return isProblem ? (body as Problem) : null;
}

/** A key as a structured-field string: any printable text, also with `;` or quotes in it. */
function quoted(key: string): string {
  return `"${key.replace(/["\\]/g, "\\$&")}"`;
}

/** Of `Retry-After`: seconds, or a date. */
function milliseconds(retryAfter: string | null): number {
  if (retryAfter === null) return 0;
  const ms = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1_000 : Date.parse(retryAfter) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}

/** What is given of it, with its `?`. */
export function query(wanted: Record<string, string | number | undefined>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(wanted)) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}
