/**
 * How callers arrive. All shapes are open: who comes next does not wait for who came before, as in a real crowd. What the
 * generator itself cannot send in time is counted in `dropped_iterations`, and its threshold is 0.
 */

/** @typedef {import('./settings.js').Settings} Settings */

/**
 * VUs so that the rate can be kept while an arrival takes `LATENCY_MS_MAX` and thinks for `thinkSeconds` (Little's law).
 * All are there from the start: making one under load would cost time at the worst moment.
 *
 * @param {Settings} settings
 * @param {number} thinkSeconds
 */
function vus(settings, thinkSeconds) {
  return Math.max(5, Math.ceil(settings.RATE * (settings.LATENCY_MS_MAX / 1000 + thinkSeconds)));
}

/**
 * The same rate all the time.
 *
 * @param {Settings} settings
 * @param {{ thinkSeconds?: number, seconds?: number, startSeconds?: number }} [more]
 * @returns {import('k6/options').Scenario}
 */
export function constant(settings, { thinkSeconds = 0, seconds = settings.DURATION, startSeconds = 0 } = {}) {
  return {
    executor: 'constant-arrival-rate',
    rate: settings.RATE,
    timeUnit: '1s',
    duration: `${seconds}s`,
    startTime: `${startSeconds}s`,
    preAllocatedVUs: vus(settings, thinkSeconds),
  };
}

/**
 * A tenth of the rate until the doors open, all of it from one moment to the next, for DURATION, then ebbing away.
 *
 * @param {Settings} settings
 * @param {number} doorsSeconds when they open
 * @returns {import('k6/options').Scenario}
 */
export function spike(settings, doorsSeconds) {
  const few = Math.max(1, Math.round(settings.RATE / 10));
  return {
    executor: 'ramping-arrival-rate',
    startRate: few,
    timeUnit: '1s',
    stages: [
      { target: few, duration: `${doorsSeconds}s` },
      { target: settings.RATE, duration: '0s' },
      { target: settings.RATE, duration: `${settings.DURATION}s` },
      { target: few, duration: `${Math.ceil(settings.DURATION / 2)}s` },
    ],
    preAllocatedVUs: vus(settings, 0),
  };
}

/**
 * From nothing to the rate, in a straight line.
 *
 * @param {Settings} settings
 * @returns {import('k6/options').Scenario}
 */
export function ramp(settings) {
  return {
    executor: 'ramping-arrival-rate',
    startRate: 0,
    timeUnit: '1s',
    stages: [{ target: settings.RATE, duration: `${settings.DURATION}s` }],
    preAllocatedVUs: vus(settings, 0),
  };
}
