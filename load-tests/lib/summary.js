/** The end of a run: thresholds, outcomes, waits and the books; on the terminal, as JSON, and as a short Markdown table. */

/**
 * What k6 hands over.
 *
 * @typedef {{ type: string, contains: string, values: Record<string, number>, thresholds?: Record<string, { ok: boolean }> }} Metric
 * @typedef {{ metrics: Record<string, Metric>, setup_data?: any, options: { noColor: boolean }, state: { isStdOutTTY: boolean, testRunDurationMs: number } }} Data
 */

/**
 * @param {import('./settings.js').Settings} settings
 * @returns {(data: Data) => Record<string, string>}
 */
export function summary(settings) {
  return (data) => {
    const base = `${settings.SUMMARY_DIR}/${settings.script}`;
    const { API_KEY, ...shown } = settings;
    const verdict = crossed(data).length === 0 ? 'passed' : 'failed';
    return {
      stdout: text(settings, data),
      [`${base}.md`]: markdown(settings, data),
      [`${base}.json`]: JSON.stringify({ script: settings.script, verdict, settings: shown, ...data }, null, 2),
    };
  };
}

/**
 * Thresholds of one metric, as k6 writes them.
 *
 * @param {Data} data
 * @returns {{ name: string, rule: string, ok: boolean, value: string }[]}
 */
function thresholds(data) {
  return Object.entries(data.metrics).sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([name, metric]) =>
    Object.entries(metric.thresholds || {}).map(([rule, { ok }]) => {
      const stat = (/^[a-z]+(\([\d.]+\))?/.exec(rule) || [''])[0];
      const nothing = metric.type === 'trend' && !metric.values.count;
      return { name, rule, ok, value: nothing ? 'there was none' : `${stat}=${shown(metric, metric.values[stat])}` };
    }),
  );
}

/** @param {Data} data */
const crossed = (data) => thresholds(data).filter(({ ok }) => !ok);

/**
 * @param {Metric} metric
 * @param {number | undefined} value
 */
function shown(metric, value) {
  if (value === undefined) return 'nothing';
  if (metric.contains === 'time') return `${value.toFixed(1)}ms`;
  return Number.isInteger(value) ? `${value}` : value.toFixed(4);
}

/**
 * How often each answer came: those that came at all.
 *
 * @param {Data} data
 */
function answers(data) {
  const seconds = data.metrics.load_seconds?.values.value || 0;
  return Object.entries(data.metrics).flatMap(([name, metric]) => {
    const parts = /^(accepted|refused)\{verb:(.+),outcome:(.+)\}$/.exec(name);
    const count = metric.values.count || 0;
    const rate = seconds ? (count / seconds).toFixed(1) : '?';
    return parts && count > 0 ? [{ kind: parts[1], verb: parts[2], outcome: parts[3], count, rate }] : [];
  }).sort((a, b) => b.count - a.count);
}

/**
 * What callers waited, by kind of answer and verb.
 *
 * @param {Data} data
 */
function waits(data) {
  return Object.entries(data.metrics).sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([name, { values }]) => {
    const parts = /^(accepted|refused)_ms\{verb:(.+)\}$/.exec(name);
    return parts && values.count ? [{ kind: parts[1], verb: parts[2], values }] : [];
  });
}

/**
 * @param {Data} data
 * @param {string} name
 */
const count = (data, name) => data.metrics[name]?.values.count || 0;

/** @param {Data} data */
const books = (data) =>
  ['oversold', 'drift', 'unaccounted', 'overdue_units', 'unknown_units', 'duplicate_holds', 'misfires']
    .filter((name) => data.metrics[name])
    .map((name) => `${name} ${count(data, name)}`)
    .join('  ');

/** @param {Record<string, number>} values */
const percentiles = (values) =>
  ['med', 'p(95)', 'p(99)', 'max'].map((stat) => `${stat}=${(values[stat] || 0).toFixed(1)}ms`).join('  ');

/**
 * In the manner of k6's own summary.
 *
 * @param {import('./settings.js').Settings} settings
 * @param {Data} data
 */
function text(settings, data) {
  const colour = data.state.isStdOutTTY && !data.options.noColor;
  /** @type {(code: number, words: string) => string} */
  const paint = (code, words) => (colour ? `\x1b[${code}m${words}\x1b[0m` : words);
  const lines = ['', '  █ THRESHOLDS', ''];
  let last = '';
  for (const { name, rule, ok, value } of thresholds(data)) {
    if (name !== last) lines.push(`    ${name}`);
    last = name;
    lines.push(`    ${ok ? paint(32, '✓') : paint(31, '✗')} '${rule}' ${value}`);
  }
  lines.push('', '  █ ANSWERS', '');
  for (const { kind, verb, outcome, count, rate } of answers(data)) {
    lines.push(`    ${kind.padEnd(9)} ${verb.padEnd(9)} ${outcome.padEnd(16)} ${`${count}`.padStart(9)}  ${rate}/s`);
  }
  lines.push('', '  █ WAITS', '');
  for (const { kind, verb, values } of waits(data)) {
    lines.push(`    ${kind.padEnd(9)} ${verb.padEnd(9)} ${percentiles(values)}`);
  }
  const seconds = (data.state.testRunDurationMs / 1000).toFixed(1);
  lines.push('', '  █ BOOKS', '', `    ${sales(data)}${books(data) || 'nothing was counted'}`, '');
  const reached = data.metrics.offered_rate;
  if (reached) lines.push(`    The rate had come to ${Math.round(reached.values.max || 0)} arrivals a second.`, '');
  const failed = crossed(data);
  lines.push(
    failed.length === 0
      ? paint(32, `  ${settings.script}: all thresholds hold, after ${seconds} s`)
      : paint(31, `  ${settings.script}: ${failed.length} thresholds crossed, after ${seconds} s`),
    '', '');
  return lines.join('\n');
}

/** @param {Data} data */
const sales = (data) => (data.setup_data?.sales || []).map((/** @type {{ name: string }} */ sale) => `${sale.name}  `).join('');

/**
 * @param {import('./settings.js').Settings} settings
 * @param {Data} data
 */
function markdown(settings, data) {
  const failed = crossed(data);
  const lines = [
    `**${settings.script}**: ${settings.RATE} arrivals a second at the peak, DURATION ${settings.DURATION} s, ` +
      `dropped ${count(data, 'dropped_iterations')}, failed ${count(data, 'failed')}, unexpected ${count(data, 'unexpected')}. ` +
      `${failed.length === 0 ? 'All thresholds hold.' : `Crossed: ${failed.map(({ name, rule }) => `\`${name}\` ${rule}`).join(', ')}.`}`,
    '',
    `Books: ${books(data) || 'none'}.`,
    '',
    '| verb | answer | count | a second |',
    '|---|---|---|---|',
    ...answers(data).map(({ verb, outcome, count, rate }) => `| ${verb} | ${outcome} | ${count} | ${rate} |`),
    '',
    '| verb | wait for | median ms | p95 ms | p99 ms | max ms |',
    '|---|---|---|---|---|---|',
    ...waits(data).map(({ kind, verb, values }) =>
      `| ${verb} | ${kind} | ${['med', 'p(95)', 'p(99)', 'max'].map((stat) => (values[stat] || 0).toFixed(1)).join(' | ')} |`),
    '',
  ];
  return lines.join('\n');
}
