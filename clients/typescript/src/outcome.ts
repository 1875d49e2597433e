import type { Problem, Reservation } from "./schema.js";

/** Codes of problems that are no answer: the same request is sent again with the same key, or somebody must look. */
type FailureCode =
  | "request_timeout" | "rate_limited" | "queue_full" | "draining" | "store_full" | "store_unavailable"
  | "store_read_only" | "store_busy" | "store_loading" | "slot_moving" | "outcome_unknown" | "corrupt" | "internal";

/** Codes of refusals: answers, which a repeat would get again. */
export type RefusalCode = Exclude<Problem["code"], FailureCode>;

/** Members that a problem is sure to have. */
type With<Member extends keyof Problem> = { [M in Member]-?: NonNullable<Problem[M]> };
/** The same, where null is an answer too. */
type WithNullable<Member extends keyof Problem> = { [M in Member]-?: Exclude<Problem[M], undefined> };

/** What a problem has beyond the rest, by its code. */
interface Members {
  sold_out: With<"shortfalls" | "may_return"> & WithNullable<"retry_at">;
  sale_not_open: WithNullable<"opens_at">;
  sale_not_empty: With<"held" | "sold">;
  stock_exists: With<"sku" | "initial">;
  unknown_sku: With<"sku">;
  hold_too_long: With<"extendable_until">;
  buyer_holds: With<"limit" | "held"> & WithNullable<"retry_at">;
  buyer_limit: With<"limit" | "counted" | "requested"> & WithNullable<"sku">;
  hold_expired: With<"reservation">;
  already_confirmed: With<"reservation">;
  already_released: With<"reservation">;
  already_returned: With<"reservation">;
  not_confirmed: With<"reservation">;
  part_of_order: With<"reservation">;
  quantity_exceeds_reservation: With<"reservation">;
  insufficient_available: With<"level">;
  granted_changed: With<"level">;
  barrier_exists: With<"barrier">;
  barrier_ended: With<"barrier">;
  too_many_arrivals: With<"declared">;
  already_sealed: With<"expected">;
  invalid_request: With<"errors">;
}

/** A problem with this code. */
export type ProblemOf<Code extends RefusalCode> = Omit<Problem, "code"> & { code: Code } &
  (Code extends keyof Members ? Members[Code] : unknown);

/** It was done, now or before. */
export interface Done<T> {
  kind: "done";
  value: T;
  /** The word of `Stockade-Outcome`: `held`, `confirmed`, `replayed` and so on. */
  word: string;
  /** The effect was there already: this key has been used before, perhaps by a try of this very call. */
  replayed: boolean;
}

/** It was refused, and nothing was changed. `switch` over `code` narrows `problem`; newer services may know more codes. */
export type Refused = {
  [Code in RefusalCode]: { kind: "refused"; code: Code; problem: ProblemOf<Code> };
}[RefusalCode];

/** What the service answered. */
export type Outcome<T> = Done<T> | Refused;

/** What became of one request of a bulk call. `unanswered`: keep its key, and ask again. */
export type BulkOutcome =
  | Outcome<Reservation>
  | { kind: "unanswered"; outcome: "not_applied" | "unknown"; problem: Problem | null };

/** There was no answer, after all tries. Keep the key: only the same one finds out, or has its one effect. */
export class NoAnswer extends Error {
  override name = "NoAnswer";
  constructor(
    message: string,
    /** Whether any of the tries may have had its effect. */
    readonly outcome: "not_applied" | "unknown",
    /** The key of the call, where it has one. */
    readonly key: string | null,
    /** What the service said last, if it said anything. */
    readonly problem: Problem | null,
    /** How often it was tried. */
    readonly tries: number,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** A refusal where the caller had no use for one: see `unwrap`. */
export class UnexpectedRefusal extends Error {
  override name = "UnexpectedRefusal";
  constructor(readonly refused: Refused) {
    super(`${refused.code}: ${refused.problem.detail} (request ${refused.problem.instance})`);
  }
}

/** The value; throws where it was refused. */
export function unwrap<T>(outcome: Outcome<T>): T {
  if (outcome.kind === "refused") throw new UnexpectedRefusal(outcome);
  return outcome.value;
}
