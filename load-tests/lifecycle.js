/**
 * Every way in which a hold can end. Of ten callers five pay in time, one gives back, two walk away, and two pay late: they
 * are told 410, and take the units once more, or get their money back. Do the books agree with what all of them remember?
 */

import exec from 'k6/execution';
import { sleep } from 'k6';
import { Client } from './lib/client.js';
import { options as run, p99 } from './lib/options.js';
import { checkBooks, openSale } from './lib/sale.js';
import { read } from './lib/settings.js';
import { constant } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const settings = read('lifecycle', { RATE: 40, DURATION: '30s', STOCK: 800, HOLD_SECONDS: 2, SALE_ID: '' });
const expected = {
  accepted: { reserve: ['held'], confirm: ['confirmed', 'retaken'], release: ['released'] },
  refused: { reserve: ['sold_out'], confirm: ['hold_expired', 'sold_out'] },
};
const LATE_S = settings.HOLD_SECONDS + 0.2;

export const options = run(settings, {
  scenarios: { callers: constant(settings, { thinkSeconds: LATE_S }) },
  expected,
  thresholds: {
    ...p99(settings, 'callers', 200, 201, 409, 410),
    'accepted{verb:confirm,outcome:confirmed}': ['count>0'],
    'refused{verb:confirm,outcome:hold_expired}': ['count>0'],
  },
});

const client = new Client(settings, expected);

export const setup = () => openSale(settings);

/** @param {import('./lib/sale.js').Opened} opened */
export default function ({ sales: [sale] }) {
  const lines = [{ sku: sale.skus[0], quantity: 1 }];
  const id = client.reserve(sale.name, lines);
  if (id === null) return;
  const fate = exec.scenario.iterationInTest % 10;
  if (fate === 0) client.release(sale.name, id);
  else if (fate < 6) pay(sale.name, id, lines, Math.random() * settings.HOLD_SECONDS * 0.5);
  else if (fate < 8) pay(sale.name, id, lines, LATE_S);
  // The others walk away.
}

/**
 * The money comes after some seconds. Too late for the hold: taken once more if there are units; if not, it goes back.
 *
 * @param {string} sale
 * @param {string} id
 * @param {import('./lib/client.js').Line[]} lines
 * @param {number} afterSeconds
 */
function pay(sale, id, lines, afterSeconds) {
  sleep(afterSeconds);
  if (!client.confirm(sale, id, lines)) client.confirm(sale, id, lines, { if_expired: 'retake' });
}

/** @param {import('./lib/sale.js').Opened} opened */
export const teardown = (opened) => checkBooks(settings, opened);

export const handleSummary = summary(settings);
