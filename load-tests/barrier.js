/**
 * Completion barriers: all participants arrive at the same moment, and each says so twice. Is exactly one of them told that it
 * was the last, each time?
 */

import { Client } from './lib/client.js';
import { loadSeconds, misfires } from './lib/metrics.js';
import { options as run } from './lib/options.js';
import { warmUp } from './lib/sale.js';
import { read } from './lib/settings.js';
import { constant } from './lib/shapes.js';
import { summary } from './lib/summary.js';

const settings = read('barrier', { RATE: 10, DURATION: '20s', PARTICIPANTS: 20 });
const expected = { accepted: { create: ['created'], arrive: ['completed', 'replayed'], look: ['read'] } };
const COPIES = 2;

export const options = {
  ...run(settings, {
    scenarios: { jobs: constant(settings) },
    expected,
    books: false,
    thresholds: {
      misfires: ['count==0'],
      'accepted{verb:arrive,outcome:completed}': ['count>0'],
      'http_req_duration{scenario:jobs,status:200}': [`p(99)<${settings.P99_MS}`],
      'http_req_duration{scenario:jobs,status:201}': [`p(99)<${settings.P99_MS}`],
    },
  }),
  // All of them at once, not six after the other.
  batch: settings.PARTICIPANTS * COPIES,
  batchPerHost: settings.PARTICIPANTS * COPIES,
};

const client = new Client(settings, expected);
const participants = Array.from({ length: settings.PARTICIPANTS }, (_, n) => `p${n}`);

export function setup() {
  warmUp(settings, '/v1/barriers');
  return { startedMs: Date.now() };
}

export default function () {
  const path = `/v1/barriers/load-${crypto.randomUUID()}`;
  if (client.call('create', 'PUT', path, { participants, retention_seconds: 60 }).kind !== 'accepted') return;
  const copies = participants.flatMap((participant) => Array.from({ length: COPIES }, () => participant));
  const requests = copies.map((participant) =>
    client.request('arrive', 'POST', `${path}/arrivals`, { participant }, { text: true }));
  const answers = client.batch('arrive', requests);
  if (answers.some(({ kind }) => kind !== 'accepted')) return;
  const last = new Set(copies.filter((_, n) => answers[n].response.json('fired') === true));
  const { kind, response } = client.call('look', 'GET', path, null, { text: true });
  if (kind !== 'accepted') return;
  misfires.add(Math.abs(last.size - 1));
  misfires.add(response.json('status') === 'completed' && response.json('completed') === participants.length ? 0 : 1);
}

/** @param {{ startedMs: number }} started */
export const teardown = ({ startedMs }) => loadSeconds.add((Date.now() - startedMs) / 1000);

export const handleSummary = summary(settings);
