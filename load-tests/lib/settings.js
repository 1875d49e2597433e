/** The knobs: environment variables with defaults and units, checked before anything is sent. */

/**
 * @template T
 * @typedef {{ says: string, parse: (text: string) => T | undefined }} Kind `says` ends the sentence "NAME must be ...".
 */

/**
 * @param {number} min
 * @param {number} max
 * @returns {Kind<number>}
 */
const whole = (min, max) => ({
  says: `a whole number from ${min} to ${max}`,
  parse: (text) => (/^\d{1,15}$/.test(text) && Number(text) >= min && Number(text) <= max ? Number(text) : undefined),
});

/** @type {Kind<number>} */
const seconds = {
  says: 'a time of at least 1s and at most 168h, like 90s, 10m or 1h30m',
  parse(text) {
    const parts = /^(?:(\d{1,3})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?$/.exec(text);
    const [hours, minutes, rest] = (parts || []).slice(1).map((part) => Number(part || 0));
    const sum = (hours || 0) * 3600 + (minutes || 0) * 60 + (rest || 0);
    return sum >= 1 && sum <= 168 * 3600 ? sum : undefined;
  },
};

/** @type {Kind<number>} */
const percent = {
  says: 'a number above 0 and at most 100',
  parse: (text) => (/^\d+(\.\d+)?$/.test(text) && Number(text) > 0 && Number(text) <= 100 ? Number(text) : undefined),
};

/** @type {Kind<string>} */
const url = {
  says: 'http:// or https://, a host and perhaps a port, without a path',
  parse: (text) => (/^https?:\/\/[^/?#\s]+\/?$/.test(text) ? text.replace(/\/$/, '') : undefined),
};

/** @type {Kind<string[]>} */
const sales = {
  says: 'a name of a sale, or several with commas between',
  parse: (text) => (/^[A-Za-z0-9][\w.-]{0,63}(,[A-Za-z0-9][\w.-]{0,63})*$/.test(text) ? text.split(',') : undefined),
};

/** @type {Kind<string>} */
const plain = {
  says: 'printable ASCII characters without spaces',
  parse: (text) => (/^[!-~]+$/.test(text) ? text : undefined),
};

/** What every script knows. */
const COMMON = {
  BASE_URL: url,
  API_KEY: plain,
  RATE: whole(1, 100000),
  DURATION: seconds,
  P99_MS: whole(1, 60000),
  LATENCY_MS_MAX: whole(1, 60000),
  SUMMARY_DIR: plain,
};

/** What those know that have a sale: a default for SALE_ID says so. */
const OF_SALES = {
  SALE_ID: sales,
  GRACE_SECONDS: whole(1, 3600),
};

/** What only those know that have a default for it. */
const OWN = {
  SKUS: whole(1, 1000),
  STOCK: whole(1, 1000000000),
  HOLD_SECONDS: whole(1, 3600),
  LOST_PERCENT: percent,
  PARTICIPANTS: whole(2, 1000),
};

const DEFAULTS = {
  BASE_URL: 'http://127.0.0.1:8080',
  API_KEY: '',
  P99_MS: '500',
  LATENCY_MS_MAX: '1000',
  GRACE_SECONDS: '30',
  SUMMARY_DIR: '.',
};

/**
 * @typedef {object} Settings
 * @property {string} script name of the script
 * @property {string} BASE_URL the service
 * @property {string} API_KEY `<id>.<secret>` of scope operator, or empty
 * @property {number} RATE arrivals a second, at the peak
 * @property {number} DURATION seconds
 * @property {number} P99_MS threshold of what 99 % of the callers wait at most, in ms
 * @property {number} LATENCY_MS_MAX as long as an arrival may take before others are dropped: sets the number of VUs
 * @property {string} SUMMARY_DIR folder of the results
 * @property {string[]} SALE_ID the sales to join; none: open fresh ones
 * @property {number} GRACE_SECONDS how long after the last deadline all holds must have ended
 * @property {number} SKUS kinds of units in a sale
 * @property {number} STOCK units of each SKU
 * @property {number} HOLD_SECONDS how long a hold lasts
 * @property {number} LOST_PERCENT share of the answers that are thrown away
 * @property {number} PARTICIPANTS of a barrier
 */

/**
 * Reads the knobs of a script. Its defaults say which it has besides those that all have.
 *
 * `GIVEN` names what somebody has set on purpose, with commas: `run.py` says it, so that a slip of the pen is an error.
 *
 * @param {string} script
 * @param {Record<string, string | number>} own
 * @returns {Settings}
 */
export function read(script, own) {
  /** @type {Record<string, string | number>} */
  const defaults = { ...DEFAULTS, ...own };
  /** @type {Record<string, Kind<unknown>>} */
  const known = { ...COMMON, ...('SALE_ID' in own ? OF_SALES : {}) };
  for (const [name, kind] of Object.entries(OWN)) {
    if (name in own) known[name] = kind;
  }
  for (const name of (__ENV.GIVEN || '').split(',')) {
    if (name && !(name in known)) throw new Error(`${script} has no knob ${name}. It has ${Object.keys(known).join(', ')}`);
  }
  /** @type {Record<string, unknown>} */
  const settings = { script, SALE_ID: [], GRACE_SECONDS: 0, SKUS: 1, STOCK: 1, HOLD_SECONDS: 1, LOST_PERCENT: 1, PARTICIPANTS: 2 };
  for (const [name, kind] of Object.entries(known)) {
    const text = __ENV[name] || `${defaults[name]}`;
    const value = text === '' ? (name === 'SALE_ID' ? [] : '') : kind.parse(text);
    if (value === undefined) throw new Error(`${name}=${name === 'API_KEY' ? '...' : text}: ${name} must be ${kind.says}`);
    settings[name] = value;
  }
  return /** @type {Settings} */ (settings);
}
