/**
 * After the flash sale: nothing is left, and the crowd still asks. How fast is it told, and is it told the truth each time?
 */

import { Client } from './lib/client.js';
import { options as run, p99 } from './lib/options.js';
import { checkBooks, levels, must, openSale } from './lib/sale.js';
import { read } from './lib/settings.js';
import { constant } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const settings = read('sold_out', { RATE: 500, DURATION: '20s', SALE_ID: '' });
const expected = { accepted: {}, refused: { reserve: ['sold_out'] } };

export const options = run(settings, {
  scenarios: { latecomers: constant(settings) },
  expected,
  thresholds: {
    ...p99(settings, 'latecomers', 409),
    'refused{verb:reserve,outcome:sold_out}': ['count>0'],
  },
});

const client = new Client(settings, expected);

/** A sale without a unit; or one that others have emptied. */
export function setup() {
  const opened = openSale(settings);
  const [sale] = opened.sales;
  if (settings.SALE_ID.length === 0) {
    const stock = `/v1/sales/${sale.name}/stock/${sale.skus[0]}`;
    must(settings, 'POST', `${stock}/adjustments`, { delta: -settings.STOCK, reason: 'sold elsewhere' });
  } else if (levels(settings, sale.name).some(({ available }) => available > 0)) {
    throw new Error(`SALE_ID=${sale.name}: it is not sold out`);
  }
  return opened;
}

/** @param {import('./lib/sale.js').Opened} opened */
export default function ({ sales: [sale] }) {
  client.reserve(sale.name, [{ sku: sale.skus[0], quantity: 1 }]);
}

/** @param {import('./lib/sale.js').Opened} opened */
export const teardown = (opened) => checkBooks(settings, opened);

export const handleSummary = summary(settings);
