/** The code of docs/recipes/checkout.md, as it stands there. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Stockade, unwrap } from "../src/index.js";
import type { SaleClient } from "../src/index.js";
import { abandon, beginPayment, changeCart, paid } from "../recipes/checkout.js";
import type { Cart } from "../recipes/checkout.js";
import { ROOT, startService } from "./service.js";
import type { Service } from "./service.js";

let service: Service;
before(async () => { service = await startService(); });
after(() => service.stop());

const saved: string[] = [];
const save = async (cart: Cart) => { saved.push(JSON.stringify(cart)); };

async function shop(rules: object = {}): Promise<{ sale: SaleClient; cart: (buyer: string) => Cart }> {
  const sale = new Stockade({ baseUrl: service.url }).sale(`t${randomUUID()}`);
  unwrap(await sale.put({ stock: { shirt: { initial: 5 }, shoe: { initial: 1 } }, ...rules }));
  return { sale, cart: (buyer) => ({ id: randomUUID(), buyer, version: 0, pending: null, reservation: null }) };
}

const lines = (shirt: number, shoe: number) =>
  [{ sku: "shirt", quantity: shirt }, { sku: "shoe", quantity: shoe }].filter((line) => line.quantity > 0);

async function levels(sale: SaleClient) {
  return unwrap(await sale.levels({ fresh: true })).items.map(({ sku, available, held, sold }) => `${sku} ${available} ${held} ${sold}`);
}

test("the page shows the code that is tested", () => {
  const page = readFileSync(join(ROOT, "docs/recipes/checkout.md"), "utf8");
  const code = readFileSync(join(ROOT, "clients/typescript/recipes/checkout.ts"), "utf8");
  const blocks = [...page.matchAll(/```ts\n(.*?)```/gs)].map((block) => block[1] ?? "");
  assert.ok(blocks.length >= 4);
  for (const block of blocks) assert.ok(code.includes(block), `not in recipes/checkout.ts:\n${block}`);
});

test("a cart is held, changed, extended, paid", async () => {
  const { sale, cart } = await shop({ buyer_limit: 4 });
  const [ann, bob] = [cart("ann"), cart("bob")];
  assert.equal((await changeCart(sale, ann, lines(1, 0), save)).kind, "held");
  assert.equal((await changeCart(sale, ann, lines(2, 1), save)).kind, "held");
  assert.deepEqual(await levels(sale), ["shirt 3 2 0", "shoe 0 1 0"]);
  assert.equal((JSON.parse(saved.at(-1) ?? "") as Cart).reservation, ann.reservation);
  const short = await changeCart(sale, bob, lines(1, 1), save);
  assert.ok(short.kind === "short" && short.mayReturn && short.shortfalls?.[0]?.sku === "shoe");
  const before = ann.reservation;
  assert.deepEqual(await changeCart(sale, ann, lines(4, 1), save), { kind: "limit", limit: 4 });
  assert.equal(ann.reservation, before);

  assert.equal(await beginPayment(sale, ann, "pay 7"), "pay");
  for (let n = 0; n < 2; n++) assert.equal(await paid(sale, before ?? "", "pay 7"), "ship");
  assert.deepEqual(await levels(sale), ["shirt 3 0 2", "shoe 0 0 1"]);
  await changeCart(sale, bob, lines(1, 0), save);
  const given = bob.reservation ?? "";
  await abandon(sale, bob, save);
  assert.equal(await beginPayment(sale, bob, "pay 8"), "lost");
  assert.equal(await paid(sale, given, "pay 8"), "refund");
  assert.deepEqual(await levels(sale), ["shirt 3 0 2", "shoe 0 0 1"]);
  unwrap(await sale.pause());
  assert.deepEqual(await changeCart(sale, cart("eve"), lines(1, 0), save), { kind: "closed", opensAt: null });
});

test("a change whose answer was lost is found out before the next", async () => {
  const { sale, cart } = await shop();
  const ann = cart("ann");
  await changeCart(sale, ann, lines(1, 0), save);
  const name = unwrap(await sale.get()).sale;
  const losing: typeof fetch = async (...call) => {
    await fetch(...call);
    throw new Error("lost");
  };
  const lost = new Stockade({ baseUrl: service.url, triesMax: 1, fetch: losing }).sale(name);
  await assert.rejects(changeCart(lost, ann, lines(2, 0), save), { name: "NoAnswer", outcome: "unknown" });
  assert.deepEqual(await levels(sale), ["shirt 3 2 0", "shoe 1 0 0"]);
  // As another process reads it after a crash.
  const stored = JSON.parse(saved.at(-1) ?? "") as Cart;
  assert.equal((await changeCart(sale, stored, lines(3, 1), save)).kind, "held");
  assert.deepEqual(await levels(sale), ["shirt 2 3 0", "shoe 0 1 0"]);
});

test("a late payment ships if the units are there, and is a refund if not", async () => {
  const { sale } = await shop();
  const late = unwrap(await sale.reserve("late", { lines: lines(2, 0), hold_seconds: 1 }));
  const tooLate = unwrap(await sale.reserve("too late", { lines: lines(0, 1), hold_seconds: 1 }));
  const givenUp = Date.now() + 20_000;
  while (unwrap(await sale.reservation(tooLate.id)).status !== "expired") {
    assert.ok(Date.now() < givenUp);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  unwrap(await sale.reserve("quicker", { lines: lines(0, 1) }));
  assert.equal(await paid(sale, late.id, "pay 1"), "ship");
  assert.equal(await paid(sale, tooLate.id, "pay 2"), "refund");
  await assert.rejects(paid(sale, randomUUID(), "pay 3"), /unknown_reservation/);
  assert.deepEqual(await levels(sale), ["shirt 3 0 2", "shoe 0 1 0"]);
});
