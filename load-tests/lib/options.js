/** The options that all scripts share: what must be 0, and what the summary shows. */

import { timeouts } from './sale.js';

/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {import('k6/options').Threshold} Threshold */
/** @typedef {Record<string, Threshold[]>} Thresholds */

/**
 * @param {Settings} settings
 * @param {object} run
 * @param {Record<string, import('k6/options').Scenario>} run.scenarios
 * @param {import('./client.js').Expected} run.expected
 * @param {Thresholds} [run.thresholds] those of the script: an entry replaces the one that all have
 * @param {boolean} [run.books] false: there is no sale
 * @returns {import('k6/options').Options}
 */
export function options(settings, { scenarios, expected, thresholds = {}, books = true }) {
  return {
    scenarios,
    thresholds: {
      ...shown(expected),
      failed: ['count==0'],
      unexpected: ['count==0'],
      http_req_failed: ['rate==0'],
      // The generator kept its rate: without that, latencies are those of a smaller crowd.
      dropped_iterations: ['count==0'],
      ...(books ? balanced(settings) : {}),
      ...thresholds,
    },
    discardResponseBodies: true,
    summaryTrendStats: ['count', 'med', 'p(95)', 'p(99)', 'max'],
    ...timeouts(settings),
  };
}

/**
 * What a run leaves behind must add up.
 *
 * @param {Settings} settings
 * @returns {Thresholds}
 */
function balanced(settings) {
  /** @type {Thresholds} */
  const zero = { oversold: ['count==0'], drift: ['count==0'], books_checked: ['count==1'], unknown_units: ['count==0'] };
  return settings.SALE_ID.length > 0 ? zero : { ...zero, unaccounted: ['count==0'], overdue_units: ['count==0'] };
}

/**
 * k6 keeps numbers by tag only where a threshold asks for them. An empty one asks and never fails.
 *
 * @param {import('./client.js').Expected} expected
 */
function shown({ accepted, refused = {} }) {
  /** @type {Thresholds} */
  const asked = {};
  for (const [kind, words] of Object.entries({ accepted, refused })) {
    for (const [verb, outcomes] of Object.entries(words)) {
      asked[`${kind}_ms{verb:${verb}}`] = [];
      for (const outcome of outcomes) asked[`${kind}{verb:${verb},outcome:${outcome}}`] = [];
    }
  }
  return asked;
}

/**
 * What 99 % wait at most, for the answers of a scenario that have this status.
 *
 * @param {Settings} settings
 * @param {string} scenario
 * @param {...number} statuses
 * @returns {Thresholds}
 */
export function p99(settings, scenario, ...statuses) {
  return Object.fromEntries(
    statuses.map((status) => [`http_req_duration{scenario:${scenario},status:${status}}`, [`p(99)<${settings.P99_MS}`]]),
  );
}
