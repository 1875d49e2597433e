/** Lost answers: always the same key again, never another. */

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { createServer, request as forward } from "node:http";
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { NoAnswer, Stockade, unwrap } from "../src/index.js";
import type { Options, Reservation } from "../src/index.js";
import { startService } from "./service.js";
import type { Service } from "./service.js";

const one = { lines: [{ sku: "shirt", quantity: 1 }] };
const servers: Server[] = [];
let service: Service;
before(async () => { service = await startService(); });
after(async () => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  await service.stop();
});

async function listen(handler: RequestListener): Promise<string> {
  const server = createServer(handler);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Seen { key: string | undefined; body: string; at: number }

/** A server that answers what the test says, one answer a request, and remembers what it was sent. */
async function scripted(answers: ((response: ServerResponse, request: IncomingMessage) => void)[], options: Partial<Options> = {}) {
  const seen: Seen[] = [];
  const baseUrl = await listen(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    seen.push({ key: request.headers["idempotency-key"] as string | undefined, body, at: Date.now() });
    const answer = answers[seen.length - 1] ?? (() => response.destroy());
    answer(response, request);
  });
  const sale = new Stockade({ baseUrl, backoffMs: 1, backoffMsMax: 50, ...options }).sale("drop");
  return { sale, seen };
}

const held = (response: ServerResponse) => {
  response.writeHead(201, { "Content-Type": "application/json", "Stockade-Outcome": "held" });
  response.end(JSON.stringify({ id: "7", status: "held" }));
};
const problem = (status: number, code: string, more: object = {}, headers: Record<string, string> = {}) =>
  (response: ServerResponse) => {
    response.writeHead(status, { "Content-Type": "application/problem+json", ...headers });
    response.end(JSON.stringify({ code, status, detail: code, instance: "r", retryable: status === 503, ...more }));
  };
const busy = problem(503, "store_busy", { outcome: "not_applied" });
const cut = (response: ServerResponse) => {
  response.writeHead(201, { "Content-Type": "application/json", "Content-Length": "100" });
  response.write("{\"id\":", () => response.destroy());
};
const silent = () => {};

test("the same bytes and the same key go again after each kind of lost answer", async () => {
  const lost = [busy, (response: ServerResponse) => response.destroy(), cut, silent, problem(502, "x", { retryable: undefined }), held];
  const { sale, seen } = await scripted(lost, { timeoutMs: 2_000 });
  const outcome = await sale.reserve("cart \"7\"; a\\b", one);
  assert.equal(unwrap(outcome).id, "7");
  assert.equal(seen.length, 6);
  for (const { key, body } of seen) assert.deepEqual([key, body], ["\"cart \\\"7\\\"; a\\\\b\"", JSON.stringify(one)]);
});

test("an answer is not asked for again", async () => {
  for (const [status, code] of [[409, "sold_out"], [422, "invalid_request"], [404, "unknown_sale"], [410, "hold_expired"]] as const) {
    const { sale, seen } = await scripted([problem(status, code), held]);
    const outcome = await sale.reserve("k", one);
    assert.ok(outcome.kind === "refused" && outcome.code === code);
    assert.equal(seen.length, 1);
  }
});

test("Retry-After is waited for, and not for ever", async () => {
  const soon = problem(503, "queue_full", { outcome: "not_applied" }, { "Retry-After": "1" });
  const patient = await scripted([soon, held], { backoffMsMax: 5_000 });
  unwrap(await patient.sale.reserve("k", one));
  const [first, second] = patient.seen;
  assert.ok(first !== undefined && second !== undefined && second.at - first.at >= 990);
  const late = problem(503, "queue_full", { outcome: "not_applied" }, { "Retry-After": "3600" });
  const capped = await scripted([late, held], { backoffMsMax: 20 });
  unwrap(await capped.sale.reserve("k", one));
});

test("without an answer it says whether it may have been done", async () => {
  const refusedTwice = await scripted([busy, busy], { triesMax: 2 });
  await assert.rejects(refusedTwice.sale.reserve("k", one), (error) => {
    assert.ok(error instanceof NoAnswer);
    assert.deepEqual([error.outcome, error.key, error.tries, error.problem?.code], ["not_applied", "k", 2, "store_busy"]);
    return true;
  });
  // One try that may have had its effect is enough.
  const lostOnce = await scripted([cut, busy], { triesMax: 2 });
  await assert.rejects(lostOnce.sale.reserve("k", one), { name: "NoAnswer", outcome: "unknown" });
  const broken = await scripted([problem(500, "internal", { outcome: "unknown" }), held]);
  await assert.rejects(broken.sale.reserve("k", one), { name: "NoAnswer", outcome: "unknown", tries: 1 });
  const elsewhere = await scripted([(response) => response.writeHead(404).end("<html>"), held]);
  await assert.rejects(elsewhere.sale.reserve("k", one), { name: "NoAnswer", outcome: "not_applied", tries: 1 });
});

test("a signal ends the call, while it waits for an answer or for its next try", async () => {
  const asking = new AbortController();
  const waiting = await scripted([() => asking.abort(new Error("gone"))]);
  await assert.rejects(waiting.sale.reserve("k", one, { signal: asking.signal }), (error) => {
    assert.ok(error instanceof NoAnswer && error.outcome === "unknown" && (error.cause as Error).message === "gone");
    return true;
  });
  const pausing = new AbortController();
  const refusing = await scripted([(response) => {
    problem(503, "queue_full", { outcome: "not_applied" }, { "Retry-After": "60" })(response);
    setTimeout(() => pausing.abort(), 50);
  }], { backoffMsMax: 60_000 });
  await assert.rejects(refusing.sale.reserve("k", one, { signal: pausing.signal }), { name: "NoAnswer", outcome: "not_applied" });
  assert.equal(refusing.seen.length, 1);
  await assert.rejects(refusing.sale.reserve("k", one, { signal: AbortSignal.abort() }), { name: "NoAnswer" });
  assert.equal(refusing.seen.length, 1);
});

test("bulk sends only what was not answered again", async () => {
  const requests = ["a", "b", "c"].map((key) => ({ idempotency_key: key, ...one }));
  const result = (status: number, code?: string) => ({
    status, reservation: code === undefined ? { id: "7" } : null,
    problem: code === undefined ? null : { code, status, retryable: status === 503, outcome: status === 503 ? "not_applied" : undefined },
  });
  const results = (...all: object[]) => (response: ServerResponse) => response.writeHead(200).end(JSON.stringify({ results: all }));
  const { sale, seen } = await scripted([
    results(result(201), result(503, "queue_full"), result(503, "queue_full")), results(result(409, "sold_out"), result(503, "queue_full")),
  ], { triesMax: 2 });
  const outcomes = unwrap(await sale.reserveBulk(requests));
  const said = outcomes.map((one) => (one.kind === "refused" ? one.code : one.kind === "done" ? one.word : one.outcome));
  assert.deepEqual(said, ["held", "sold_out", "not_applied"]);
  const keys = seen.map(({ body }) => JSON.parse(body).requests.map((one: { idempotency_key: string }) => one.idempotency_key));
  assert.deepEqual(keys, [["a", "b", "c"], ["b", "c"]]);
});

/** Random numbers that a failed run can be repeated with. */
function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

test("a client whose answers are cut 30 % of the time has one hold a key", async () => {
  const seed = Number(process.env["STOCKADE_TEST_SEED"] ?? randomInt(2 ** 31));
  console.log(`# STOCKADE_TEST_SEED=${seed}`);
  const next = random(seed);
  let cuts = 0;
  const target = new URL(service.url);
  const baseUrl = await listen((incoming, outgoing) => {
    const { method, url: path, headers } = incoming;
    const onward = forward({ host: target.hostname, port: target.port, method, path, headers }, async (answer) => {
      const chunks: Buffer[] = [];
      for await (const chunk of answer) chunks.push(chunk);
      const body = Buffer.concat(chunks);
      const isCut = next() < 0.3;
      const kept = isCut ? Math.floor(next() * body.length) : body.length;
      if (isCut) cuts += 1;
      if (isCut && next() < 0.5) return incoming.socket.destroy();
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      outgoing.write(body.subarray(0, kept), () => (isCut ? incoming.socket.destroy() : outgoing.end()));
    });
    onward.on("error", () => incoming.socket.destroy());
    incoming.pipe(onward);
  });
  // 40 tries: that all are cut happens once in 10^20 calls.
  const cutOff = new Stockade({ baseUrl, triesMax: 40, backoffMs: 1, backoffMsMax: 5 }).sale("cut");
  const straight = new Stockade({ baseUrl: service.url }).sale("cut");
  unwrap(await straight.put({ stock: { shirt: { initial: 1_000 } } }));

  const keys = Array.from({ length: 150 }, (_, n) => `cart ${n}`);
  const made = await Promise.all(keys.map(async (key) => unwrap(await cutOff.reserve(key, { ...one, reference: key }))));
  const bulk = Array.from({ length: 50 }, (_, n) => ({ idempotency_key: `bulk ${n}`, reference: `bulk ${n}`, ...one }));
  for (const outcome of unwrap(await cutOff.reserveBulk(bulk))) {
    assert.ok(outcome.kind === "done");
    made.push(outcome.value);
  }
  const ids = (reservations: Reservation[]) => reservations.map(({ id, reference }) => `${reference} ${id}`).sort();
  for (const { reference, id } of made) {
    assert.equal(unwrap(await straight.reservationOfKey(reference ?? ""))?.id, id);
  }
  assert.equal(new Set(ids(made)).size, 200);
  const { available, held } = unwrap(await straight.level("shirt", { fresh: true }));
  assert.deepEqual([available, held], [800, 200]);
  assert.ok(cuts >= 20, `only ${cuts} answers were cut`);

  // Settling is as safe.
  await Promise.all(made.slice(0, 50).map(async ({ id }) => unwrap(await cutOff.confirm(id))));
  const level = unwrap(await straight.level("shirt", { fresh: true }));
  assert.deepEqual([level.available, level.held, level.sold], [800, 150, 50]);
});
