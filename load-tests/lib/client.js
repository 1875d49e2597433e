/** The calls of a storefront. Each is counted by its verb and by the word of `Stockade-Outcome`; bodies are not read. */

import http from 'k6/http';
import { sleep } from 'k6';
import { accepted, acceptedMs, failed, refused, refusedMs, unaccounted, unexpected, unknownUnits } from './metrics.js';

/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {{ sku: string, quantity: number }} Line */
/** @typedef {'accepted' | 'refused' | 'failed' | 'unexpected'} Kind */
/** @typedef {{ kind: Kind, outcome: string, response: import('k6/http').Response }} Answer */
/** @typedef {Record<string, string[]>} Words outcomes by verb */

/** What a script may be told. Any other answer is `unexpected`. @typedef {{ accepted: Words, refused?: Words }} Expected */

// 409 and 410 are answers. Everything else but 2xx is a failed request, for k6 too.
http.setResponseCallback(http.expectedStatuses({ min: 200, max: 299 }, 409, 410));

/** A payment asks until it knows: so often, with such a pause. */
const SETTLE_TRIES = 20;
const SETTLE_PAUSE_S = 0.25;

/**
 * Answers without the header: reads, and none at all.
 *
 * @type {Record<number, string>}
 */
const OTHER_WORDS = { 0: 'no_answer', 200: 'read' };

export const someBuyer = () => `buyer-${crypto.randomUUID()}`;

/** @param {Line[]} lines */
export const unitsOf = (lines) => lines.reduce((sum, line) => sum + line.quantity, 0);

/**
 * What goes with every call.
 *
 * @param {Settings} settings
 * @returns {Record<string, string>}
 */
export function headersOf({ API_KEY }) {
  return { 'Content-Type': 'application/json', ...(API_KEY ? { Authorization: `Bearer ${API_KEY}` } : {}) };
}

export class Client {
  /**
   * @param {Settings} settings
   * @param {Expected} expected
   */
  constructor(settings, expected) {
    this.settings = settings;
    this.expected = expected;
    /** @type {Set<string>} */
    this.told = new Set();
    this.headers = headersOf(settings);
  }

  /**
   * What k6 wants to have for a call: method, URL, body, parameters.
   *
   * @param {string} verb
   * @param {string} method
   * @param {string} path
   * @param {object | null} body
   * @param {{ key?: string, text?: boolean }} options `text`: keep the body of the answer
   */
  request(verb, method, path, body, { key, text = false }) {
    const headers = key ? { ...this.headers, 'Idempotency-Key': key } : this.headers;
    // Named by the verb: the path has ids in it, and each would be a series of its own.
    /** @type {import('k6/http').Params} */
    const params = { headers, tags: { name: verb }, responseType: text ? 'text' : 'none' };
    return { method, url: `${this.settings.BASE_URL}${path}`, body: body && JSON.stringify(body), params };
  }

  /**
   * One call, counted.
   *
   * @param {string} verb
   * @param {string} method
   * @param {string} path
   * @param {object | null} [body]
   * @param {{ key?: string, text?: boolean }} [options]
   * @returns {Answer}
   */
  call(verb, method, path, body = null, options = {}) {
    const { url, body: raw, params } = this.request(verb, method, path, body, options);
    return this.count(verb, http.request(method, url, raw, params));
  }

  /**
   * Several calls at the same moment.
   *
   * @param {string} verb
   * @param {ReturnType<Client['request']>[]} requests
   * @returns {Answer[]}
   */
  batch(verb, requests) {
    return http.batch(requests).map((response) => this.count(verb, response));
  }

  /**
   * @param {string} verb
   * @param {import('k6/http').Response} response
   * @returns {Answer}
   */
  count(verb, response) {
    const { status, timings } = response;
    const outcome = response.headers['Stockade-Outcome'] || OTHER_WORDS[status] || `status_${status}`;
    const waited = timings.blocked + timings.connecting + timings.tls_handshaking + timings.duration;
    /** @type {Kind} */
    let kind = 'unexpected';
    if (status === 0 || status >= 500) {
      kind = 'failed';
      failed.add(1, { verb, outcome });
      this.tell(kind, verb, outcome, response);
    } else if (status < 300 && this.expected.accepted[verb]?.includes(outcome)) {
      kind = 'accepted';
      accepted.add(1, { verb, outcome });
      acceptedMs.add(waited, { verb });
    } else if ((status === 409 || status === 410) && this.expected.refused?.[verb]?.includes(outcome)) {
      kind = 'refused';
      refused.add(1, { verb, outcome });
      refusedMs.add(waited, { verb });
    } else {
      unexpected.add(1, { verb, outcome });
      this.tell(kind, verb, outcome, response);
    }
    return { kind, outcome, response };
  }

  /**
   * Says what no summary can list beforehand: once a VU and word.
   *
   * @param {Kind} kind
   * @param {string} verb
   * @param {string} outcome
   * @param {import('k6/http').Response} response
   */
  tell(kind, verb, outcome, response) {
    const words = `${kind}: ${verb} is answered ${outcome}`;
    // k6 ends the run, and what is under way with it: nobody's failure.
    if (this.told.has(words) || response.error === 'context canceled') return;
    this.told.add(words);
    console.warn(`${words} (${response.status} ${response.error || response.headers['X-Request-Id'] || ''})`);
  }

  /**
   * Looks at a level, as a product page does: from the service's cache.
   *
   * @param {string} sale
   * @param {string} sku
   */
  level(sale, sku) {
    this.call('level', 'GET', `/v1/sales/${sale}/stock/${sku}`);
  }

  /**
   * Reserves. The id of the hold, or null: no hold, for whatever reason.
   *
   * @param {string} sale
   * @param {Line[]} lines
   * @param {string} [buyer] somebody new, unless said
   */
  reserve(sale, lines, buyer = someBuyer()) {
    return this.take('reserve', sale, { buyer, lines });
  }

  /**
   * Changes a buyer's cart in one step: the lines of the old hold come back and these are taken, or nothing changes.
   *
   * @param {string} sale
   * @param {string} replaces
   * @param {Line[]} lines
   * @param {string} buyer
   */
  replace(sale, replaces, lines, buyer) {
    return this.take('replace', sale, { buyer, lines, replaces });
  }

  /**
   * @param {string} verb
   * @param {string} sale
   * @param {object} body
   */
  take(verb, sale, body) {
    const answer = this.call(verb, 'POST', `/v1/sales/${sale}/reservations`, body, { key: crypto.randomUUID() });
    return answer.kind === 'accepted' ? idOf(answer.response) : null;
  }

  /**
   * The money is there: asks until it is known whether the units are sold. True: they are.
   *
   * @param {string} sale
   * @param {string} id
   * @param {Line[]} lines those of the hold
   * @param {{ if_expired?: 'retake' }} [body]
   */
  confirm(sale, id, lines, body) {
    return this.settle('confirm', `/v1/sales/${sale}/reservations/${id}/confirm`, body, unitsOf(lines));
  }

  /**
   * Gives bought units back, all of them.
   *
   * @param {string} sale
   * @param {string} id
   * @param {Line[]} lines
   */
  returnReservation(sale, id, lines) {
    return this.settle('return', `/v1/sales/${sale}/reservations/${id}/return`, undefined, -unitsOf(lines));
  }

  /**
   * Gives a hold back.
   *
   * @param {string} sale
   * @param {string} id
   */
  release(sale, id) {
    return this.call('release', 'POST', `/v1/sales/${sale}/reservations/${id}/release`).kind === 'accepted';
  }

  /**
   * A call that moves money: repeated until its outcome is known, and remembered, to be compared with the books.
   *
   * @param {string} verb
   * @param {string} path
   * @param {object | undefined} body
   * @param {number} bought units that are sold if it is accepted; negative: given back
   */
  settle(verb, path, body, bought) {
    let answer = this.call(verb, 'POST', path, body);
    for (let tries = 1; answer.kind === 'failed' && tries < SETTLE_TRIES; tries++) {
      sleep(SETTLE_PAUSE_S);
      answer = this.call(verb, 'POST', path, body);
    }
    if (answer.kind === 'failed') unknownUnits.add(Math.abs(bought));
    if (answer.kind !== 'accepted') return false;
    // Others sell, too, in a sale that several machines share: there nobody's memory equals the books.
    if (this.settings.SALE_ID.length === 0) unaccounted.add(bought);
    return true;
  }
}

/**
 * The last part of `Location`.
 *
 * @param {import('k6/http').Response} response
 */
export function idOf(response) {
  const location = response.headers.Location || '';
  return location.slice(location.lastIndexOf('/') + 1);
}
