/**
 * How much can it take? The rate climbs until callers wait too long, something fails, or arrivals are dropped. Then k6 stops,
 * with exit code 99, and the summary says how far the rate had come. Exit code 0: it went all the way.
 */

import exec from 'k6/execution';
import { Client } from './lib/client.js';
import { options as run } from './lib/options.js';
import { offeredRate } from './lib/metrics.js';
import { checkBooks, openSale } from './lib/sale.js';
import { read } from './lib/settings.js';
import { ramp } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const settings = read('breakpoint', {
  RATE: 5000, DURATION: '5m', STOCK: 100000000, HOLD_SECONDS: 5, LATENCY_MS_MAX: 200, P99_MS: 100, SALE_ID: '',
});
const expected = { accepted: { reserve: ['held'], release: ['released'] } };
const abortOnFail = true;

export const options = run(settings, {
  scenarios: { climbers: ramp(settings) },
  expected,
  thresholds: {
    failed: [{ threshold: 'count==0', abortOnFail }],
    dropped_iterations: [{ threshold: 'count==0', abortOnFail }],
    // Of the whole run so far, which hides a slow end among many fast ones: what is dropped usually says it first.
    'accepted_ms{verb:reserve}': [{ threshold: `p(99)<${settings.P99_MS}`, abortOnFail, delayAbortEval: '10s' }],
  },
});

const client = new Client(settings, expected);

export const setup = () => openSale(settings);

/** @param {import('./lib/sale.js').Opened} opened */
export default function ({ sales: [sale] }) {
  offeredRate.add(settings.RATE * exec.scenario.progress);
  const id = client.reserve(sale.name, [{ sku: sale.skus[0], quantity: 1 }]);
  if (id !== null) client.release(sale.name, id);
}

/** @param {import('./lib/sale.js').Opened} opened */
export const teardown = (opened) => checkBooks(settings, opened);

export const handleSummary = summary(settings);
