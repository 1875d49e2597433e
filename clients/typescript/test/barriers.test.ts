/** Barriers through the client. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { Stockade, unwrap } from "../src/index.js";
import { startService } from "./service.js";
import type { Service } from "./service.js";

let service: Service;
before(async () => { service = await startService(); });
after(() => service.stop());

const barrier = () => new Stockade({ baseUrl: service.url }).barrier(`t${randomUUID()}`);

test("the last arrival fires, and those who wait hear of it", async () => {
  const nightly = barrier();
  const spec = { participants: ["p1", "p2", "p3"], notify: [{ url: "http://127.0.0.1:9/" }] };
  assert.match(unwrap(await nightly.put(spec)).notify[0]?.secret ?? "", /^whsec_/);
  assert.equal(unwrap(await nightly.arrive({ participant: "p1" })).fired, false);
  assert.equal(unwrap(await nightly.arrive({ participant: "p2", outcome: "failed", note: "disk full" })).failed, 1);
  assert.deepEqual(unwrap(await nightly.participants("failed")).items.map((one) => one.note), ["disk full"]);
  const waiting = nightly.wait();
  unwrap(await nightly.arrive({ participant: "p2" }));
  for (let n = 0; n < 2; n++) assert.equal(unwrap(await nightly.arrive({ participant: "p3" })).fired, true);
  assert.equal(unwrap(await waiting).status, "completed");
  assert.equal(unwrap(await nightly.put(spec)).status, "completed");
  const late = await nightly.arrive({ participant: "p4" });
  assert.ok(late.kind === "refused" && late.code === "barrier_ended" && late.problem.barrier.completed === 3);
});

test("a barrier is sealed when all are declared, moved, and cancelled", async () => {
  const open = barrier();
  unwrap(await open.put({ deadline_seconds: 60 }));
  assert.equal((await open.seal()).kind, "refused");
  unwrap(await open.declare(["a", "b", "c"]));
  const page = unwrap(await open.participants("missing", { limit: 2 }));
  assert.deepEqual(page.items.map((one) => one.participant), ["a", "b"]);
  const rest = unwrap(await open.participants("missing", { after: page.next ?? "" }));
  assert.deepEqual(rest.items.map((one) => one.participant), ["c"]);
  const few = await open.seal({ expected: 2 });
  assert.ok(few.kind === "refused" && few.code === "too_many_arrivals" && few.problem.declared === 3);
  assert.equal(unwrap(await open.seal()).expected, 3);
  const moved = unwrap(await open.extend(120));
  assert.ok(moved.deadline > unwrap(await barrier().put({ deadline_seconds: 60 })).deadline);
  assert.equal(unwrap(await open.wait(0)).status, "open");
  assert.equal(unwrap(await open.cancel()).status, "cancelled");
  assert.equal(unwrap(await open.get()).status, "cancelled");
});
