/** What a receiver of webhooks needs: the check of the signature, as Standard Webhooks has it, and a way to drop repeats. */

import { createHmac, timingSafeEqual } from "node:crypto";
import type { Event } from "./schema.js";

/** The message is not from Stockade, was changed, or is too old. Answer 401, and do nothing. */
export class NotGenuine extends Error {
  override readonly name = "NotGenuine";
}

/** Those of `fetch`, or of Node's own server: names in lower case. */
export type MessageHeaders = Headers | Record<string, string | string[] | undefined>;

export interface VerifyOptions {
  /** How far the message's time may be from ours. Clocks differ; an older one may be a recording. */
  toleranceSeconds?: number;
  /** Our time, in milliseconds. */
  now?: number;
}

/**
 * The event of a genuine message; throws `NotGenuine` otherwise. `body` is what came, byte for byte: JSON that was read
 * and written again is another text. Several secrets: while one is changed, and where several endpoints send to one
 * place.
 */
export function verify(
  secrets: string | readonly string[], headers: MessageHeaders, body: Uint8Array,
  { toleranceSeconds = 300, now = Date.now() }: VerifyOptions = {},
): Event {
  const header = (name: string) => String((headers instanceof Headers ? headers.get(name) : headers[name]) ?? "");
  const [id, timestamp] = [header("webhook-id"), header("webhook-timestamp")];
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now / 1_000 - Number(timestamp)) > toleranceSeconds) {
    throw new NotGenuine("it was not sent now");
  }
  // While a secret is changed, it is signed with both.
  const signatures = header("webhook-signature").split(" ").filter((one) => one.startsWith("v1,"));
  const theirs = signatures.map((one) => Buffer.from(one.slice(3), "base64"));
  for (const secret of typeof secrets === "string" ? [secrets] : secrets) {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    const ours = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
    if (theirs.some((one) => one.length === ours.length && timingSafeEqual(one, ours))) {
      return JSON.parse(Buffer.from(body).toString()) as Event;
    }
  }
  throw new NotGenuine("no signature is right");
}

/**
 * Ids of events that were taken in; the oldest are forgotten, and all when the process ends. It is for a start: a real
 * receiver has a table whose unique column is the id, and writes to it in the transaction that does the work.
 */
export class Seen {
  readonly #ids = new Set<string>();

  constructor(readonly idsMax = 100_000) {}

  /** True for the first of an id. */
  isNew(id: string): boolean {
    if (this.#ids.has(id)) return false;
    this.#ids.add(id);
    if (this.#ids.size > this.idsMax) this.#ids.delete(this.#ids.values().next().value ?? id);
    return true;
  }

  /** The work failed: answer 5xx, and let it come again. */
  forget(id: string): void {
    this.#ids.delete(id);
  }
}
