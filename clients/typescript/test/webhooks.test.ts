/** Messages as Stockade sends them, and as nobody may. */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { NotGenuine, Seen, verify } from "../src/webhooks.js";

/** The example of Standard Webhooks. */
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const SENT = 1614265330;
const HEADERS = {
  "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": String(SENT), "webhook-signature": SIGNATURE,
};
const BODY = Buffer.from('{"test": 2432232314}');
const NOW = { now: SENT * 1_000 };

test("a genuine message is read", () => {
  assert.deepEqual(verify(SECRET, HEADERS, BODY, NOW), { test: 2432232314 });
  assert.deepEqual(verify([OTHER, SECRET], new Headers(HEADERS), new Uint8Array(BODY), NOW), { test: 2432232314 });
  // While the secret is changed.
  const both = `v1,AAAA ${SIGNATURE} v2,BBBB`;
  assert.deepEqual(verify(SECRET, { ...HEADERS, "webhook-signature": both }, BODY, NOW), { test: 2432232314 });
  for (const late of [-300, 300]) verify(SECRET, HEADERS, BODY, { now: (SENT + late) * 1_000 });
});

test("bytes are signed, not the text that they make", () => {
  const body = Buffer.from(JSON.stringify({ note: "é\u2028" }));
  const key = Buffer.from(SECRET.slice(6), "base64");
  const mac = createHmac("sha256", key).update(Buffer.concat([Buffer.from(`a.${SENT}.`), body])).digest("base64");
  const headers = { ...HEADERS, "webhook-id": "a", "webhook-signature": `v1,${mac}` };
  assert.deepEqual(verify(SECRET, headers, body, NOW), { note: "é\u2028" });
});

test("what is not genuine is refused", () => {
  const refused: [string, object, Buffer, number][] = [
    [OTHER, {}, BODY, 0],
    [SECRET, { "webhook-id": "another" }, BODY, 0],
    [SECRET, { "webhook-timestamp": String(SENT + 1) }, BODY, 0],
    [SECRET, { "webhook-timestamp": `${SENT}.0` }, BODY, 0],
    [SECRET, { "webhook-timestamp": "" }, BODY, 0],
    [SECRET, { "webhook-signature": SIGNATURE.replace("v1,", "v1a,") }, BODY, 0],
    [SECRET, { "webhook-signature": SIGNATURE.slice(3) }, BODY, 0],
    [SECRET, { "webhook-signature": SIGNATURE.slice(0, -4) }, BODY, 0],
    [SECRET, { "webhook-signature": "v1," }, BODY, 0],
    [SECRET, { "webhook-signature": undefined }, BODY, 0],
    [SECRET, {}, Buffer.from('{"test": 2432232315}'), 0],
    [SECRET, {}, BODY, 301],
    [SECRET, {}, BODY, -301],
  ];
  for (const [secret, change, body, late] of refused) {
    const now = (SENT + late) * 1_000;
    assert.throws(() => verify(secret, { ...HEADERS, ...change }, body, { now }), NotGenuine, JSON.stringify(change));
  }
  assert.throws(() => verify([], HEADERS, BODY, NOW), NotGenuine);
  // Of 2021.
  assert.throws(() => verify(SECRET, HEADERS, BODY), NotGenuine);
});

test("repeats are dropped by id, and the oldest ids forgotten", () => {
  const seen = new Seen(2);
  assert.deepEqual(["a", "b", "a", "b", "c", "a"].map((id) => seen.isNew(id)), [true, true, false, false, true, true]);
  seen.forget("a");
  assert.equal(seen.isNew("a"), true);
});
