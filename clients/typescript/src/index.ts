/** A small client of Stockade. It retries with the same key, and makes refusals values. */

import { BarrierClient } from "./barriers.js";
import { NoAnswer } from "./outcome.js";
import type { BulkOutcome, Outcome, Refused } from "./outcome.js";
import { Transport, query } from "./transport.js";
import type { Call, CallOptions, Options, Page } from "./transport.js";
import type {
  Adjust, Adjustment, BulkAnswer, BulkRequest, BulkResult, BuyerStanding, Confirm, Level, PageAdjustment, PageEvent,
  PageLevel, PageReservation, Problem, PutSale, PutSku, Release, Reservation, Reserve, Return, Sale,
} from "./schema.js";

export { BarrierClient } from "./barriers.js";
export * from "./outcome.js";
export type { CallOptions, Options, Page } from "./transport.js";
export type * from "./schema.js";

/** Levels may be a moment old, which `as_of` tells; `fresh` reads them now. */
export interface Age {
  fresh?: boolean;
}

/** A request of a bulk call. Its key is needed: without one it could not be sent again. */
export type KeyedRequest = BulkRequest & { idempotency_key: string };

export class Stockade {
  readonly #transport: Transport;

  constructor(options: Options) {
    this.#transport = new Transport(options);
  }

  sale(name: string): SaleClient {
    return new SaleClient(this.#transport, name);
  }

  barrier(name: string): BarrierClient {
    return new BarrierClient(this.#transport, name);
  }
}

/**
 * One sale. What takes units, or changes the supply, needs a key: your name for this one effect, such as the id of the
 * cart. Store it with the cart before you call, so that you can ask again after a crash.
 */
export class SaleClient {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, name: string) {
    this.#transport = transport;
    this.#path = `/v1/sales/${encodeURIComponent(name)}`;
  }

  /** Makes the sale or replaces its rules. */
  put(rules: PutSale, options?: CallOptions): Promise<Outcome<Sale>> {
    return this.#call("PUT", "", rules, options);
  }

  get(options?: CallOptions): Promise<Outcome<Sale>> {
    return this.#call("GET", "", undefined, options);
  }

  pause(options?: CallOptions): Promise<Outcome<Sale>> {
    return this.#call("POST", "/pause", undefined, options);
  }

  resume(options?: CallOptions): Promise<Outcome<Sale>> {
    return this.#call("POST", "/resume", undefined, options);
  }

  close(options?: CallOptions): Promise<Outcome<Sale>> {
    return this.#call("POST", "/close", undefined, options);
  }

  levels(page: Page & Age = {}, options?: CallOptions): Promise<Outcome<PageLevel>> {
    return this.#call("GET", `/stock${query(aged(page))}`, undefined, options);
  }

  level(sku: string, age: Age = {}, options?: CallOptions): Promise<Outcome<Level>> {
    return this.#call("GET", `/stock/${encodeURIComponent(sku)}${query(aged(age))}`, undefined, options);
  }

  /** Adds a SKU, or sets its buyer limit. */
  putSku(sku: string, spec: PutSku, options?: CallOptions): Promise<Outcome<Level>> {
    return this.#call("PUT", `/stock/${encodeURIComponent(sku)}`, spec, options);
  }

  /** Changes the supply by `delta`. */
  adjust(sku: string, key: string, change: Adjust, options?: CallOptions): Promise<Outcome<Adjustment>> {
    return this.#call("POST", `/stock/${encodeURIComponent(sku)}/adjustments`, change, options, key);
  }

  adjustments(sku: string, page: Page = {}, options?: CallOptions): Promise<Outcome<PageAdjustment>> {
    return this.#call("GET", `/stock/${encodeURIComponent(sku)}/adjustments${query({ ...page })}`, undefined, options);
  }

  /** Takes all lines, or nothing. `done` means that the units are the buyer's until `expires_at`. */
  reserve(key: string, request: Reserve, options?: CallOptions): Promise<Outcome<Reservation>> {
    return this.#call("POST", "/reservations", request, options, key);
  }

  /**
   * Reserves for up to 500 requests, each for itself: outcomes are in their order. Requests that were not answered are
   * sent again, the others are not.
   */
  async reserveBulk(requests: readonly KeyedRequest[], options: CallOptions = {}): Promise<Outcome<BulkOutcome[]>> {
    const outcomes: BulkOutcome[] = [];
    let open = requests.map((_, place) => place);
    for (let tries = 1; ; tries++) {
      let answer: Outcome<BulkAnswer>;
      try {
        const body = { requests: open.map((place) => requests[place]) };
        answer = await this.#call("POST", "/reservations/bulk", body, options);
      } catch (error) {
        if (tries === 1 || !(error instanceof NoAnswer)) throw error;
        // What was answered before must not be lost.
        for (const place of open) {
          const before = outcomes[place];
          const unknown = error.outcome === "unknown" || (before?.kind === "unanswered" && before.outcome === "unknown");
          outcomes[place] = { kind: "unanswered", outcome: unknown ? "unknown" : "not_applied", problem: error.problem };
        }
        return done(outcomes);
      }
      if (answer.kind === "refused") return tries === 1 ? answer : done(outcomes);
      open = open.filter((place, n) => {
        const result = answer.value.results[n];
        outcomes[place] = result === undefined ? UNANSWERED : outcomeOf(result, outcomes[place]);
        return result?.problem?.retryable ?? result === undefined;
      });
      if (open.length === 0 || tries >= this.#transport.triesMax) return done(outcomes);
      await this.#transport.pause(tries, BULK_PAUSE_MS, options.signal);
      if (options.signal?.aborted) return done(outcomes);
    }
  }

  reservation(id: string, options?: CallOptions): Promise<Outcome<Reservation>> {
    return this.#call("GET", `/reservations/${encodeURIComponent(id)}`, undefined, options);
  }

  /** The reservation that a key has made; null where it has made none. */
  async reservationOfKey(key: string, options?: CallOptions): Promise<Outcome<Reservation | null>> {
    const quoted = `"${key.replace(/["\\]/g, "\\$&")}"`;
    const path = `/reservations?idempotency_key=${encodeURIComponent(quoted)}`;
    const found = await this.#call<PageReservation>("GET", path, undefined, options);
    return found.kind === "refused" ? found : { ...found, value: found.value.items[0] ?? null };
  }

  /** Sells what is held. Needs no key: a repeat is answered the same. */
  confirm(id: string, request: Confirm = {}, options?: CallOptions): Promise<Outcome<Reservation>> {
    return this.#call("POST", `/reservations/${encodeURIComponent(id)}/confirm`, request, options);
  }

  /** Gives back what is held. */
  release(id: string, request: Release = {}, options?: CallOptions): Promise<Outcome<Reservation>> {
    return this.#call("POST", `/reservations/${encodeURIComponent(id)}/release`, request, options);
  }

  /** Moves the deadline to now + `holdSeconds`, if that is later. */
  extend(id: string, key: string, holdSeconds: number, options?: CallOptions): Promise<Outcome<Reservation>> {
    const body = { hold_seconds: holdSeconds };
    return this.#call("POST", `/reservations/${encodeURIComponent(id)}/extend`, body, options, key);
  }

  /** Gives back what was sold: all that is left, or some lines. */
  returnReservation(id: string, key: string, request: Return, options?: CallOptions): Promise<Outcome<Reservation>> {
    return this.#call("POST", `/reservations/${encodeURIComponent(id)}/return`, request, options, key);
  }

  /** What a buyer has, and may still take. */
  buyer(buyer: string, options?: CallOptions): Promise<Outcome<BuyerStanding>> {
    return this.#call("GET", `/buyers/${encodeURIComponent(buyer)}`, undefined, options);
  }

  /** What happened, oldest first. `after`: a cursor, or `latest`. */
  events(page: Page = {}, options?: CallOptions): Promise<Outcome<PageEvent>> {
    return this.#call("GET", `/events${query({ ...page })}`, undefined, options);
  }

  #call<T>(method: Call["method"], path: string, body: unknown, options: CallOptions = {}, key?: string) {
    const call: Call = { method, path: this.#path + path, body, signal: options.signal };
    return this.#transport.send<T>(key === undefined ? call : { ...call, key });
  }
}

/** A bulk answer as a whole has no `Retry-After`. */
const BULK_PAUSE_MS = 1_000;

const UNANSWERED: BulkOutcome = { kind: "unanswered", outcome: "unknown", problem: null };

function done(outcomes: BulkOutcome[]): Outcome<BulkOutcome[]> {
  const replayed = outcomes.every((one) => one.kind === "done" && one.replayed);
  const held = outcomes.some((one) => one.kind === "done" && !one.replayed);
  return { kind: "done", value: outcomes, word: held ? "held" : replayed ? "replayed" : "unchanged", replayed };
}

function outcomeOf({ status, reservation, problem }: BulkResult, before: BulkOutcome | undefined): BulkOutcome {
  if (reservation !== null) {
    const replayed = status === 200;
    return { kind: "done", value: reservation, word: replayed ? "replayed" : "held", replayed };
  }
  if (problem !== null && problem.status < 500) return { kind: "refused", code: problem.code, problem } as Refused;
  const unknown = problem?.outcome === "unknown" || (before?.kind === "unanswered" && before.outcome === "unknown");
  return { kind: "unanswered", outcome: unknown ? "unknown" : "not_applied", problem: problem as Problem | null };
}

function aged({ fresh, ...page }: Page & Age): Record<string, string | number | undefined> {
  return { ...page, fresh: fresh ? "true" : undefined };
}
