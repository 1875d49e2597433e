/**
 * Carts of three SKUs, in any order, changed in one step by `replaces`: are they held whole or not at all, and does nothing
 * get lost in between when the SKUs run out one after the other?
 */

import exec from 'k6/execution';
import { Client, someBuyer } from './lib/client.js';
import { options as run, p99 } from './lib/options.js';
import { checkBooks, openSale } from './lib/sale.js';
import { read } from './lib/settings.js';
import { constant } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const settings = read('cart', { RATE: 50, DURATION: '30s', SKUS: 20, STOCK: 200, HOLD_SECONDS: 5, SALE_ID: '' });
const expected = {
  accepted: { reserve: ['held'], replace: ['held'], confirm: ['confirmed'], release: ['released'] },
  refused: { reserve: ['sold_out'], replace: ['sold_out'] },
};

export const options = run(settings, {
  scenarios: { shoppers: constant(settings) },
  expected,
  thresholds: { ...p99(settings, 'shoppers', 200, 201, 409), 'accepted{verb:replace,outcome:held}': ['count>0'] },
});

const client = new Client(settings, expected);

export const setup = () => openSale(settings);

/**
 * Three lines that begin at some SKU: neighbours overlap, and no two carts name theirs in the same order.
 *
 * @param {string[]} skus
 * @param {number} first
 * @param {number} quantity
 */
const cart = (skus, first, quantity) => [0, 7, 13].map((step) => ({ sku: skus[(first + step) % skus.length], quantity }));

/** @param {import('./lib/sale.js').Opened} opened */
export default function ({ sales: [sale] }) {
  const number = exec.scenario.iterationInTest;
  let lines = cart(sale.skus, number, 1);
  const buyer = someBuyer();
  let id = client.reserve(sale.name, lines, buyer);
  if (id === null) return;
  const changed = cart(sale.skus, number + 3, 2);
  const replaced = client.replace(sale.name, id, changed, buyer);
  // A refused change leaves the cart as it was.
  if (replaced !== null) [id, lines] = [replaced, changed];
  if (number % 3 === 0) client.confirm(sale.name, id, lines);
  else if (number % 3 === 1) client.release(sale.name, id);
}

/** @param {import('./lib/sale.js').Opened} opened */
export const teardown = (opened) => checkBooks(settings, opened);

export const handleSummary = summary(settings);
