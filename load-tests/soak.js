/**
 * Does it stay as it is for hours? The same few units are held, given back, returned or left to expire again and again. The
 * second half must be as fast as the first: each has thresholds of its own.
 */

import exec from 'k6/execution';
import { Client } from './lib/client.js';
import { options as run, p99 } from './lib/options.js';
import { checkBooks, openSale } from './lib/sale.js';
import { read } from './lib/settings.js';
import { constant } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const settings = read('soak', { RATE: 50, DURATION: '1h', STOCK: 100, HOLD_SECONDS: 5, SALE_ID: '' });
const expected = {
  accepted: { reserve: ['held'], release: ['released'], confirm: ['confirmed'], return: ['returned'] },
  refused: { reserve: ['sold_out'] },
};
const half = Math.max(1, Math.floor(settings.DURATION / 2));

export const options = run(settings, {
  scenarios: {
    early: constant(settings, { seconds: half }),
    late: constant(settings, { seconds: half, startSeconds: half }),
  },
  expected,
  thresholds: { ...p99(settings, 'early', 200, 201, 409), ...p99(settings, 'late', 200, 201, 409) },
});

const client = new Client(settings, expected);

export const setup = () => openSale(settings);

/** @param {import('./lib/sale.js').Opened} opened */
export default function ({ sales: [sale] }) {
  const lines = [{ sku: sale.skus[0], quantity: 1 }];
  const id = client.reserve(sale.name, lines);
  if (id === null) return;
  const fate = exec.scenario.iterationInTest % 10;
  if (fate < 3) client.release(sale.name, id);
  else if (fate < 6 && client.confirm(sale.name, id, lines)) client.returnReservation(sale.name, id, lines);
  // The others walk away.
}

/** @param {import('./lib/sale.js').Opened} opened */
export const teardown = (opened) => checkBooks(settings, opened);

export const handleSummary = summary(settings);
