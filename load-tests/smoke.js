/**
 * Does everything work at all? A few callers a second go through every verb. Run it first, and in CI.
 */

import exec from 'k6/execution';
import { Client } from './lib/client.js';
import { options as run, p99 } from './lib/options.js';
import { checkBooks, openSale } from './lib/sale.js';
import { read } from './lib/settings.js';
import { constant } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const settings = read('smoke', { RATE: 10, DURATION: '10s', STOCK: 100000, HOLD_SECONDS: 2, SALE_ID: '' });
const expected = {
  accepted: { reserve: ['held'], confirm: ['confirmed'], return: ['returned'], release: ['released'], level: ['read'] },
};

export const options = run(settings, {
  scenarios: { callers: constant(settings) },
  expected,
  thresholds: p99(settings, 'callers', 200, 201),
});

const client = new Client(settings, expected);

export const setup = () => openSale(settings);

/** @param {import('./lib/sale.js').Opened} opened */
export default function ({ sales: [sale] }) {
  const number = exec.scenario.iterationInTest;
  const lines = [{ sku: sale.skus[number % sale.skus.length], quantity: 1 + (number % 2) }];
  client.level(sale.name, lines[0].sku);
  const id = client.reserve(sale.name, lines);
  if (id === null) return;
  if (number % 4 === 0) client.release(sale.name, id);
  else if (number % 4 === 1 && client.confirm(sale.name, id, lines)) client.returnReservation(sale.name, id, lines);
  else if (number % 4 === 2) client.confirm(sale.name, id, lines);
  // The fourth walks away: his hold ends by itself.
}

/** @param {import('./lib/sale.js').Opened} opened */
export const teardown = (opened) => checkBooks(settings, opened);

export const handleSummary = summary(settings);
