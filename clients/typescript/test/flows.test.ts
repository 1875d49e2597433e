/** What a storefront does, against a running service. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { Stockade, unwrap } from "../src/index.js";
import type { Outcome, PutSale, RefusalCode, Refused, Reservation, SaleClient } from "../src/index.js";
import { startService } from "./service.js";
import type { Service } from "./service.js";

let service: Service;
before(async () => { service = await startService(); });
after(() => service.stop());

async function saleOf(stock: Record<string, number>, rules: PutSale = {}): Promise<SaleClient> {
  const sale = new Stockade({ baseUrl: service.url }).sale(`t${randomUUID()}`);
  const skus = Object.entries(stock).map(([sku, initial]) => [sku, { initial }] as const);
  assert.equal(unwrap(await sale.put({ ...rules, stock: Object.fromEntries(skus) })).status, "open");
  return sale;
}

const key = () => randomUUID();

function cart(lines: Record<string, number>) {
  return { lines: Object.entries(lines).map(([sku, quantity]) => ({ sku, quantity })) };
}

/** `available held sold granted` */
async function level(sale: SaleClient, sku: string): Promise<string> {
  const { available, held, sold, granted } = unwrap(await sale.level(sku, { fresh: true }));
  return `${available} ${held} ${sold} ${granted}`;
}

function refused<Code extends RefusalCode>(outcome: Outcome<unknown>, code: Code): Extract<Refused, { code: Code }> {
  assert.equal(outcome.kind === "refused" ? outcome.code : outcome.kind, code);
  return outcome as Extract<Refused, { code: Code }>;
}

/** The deadline is the service's, so the test asks until it has passed. */
async function untilExpired(sale: SaleClient, id: string): Promise<Reservation> {
  const givenUp = Date.now() + 20_000;
  for (;;) {
    const reservation = unwrap(await sale.reservation(id));
    if (reservation.status === "expired") return reservation;
    assert.ok(Date.now() < givenUp, "it does not expire");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("one SKU: reserve, confirm, sold out", async () => {
  const sale = await saleOf({ shirt: 2 });
  const cartId = key();
  const held = await sale.reserve(cartId, { buyer: "ann", ...cart({ shirt: 2 }) });
  assert.ok(held.kind === "done" && held.word === "held" && !held.replayed);
  assert.equal(held.value.status, "held");
  const again = await sale.reserve(cartId, { buyer: "ann", ...cart({ shirt: 2 }) });
  assert.ok(again.kind === "done" && again.replayed && again.value.id === held.value.id);
  assert.equal(unwrap(await sale.reservationOfKey(cartId))?.id, held.value.id);
  assert.equal(unwrap(await sale.reservationOfKey("nobody's; \"key\"")), null);

  const soldOut = refused(await sale.reserve(key(), cart({ shirt: 1 })), "sold_out");
  assert.deepEqual(soldOut.problem.shortfalls, [{ sku: "shirt", requested: 1, available: 0, held: 2 }]);
  assert.equal(soldOut.problem.may_return, true);
  refused(await sale.reserve(cartId, cart({ shirt: 1 })), "idempotency_key_reused");
  refused(await sale.reserve(key(), cart({ shoe: 1 })), "unknown_sku");
  refused(await sale.reserve(key(), { lines: [] }), "invalid_request");

  const sold = unwrap(await sale.confirm(held.value.id));
  assert.equal(sold.status, "confirmed");
  assert.equal(unwrap(await sale.confirm(held.value.id)).ended_at, sold.ended_at);
  assert.equal(await level(sale, "shirt"), "0 0 2 2");
  assert.equal(unwrap(await sale.buyer("ann")).limit, null);
});

test("a cart of two: paid after its deadline, taken again, replaced", async () => {
  const sale = await saleOf({ shirt: 3, shoe: 3 });
  const late = unwrap(await sale.reserve(key(), { ...cart({ shirt: 1, shoe: 1 }), hold_seconds: 1 }));
  await untilExpired(sale, late.id);
  const expired = refused(await sale.confirm(late.id), "hold_expired");
  assert.deepEqual(expired.problem.retake, { possible: true, shortfalls: [] });
  assert.equal(expired.problem.reservation.id, late.id);
  const retaken = await sale.confirm(late.id, { if_expired: "retake" });
  assert.ok(retaken.kind === "done" && retaken.word === "retaken" && retaken.value.retaken);
  assert.equal(await level(sale, "shoe"), "2 0 1 3");

  const first = unwrap(await sale.reserve(key(), cart({ shirt: 2, shoe: 1 })));
  const second = unwrap(await sale.reserve(key(), { ...cart({ shirt: 1, shoe: 2 }), replaces: first.id }));
  assert.equal(second.replaces, first.id);
  const replaced = unwrap(await sale.reservation(first.id));
  assert.deepEqual([replaced.status, replaced.replaced_by], ["released", second.id]);
  refused(await sale.confirm(first.id), "already_released");
  assert.deepEqual([await level(sale, "shirt"), await level(sale, "shoe")], ["1 1 1 3", "0 2 1 3"]);
  const extended = unwrap(await sale.extend(second.id, key(), 1_800));
  assert.ok(Date.parse(extended.expires_at ?? "") > Date.parse(second.expires_at ?? ""));
  assert.equal(unwrap(await sale.release(second.id)).status, "released");
});

test("a late payment whose units are gone is a refund", async () => {
  const sale = await saleOf({ shirt: 1 });
  const late = unwrap(await sale.reserve(key(), { ...cart({ shirt: 1 }), hold_seconds: 1 }));
  await untilExpired(sale, late.id);
  unwrap(await sale.reserve(key(), cart({ shirt: 1 })));
  assert.equal(refused(await sale.confirm(late.id), "hold_expired").problem.retake?.possible, false);
  refused(await sale.confirm(late.id, { if_expired: "retake" }), "sold_out");
});

test("refund of one line, with and without restock", async () => {
  const sale = await saleOf({ shirt: 5, shoe: 5 });
  const { id } = unwrap(await sale.reserve(key(), cart({ shirt: 2, shoe: 2 })));
  unwrap(await sale.confirm(id));
  const refund = key();
  for (const replayed of [false, true]) {
    const outcome = await sale.returnReservation(id, refund, cart({ shirt: 1 }));
    assert.ok(outcome.kind === "done" && outcome.replayed === replayed);
    assert.equal(await level(sale, "shirt"), "4 0 1 5");
  }
  const damaged = unwrap(await sale.returnReservation(id, key(), { ...cart({ shoe: 2 }), restock: false }));
  assert.equal(damaged.status, "confirmed");
  assert.equal(await level(sale, "shoe"), "3 0 0 3");
  refused(await sale.returnReservation(id, key(), cart({ shoe: 1 })), "quantity_exceeds_reservation");
});

test("bulk: each request has its own outcome", async () => {
  const sale = await saleOf({ shirt: 300 });
  const requests = Array.from({ length: 500 }, (_, n) => ({ idempotency_key: `import ${n}`, ...cart({ shirt: 1 }) }));
  const first = unwrap(await sale.reserveBulk(requests));
  assert.equal(first.filter((one) => one.kind === "done" && one.word === "held").length, 300);
  assert.equal(first.filter((one) => one.kind === "refused" && one.code === "sold_out").length, 200);
  const again = await sale.reserveBulk(requests.slice(0, 10));
  assert.ok(again.kind === "done" && again.replayed && again.value.every((one) => one.kind === "done" && one.replayed));
  const bad = refused(await sale.reserveBulk([{ idempotency_key: "k", lines: [] }]), "invalid_request");
  assert.equal(bad.problem.errors[0]?.field, "/requests/0/lines");
  assert.equal(await level(sale, "shirt"), "0 300 0 300");
});

test("restock during a sale", async () => {
  const sale = await saleOf({ shirt: 1 });
  unwrap(await sale.reserve(key(), cart({ shirt: 1 })));
  const [cartId, delivery] = [key(), key()];
  refused(await sale.reserve(cartId, cart({ shirt: 2 })), "sold_out");
  for (let n = 0; n < 2; n++) {
    assert.equal(unwrap(await sale.adjust("shirt", delivery, { delta: 5, reason: "delivery 7" })).level.granted, 6);
  }
  unwrap(await sale.reserve(cartId, cart({ shirt: 2 })));
  assert.equal(refused(await sale.adjust("shirt", key(), { delta: -4, reason: "lost" }), "insufficient_available").problem.level.available, 3);
  assert.deepEqual(unwrap(await sale.adjustments("shirt")).items.map((entry) => entry.delta), [1, 5]);
  unwrap(await sale.pause());
  refused(await sale.reserve(key(), cart({ shirt: 1 })), "sale_paused");
  unwrap(await sale.resume());
  const kinds = unwrap(await sale.events({ limit: 500 })).items.map((event) => event.type.split(".").pop());
  for (const kind of ["sold_out", "back_in_stock", "adjusted", "paused", "resumed"]) assert.ok(kinds.includes(kind), kind);
});
