/**
 * Orders over two sales, half of them the other way round: are they held in both or in none, and is nobody locked out? They go
 * the lock path, so the rate is a small part of what reservations take.
 */

import exec from 'k6/execution';
import { Client, someBuyer } from './lib/client.js';
import { options as run, p99 } from './lib/options.js';
import { checkBooks, openSale } from './lib/sale.js';
import { read } from './lib/settings.js';
import { constant } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const settings = read('order', { RATE: 10, DURATION: '30s', STOCK: 200, HOLD_SECONDS: 5, SALE_ID: '' });
const expected = {
  accepted: { order: ['held'], confirm: ['confirmed'], release: ['released'] },
  refused: { order: ['sold_out'] },
};

export const options = run(settings, {
  scenarios: { shoppers: constant(settings) },
  expected,
  thresholds: { ...p99(settings, 'shoppers', 200, 201, 409), 'accepted{verb:order,outcome:held}': ['count>0'] },
});

const client = new Client(settings, expected);

export const setup = () => openSale(settings, { sales: 2 });

/** @param {import('./lib/sale.js').Opened} opened */
export default function ({ sales }) {
  const number = exec.scenario.iterationInTest;
  const lines = sales.map((sale) => ({ sale: sale.name, sku: sale.skus[0], quantity: 1 }));
  if (number % 2 === 1) lines.reverse();
  const body = { buyer: someBuyer(), lines, hold_seconds: settings.HOLD_SECONDS };
  const { kind, response } = client.call('order', 'POST', '/v1/orders', body, { key: crypto.randomUUID(), text: true });
  if (kind !== 'accepted') return;
  const path = `/v1/orders/${response.json('id')}`;
  if (number % 3 === 0) client.settle('confirm', `${path}/confirm`, undefined, lines.length);
  else if (number % 3 === 1) client.call('release', 'POST', `${path}/release`);
}

/** @param {import('./lib/sale.js').Opened} opened */
export const teardown = (opened) => checkBooks(settings, opened);

export const handleSummary = summary(settings);
