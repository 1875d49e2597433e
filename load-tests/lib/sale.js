/** Before and after: a sale is opened or joined, and its books are checked when all holds have ended. */

import http from 'k6/http';
import { sleep } from 'k6';
import { headersOf } from './client.js';
import { booksChecked, drift, loadSeconds, overdueUnits, oversold, unaccounted } from './metrics.js';

/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {{ sku: string, available: number, held: number, sold: number, granted: number }} Level */
/** @typedef {{ name: string, skus: string[] }} Sale */
/** @typedef {{ startedMs: number, sales: Sale[] }} Opened what setup hands to everybody */

const POLL_S = 0.25;
/** Warming up: so many connections, for at most so long. */
const WARM_CONNECTIONS = 16;
const WARM_S = 10;

/**
 * How long setup and teardown may take.
 *
 * @param {Settings} settings
 */
export const timeouts = (settings) => ({
  setupTimeout: '60s',
  teardownTimeout: `${settings.HOLD_SECONDS + settings.GRACE_SECONDS + 60}s`,
});

/**
 * What goes with calls outside of the load. Their statuses are the caller's affair: no failed requests.
 *
 * @param {Settings} settings
 * @returns {import('k6/http').Params}
 */
const aside = (settings) => ({
  headers: headersOf(settings),
  tags: { name: 'books' },
  responseType: 'text',
  responseCallback: http.expectedStatuses({ min: 0, max: 599 }),
});

/**
 * Lets the service connect to its store before anybody is waiting for that: it does so when there is something to do.
 *
 * @param {Settings} settings
 * @param {string} path a list that this key may read
 */
export function warmUp(settings, path) {
  const url = `${settings.BASE_URL}${path}?limit=1`;
  const reads = Array.from({ length: WARM_CONNECTIONS }, () => ({ method: 'GET', url, params: aside(settings) }));
  const latest = Date.now() + WARM_S * 1000;
  for (;;) {
    const bad = http.batch(reads).find(({ status }) => status !== 200);
    if (!bad) return;
    if (bad.status !== 503 || Date.now() > latest) throw new Error(`${url}: ${bad.status || bad.error} ${bad.body || ''}`);
    sleep(POLL_S);
  }
}

/**
 * Reads or writes outside of the load.
 *
 * @param {Settings} settings
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 */
function ask(settings, method, path, body) {
  return http.request(method, `${settings.BASE_URL}${path}`, body ? JSON.stringify(body) : null, aside(settings));
}

/**
 * The document of a call that must succeed.
 *
 * @param {Settings} settings
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 * @returns {any}
 */
export function must(settings, method, path, body) {
  const answer = ask(settings, method, path, body);
  if (answer.status < 200 || answer.status > 299) {
    throw new Error(`${method} ${settings.BASE_URL}${path}: ${answer.status || answer.error} ${answer.body || ''}`);
  }
  return answer.json();
}

/**
 * Opens fresh sales, each with SKUS kinds of STOCK units, or joins those of SALE_ID.
 *
 * @param {Settings} settings
 * @param {{ sales?: number, rules?: object }} [more]
 * @returns {Opened}
 */
export function openSale(settings, { sales = 1, rules = {} } = {}) {
  warmUp(settings, '/v1/sales');
  const joined = settings.SALE_ID;
  if (joined.length > 0 && joined.length !== sales) {
    throw new Error(`SALE_ID=${joined}: ${settings.script} needs ${sales} of them`);
  }
  if (joined.length > 0) {
    const found = joined.map((name) => ({ name, skus: levels(settings, name).map((level) => level.sku) }));
    if (found.some(({ skus }) => skus.length === 0)) throw new Error(`SALE_ID=${joined}: a sale without SKUs`);
    return { startedMs: Date.now(), sales: found };
  }
  const skus = Array.from({ length: settings.SKUS }, (_, n) => `sku-${n}`);
  const stock = Object.fromEntries(skus.map((sku) => [sku, { initial: settings.STOCK }]));
  const run = `${settings.script.replace('_', '-')}-${crypto.randomUUID().slice(0, 8)}`;
  const opened = Array.from({ length: sales }, (_, n) => ({ name: sales === 1 ? run : `${run}-${n}`, skus }));
  for (const { name } of opened) {
    must(settings, 'PUT', `/v1/sales/${name}`, { hold_seconds: settings.HOLD_SECONDS, ...rules, stock });
  }
  return { startedMs: Date.now(), sales: opened };
}

/**
 * Levels of all SKUs, as they are now.
 *
 * @param {Settings} settings
 * @param {string} sale
 * @returns {Level[]}
 */
export function levels(settings, sale) {
  const all = [];
  for (let after = ''; ; ) {
    const page = must(settings, 'GET', `/v1/sales/${sale}/stock?fresh=true&limit=500${after}`);
    all.push(...page.items);
    if (page.next === null) return all;
    after = `&after=${encodeURIComponent(page.next)}`;
  }
}

/**
 * Waits until every hold has ended, then checks the books. What is wrong goes into metrics, whose thresholds are 0.
 *
 * Never throws: books that cannot be read are not checked, and `books_checked` says so.
 *
 * @param {Settings} settings
 * @param {Opened} opened
 */
export function checkBooks(settings, opened) {
  loadSeconds.add((Date.now() - opened.startedMs) / 1000);
  try {
    for (const { name } of opened.sales) checkSale(settings, name);
    checkAudit(settings);
    booksChecked.add(1);
  } catch (error) {
    console.error(`The books cannot be read: ${error}`);
  }
}

/**
 * @param {Settings} settings
 * @param {string} name
 */
function checkSale(settings, name) {
  const joined = settings.SALE_ID.length > 0;
  const latest = Date.now() + (settings.HOLD_SECONDS + settings.GRACE_SECONDS) * 1000;
  let books = levels(settings, name);
  while (books.some((level) => level.held > 0) && Date.now() < latest) {
    sleep(POLL_S);
    books = levels(settings, name);
  }
  for (const { sku, available, held, sold, granted } of books) {
    const wrong = Math.abs(available + held + sold - granted);
    const excess = Math.max(0, sold + held - granted, -available);
    drift.add(wrong);
    oversold.add(excess);
    // Others may still hold units in a sale that several machines share.
    if (!joined) overdueUnits.add(held);
    if (wrong || excess || held) {
      console.error(`${name} ${sku}: available ${available} + held ${held} + sold ${sold}, granted ${granted}`);
    }
  }
  if (joined) return;
  // Nothing moves any more, so the totals must be the sum, and what was sold is what the callers have bought.
  const { totals } = must(settings, 'GET', `/v1/sales/${name}`);
  for (const state of /** @type {const} */ (['available', 'held', 'sold', 'granted'])) {
    const sum = books.reduce((units, level) => units + level[state], 0);
    if (totals[state] !== sum) console.error(`${name}: ${state} ${totals[state]} in all, ${sum} over its SKUs`);
    drift.add(Math.abs(totals[state] - sum));
    if (state === 'sold') unaccounted.add(-sum);
  }
}

/**
 * What the service's own audit has found, where its metrics can be read.
 *
 * @param {Settings} settings
 */
function checkAudit(settings) {
  const page = ask(settings, 'GET', '/metrics');
  const found = page.status === 200 && /^stockade_conservation_violations (\d+)/m.exec(`${page.body}`);
  if (!found) return;
  if (found[1] !== '0') console.error(`stockade_conservation_violations is ${found[1]}: see \`stockade audit\``);
  drift.add(Number(found[1]));
}
