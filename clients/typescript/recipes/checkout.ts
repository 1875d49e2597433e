/** The usual storefront: docs/recipes/checkout.md tells it step by step. */

import type { Line, Outcome, Problem, Reservation, Reserve, SaleClient } from "stockade-client";

/** What the shop keeps of a cart, in its own database. */
export interface Cart {
  id: string;
  buyer: string;
  /** Counts the changes: each is one effect, and has a key of its own. */
  version: number;
  /** The change that has no answer yet. */
  pending: Reserve | null;
  /** The hold, once there is one. */
  reservation: string | null;
}

type Save = (cart: Cart) => Promise<void>;

export type Shown =
  | { kind: "held"; until: string | null }
  | { kind: "short"; shortfalls: Problem["shortfalls"]; mayReturn: boolean }
  | { kind: "limit"; limit: number }
  | { kind: "closed"; opensAt: string | null };

const CART_SECONDS = 600;
const PAYMENT_SECONDS = 900;

/** The shopper changed the cart: one hold for all of it, in place of the one before. */
export async function changeCart(sale: SaleClient, cart: Cart, lines: Line[], save: Save): Promise<Shown> {
  // A crash, or no answer at all: the same key and request find out before anything new is asked for.
  if (cart.pending !== null) await finish(sale, cart, cart.pending, save);
  cart.version += 1;
  cart.pending = { buyer: cart.buyer, lines, reference: cart.id, replaces: cart.reservation };
  // The clock of the cart starts once: without `hold_seconds` a change keeps the deadline.
  if (cart.reservation === null) cart.pending.hold_seconds = CART_SECONDS;
  await save(cart);
  return shown(await finish(sale, cart, cart.pending, save));
}

async function finish(sale: SaleClient, cart: Cart, request: Reserve, save: Save): Promise<Outcome<Reservation>> {
  const outcome = await sale.reserve(`${cart.id}/${cart.version}`, request);
  cart.pending = null;
  if (outcome.kind === "done") cart.reservation = outcome.value.id;
  // It was held once, and took the place of the one before.
  else if (outcome.code === "hold_expired") cart.reservation = outcome.problem.reservation.id;
  await save(cart);
  return outcome;
}

function shown(outcome: Outcome<Reservation>): Shown {
  if (outcome.kind === "done") return { kind: "held", until: outcome.value.expires_at };
  // Refused: nothing has changed, and the hold before is still there.
  switch (outcome.code) {
    case "sold_out":
      return { kind: "short", shortfalls: outcome.problem.shortfalls, mayReturn: outcome.problem.may_return };
    case "buyer_limit":
    case "buyer_holds":
      return { kind: "limit", limit: outcome.problem.limit };
    case "sale_not_open":
      return { kind: "closed", opensAt: outcome.problem.opens_at };
    case "sale_paused":
    case "sale_closed":
      return { kind: "closed", opensAt: null };
    default:
      throw new Error(`${outcome.code}: ${outcome.problem.detail}`); // a mistake of ours
  }
}

/** The shopper goes to pay: time for the payment from now on. `lost`: show the cart again. */
export async function beginPayment(sale: SaleClient, cart: Cart, payment: string): Promise<"pay" | "lost"> {
  if (cart.reservation === null) return "lost";
  const outcome = await sale.extend(cart.reservation, payment, PAYMENT_SECONDS);
  if (outcome.kind === "done") return "pay";
  // It cannot be extended that far; what is left of it may do, and a late payment is retaken.
  return outcome.code === "hold_too_long" ? "pay" : "lost";
}

/** The money is there, perhaps late. Call it again until it answers: it ships once, or refunds. */
export async function paid(sale: SaleClient, reservation: string, payment: string): Promise<"ship" | "refund"> {
  const outcome = await sale.confirm(reservation, { if_expired: "retake", reference: payment });
  if (outcome.kind === "done") return "ship";
  switch (outcome.code) {
    case "sold_out": // late, and others have the units
    case "buyer_limit": // late, and the buyer has bought as many meanwhile
    case "buyer_holds":
    case "already_released":
      return "refund";
    default:
      throw new Error(`${outcome.code}: ${outcome.problem.detail}`); // a mistake of ours: no reason to pay
  }
}

/** The shopper turned back: others can have the units at once. */
export async function abandon(sale: SaleClient, cart: Cart, save: Save): Promise<void> {
  if (cart.pending !== null) await finish(sale, cart, cart.pending, save);
  if (cart.reservation !== null) await sale.release(cart.reservation);
  cart.reservation = null;
  await save(cart);
}
