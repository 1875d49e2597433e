/**
 * What does a buyer wait on an ordinary day? A constant rate, units for all, everybody pays.
 */

import { Client } from './lib/client.js';
import { options as run, p99 } from './lib/options.js';
import { checkBooks, openSale } from './lib/sale.js';
import { read } from './lib/settings.js';
import { constant } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const settings = read('steady', { RATE: 100, DURATION: '30s', STOCK: 10000000, HOLD_SECONDS: 60, SALE_ID: '' });
const expected = { accepted: { reserve: ['held'], confirm: ['confirmed'] } };

export const options = run(settings, {
  scenarios: { buyers: constant(settings) },
  expected,
  thresholds: p99(settings, 'buyers', 200, 201),
});

const client = new Client(settings, expected);

export const setup = () => openSale(settings);

/** @param {import('./lib/sale.js').Opened} opened */
export default function ({ sales: [sale] }) {
  const lines = [{ sku: sale.skus[0], quantity: 1 }];
  const id = client.reserve(sale.name, lines);
  if (id !== null) client.confirm(sale.name, id, lines);
}

/** @param {import('./lib/sale.js').Opened} opened */
export const teardown = (opened) => checkBooks(settings, opened);

export const handleSummary = summary(settings);
