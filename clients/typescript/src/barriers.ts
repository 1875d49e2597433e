/** Barriers: complete when all participants have arrived; then exactly one notification is sent. */

import type { Outcome } from "./outcome.js";
import type { Arrive, Barrier, BarrierProgress, PageBarrierParticipant, PutBarrier, Seal } from "./schema.js";
import { query } from "./transport.js";
import type { Call, CallOptions, Page, Transport } from "./transport.js";

/** The service waits no longer in one call. */
const WAIT_SECONDS_MAX = 50;

/** One barrier. Nothing here needs a key: every call may be repeated, and counts once. */
export class BarrierClient {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, name: string) {
    this.#transport = transport;
    this.#path = `/v1/barriers/${encodeURIComponent(name)}`;
  }

  /** Makes it. The same again gets it as it is now; `notify` shows what messages are signed with. */
  put(spec: PutBarrier, options?: CallOptions): Promise<Outcome<Barrier>> {
    return this.#call("PUT", "", spec, options);
  }

  get(options?: CallOptions): Promise<Outcome<Barrier>> {
    return this.#call("GET", "", undefined, options);
  }

  /** `fired` is true for exactly one arrival (or seal), also when that one is repeated. */
  arrive(arrival: Arrive, options?: CallOptions): Promise<Outcome<BarrierProgress>> {
    return this.#call("POST", "/arrivals", arrival, options);
  }

  /** Names of participants that are still to come, at most 1,000 a call. */
  declare(participants: string[], options?: CallOptions): Promise<Outcome<Barrier>> {
    return this.#call("POST", "/participants", { participants }, options);
  }

  /** Settles how many it waits for; without a number those declared until now. */
  seal(seal: Seal = {}, options?: CallOptions): Promise<Outcome<BarrierProgress>> {
    return this.#call("POST", "/seal", seal, options);
  }

  /** Moves the deadline to so many seconds from now, if that is later. */
  extend(deadlineSeconds: number, options?: CallOptions): Promise<Outcome<Barrier>> {
    return this.#call("POST", "/extend", { deadline_seconds: deadlineSeconds }, options);
  }

  cancel(options?: CallOptions): Promise<Outcome<Barrier>> {
    return this.#call("DELETE", "", undefined, options);
  }

  participants(
    status: "missing" | "arrived" | "failed", page: Page = {}, options?: CallOptions,
  ): Promise<Outcome<PageBarrierParticipant>> {
    return this.#call("GET", `/participants${query({ status, ...page })}`, undefined, options);
  }

  /** Waits until it has ended, or for so many seconds; `status` says which. */
  async wait(seconds = Infinity, options?: CallOptions): Promise<Outcome<Barrier>> {
    const until = Date.now() + seconds * 1_000;
    for (;;) {
      const asked = Date.now();
      // A call that waits must be answered before it is given up.
      const step = Math.min(WAIT_SECONDS_MAX, this.#transport.timeoutMs / 2_000, (until - asked) / 1_000);
      const path = `/wait${query({ seconds: Math.max(0, Math.round(step)) })}`;
      const outcome = await this.#call<Barrier>("GET", path, undefined, options);
      if (outcome.kind === "refused" || outcome.value.status !== "open") return outcome;
      if (Date.now() >= until - 500) return outcome;
      // A process that stops answers at once.
      if (Date.now() - asked < step * 500) await this.#transport.pause(1, 0, options?.signal);
    }
  }

  #call<T>(method: Call["method"], path: string, body: unknown, options: CallOptions = {}): Promise<Outcome<T>> {
    return this.#transport.send<T>({ method, path: this.#path + path, body, signal: options.signal });
  }
}
