// The queries that panels share, so that each way to aggregate is written once.
//
// `by` is a list of labels to keep, `labels` more matchers: 'state="held"'.

local series(metric, labels='') =
  metric + '{job=~"$job", instance=~"$instance"%s}' % (if labels == '' then '' else ', ' + labels);

local aggregate(operator, by) = operator + (if by == [] then '' else ' by (%s)' % std.join(', ', by));

// What every process says of the same store counts once. A pod is another name of an instance.
local once(expr) = 'max without (instance, pod) (%s)' % expr;

local rate(counter, labels='') = 'rate(%s[$__rate_interval])' % series(counter, labels);

local increase(counter, labels='') = 'increase(%s[$__range])' % series(counter, labels);

{
  series: series,

  // Counters and gauges of each process, summed over processes.
  rate(counter, by=[], labels=''): '%s (%s)' % [aggregate('sum', by), rate(counter, labels)],
  sum(gauge, by=[], labels=''): '%s (%s)' % [aggregate('sum', by), series(gauge, labels)],

  // Gauges and counters of the store, the same from every process.
  store(gauge, by=[], labels='', operator='sum'): '%s (%s)' % [aggregate(operator, by), once(series(gauge, labels))],
  storeRate(counter, by=[], labels=''): '%s (%s)' % [aggregate('sum', by), once(rate(counter, labels))],

  // Over the time shown, for a stat: how many, not how fast.
  increase(counter, by=[], labels=''): '%s (%s)' % [aggregate('sum', by), increase(counter, labels)],
  storeIncrease(counter, by=[], labels=''): '%s (%s)' % [aggregate('sum', by), once(increase(counter, labels))],

  // Nothing, and not NaN, where nothing was counted.
  quantile(q, histogram, by=[], labels=''): 'histogram_quantile(%g, %s) >= 0' % [q, self.buckets(histogram, by, labels)],
  buckets(histogram, by=[], labels=''): self.rate(histogram + '_bucket', ['le'] + by, labels),
  mean(histogram, by=[], labels=''):
    '%s / %s' % [self.rate(histogram + '_sum', by, labels), self.rate(histogram + '_count', by, labels)],

  // Without the many series that exist at 0 and do not move: a legend is to be read.
  moving(expr): expr + ' > 0',

  // Figures that any process publishes, of Stockade's alone.
  ours(expr): '%s and on (job, instance) %s' % [expr, series('stockade_build_info')],

  // 0 where `expr` has no series yet; nothing where `base` has none either: a service that is down has not 0 errors.
  orZero(expr, base): '%s or 0 * %s' % [expr, base],

  // A levels gauge of one process is of one moment. The highest of each state over several processes is not: so what must
  // balance is reckoned for each process, and the worst of them is shown.
  oversold(gauge, labels=''):
    'sum (%s)' % once('clamp_min(sum without (state) (%s) - sum without (state) (%s), 0)' % [
      series(gauge, labels + ', state=~"held|sold"'),
      series(gauge, labels + ', state="granted"'),
    ]),
  drift(gauge, labels=''):
    'sum (%s)' % once('abs(sum without (state) (%s) - sum without (state) (%s))' % [
      series(gauge, labels + ', state=~"available|held|sold"'),
      series(gauge, labels + ', state="granted"'),
    ]),
}
