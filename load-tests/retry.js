/**
 * Is a repeat safe? Some answers are thrown away, as if the connection had broken, and the request is sent again with the same
 * key, several copies at once. All must find the one hold, and the buyer must have its units once.
 */

import exec from 'k6/execution';
import { Client, idOf, someBuyer } from './lib/client.js';
import { duplicateHolds, repeated } from './lib/metrics.js';
import { options as run, p99 } from './lib/options.js';
import { checkBooks, openSale } from './lib/sale.js';
import { read } from './lib/settings.js';
import { constant } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const settings = read('retry', {
  RATE: 100, DURATION: '30s', STOCK: 10000000, HOLD_SECONDS: 5, LOST_PERCENT: 1, SALE_ID: '',
});
const expected = {
  // `held` by a repeat: the first try was not applied.
  accepted: { reserve: ['held'], again: ['replayed', 'held'], confirm: ['confirmed'], buyer: ['read'] },
};
const COPIES = 3;
const EVERY = Math.max(1, Math.round(100 / settings.LOST_PERCENT));

export const options = run(settings, {
  scenarios: { buyers: constant(settings) },
  expected,
  thresholds: {
    ...p99(settings, 'buyers', 200, 201),
    duplicate_holds: ['count==0'],
    repeated: ['count>0'],
  },
});

const client = new Client(settings, expected);

// With a limit the service counts what each buyer has, so that a second hold would show.
export const setup = () => openSale(settings, { rules: { buyer_limit: 1000 } });

/** @param {import('./lib/sale.js').Opened} opened */
export default function ({ sales: [sale] }) {
  const lines = [{ sku: sale.skus[0], quantity: 2 }];
  const lost = exec.scenario.iterationInTest % EVERY === 0;
  const id = lost ? loseAnswer(sale.name, lines) : client.reserve(sale.name, lines);
  if (id !== null) client.confirm(sale.name, id, lines);
}

/**
 * Reserves, forgets the answer, asks again. What the repeats find.
 *
 * @param {string} sale
 * @param {import('./lib/client.js').Line[]} lines
 */
function loseAnswer(sale, lines) {
  const buyer = someBuyer();
  const key = crypto.randomUUID();
  const path = `/v1/sales/${sale}/reservations`;
  const { kind, response: thrownAway } = client.call('reserve', 'POST', path, { buyer, lines }, { key });
  repeated.add(1);
  const copy = () => client.request('again', 'POST', path, { buyer, lines }, { key, text: true });
  const answers = client.batch('again', Array.from({ length: COPIES }, copy));
  const found = answers.filter((answer) => answer.kind === 'accepted');
  const ids = new Set(found.map((answer) => `${answer.response.json('id')}`));
  // It is looked at once more, but only to judge.
  if (kind === 'accepted') ids.add(idOf(thrownAway));
  const has = client.call('buyer', 'GET', `/v1/sales/${sale}/buyers/${buyer}`, null, { text: true });
  const holds = has.kind === 'accepted' ? Number(has.response.json('units')) / lines[0].quantity : ids.size;
  duplicateHolds.add(Math.max(0, ids.size - 1, holds - 1));
  const [id] = ids;
  return id || null;
}

/** @param {import('./lib/sale.js').Opened} opened */
export const teardown = (opened) => checkBooks(settings, opened);

export const handleSummary = summary(settings);
