/**
 * The doors open: from one moment to the next a crowd far larger than the stock. Is exactly the stock sold, how long do the
 * lucky wait, and how fast are the others told?
 *
 * Some come too early. Seven of ten who get a unit pay at once; the others walk away, and their units are sold again.
 */

import exec from 'k6/execution';
import { Client } from './lib/client.js';
import { options as run, p99 } from './lib/options.js';
import { checkBooks, openSale } from './lib/sale.js';
import { read } from './lib/settings.js';
import { spike } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const DOORS_S = 2;

const settings = read('flash_sale', { RATE: 400, DURATION: '10s', STOCK: 1000, HOLD_SECONDS: 5, SALE_ID: '' });
const expected = {
  accepted: { reserve: ['held'], confirm: ['confirmed'] },
  refused: { reserve: ['sold_out', 'sale_not_open'] },
};

export const options = run(settings, {
  scenarios: { crowd: spike(settings, DOORS_S) },
  expected,
  thresholds: {
    ...p99(settings, 'crowd', 200, 201, 409),
    'accepted{verb:reserve,outcome:held}': ['count>0'],
    'refused{verb:reserve,outcome:sold_out}': ['count>0'],
  },
});

const client = new Client(settings, expected);

// The clock of this machine; where the service's Redis has another, more are too early, or fewer.
export const setup = () => openSale(settings, { rules: { opens_at: new Date(Date.now() + DOORS_S * 1000).toISOString() } });

/** @param {import('./lib/sale.js').Opened} opened */
export default function ({ sales: [sale] }) {
  const lines = [{ sku: sale.skus[0], quantity: 1 }];
  const id = client.reserve(sale.name, lines);
  if (id !== null && exec.scenario.iterationInTest % 10 < 7) client.confirm(sale.name, id, lines);
}

/** @param {import('./lib/sale.js').Opened} opened */
export const teardown = (opened) => checkBooks(settings, opened);

export const handleSummary = summary(settings);
