// What sells: the first screen is what an operator looks at five minutes before the doors open.

local lib = import 'lib.libsonnet';
local promql = import 'promql.libsonnet';
local target = lib.target;

local sale = 'sale=~"$sale"';
local matching(labels) = '%s, %s' % [sale, labels];

// --- Stock ---------------------------------------------------------------------------------------------------------

// Units of all SKUs of the chosen sales.
local units(state, by=[]) = promql.store('stockade_sale_units', by, matching('state="%s"' % state));
local unitsOfSku(state) = promql.store('stockade_stock_units', ['sale', 'sku'], matching('state="%s"' % state));

// Most to least wanted; the same colours wherever a state is drawn.
local stateColours =
  lib.colour('available', 'green') + lib.colour('held', 'yellow') + lib.colour('sold', 'blue') + lib.colour('granted', 'text');
local statusColours =
  lib.colour('open', 'green') + lib.colour('scheduled', 'blue') + lib.colour('paused', 'orange') + lib.colour('closed', 'text');

local inStatus(status) = promql.store('stockade_sale_status', ['sale'], matching('status="%s"' % status), 'max');
local opensIn = promql.store('stockade_sale_opens_at_seconds', ['sale'], sale, 'max') + ' - time()';

// --- Answers -------------------------------------------------------------------------------------------------------

// The word of an answer says what became of a request. What is neither carried out, nor a replay, nor a failure, was
// refused: sold out, a limit of a buyer, doors that are shut, a hold that has expired.
local carriedOut = ['held', 'confirmed', 'retaken', 'released', 'expired', 'extended', 'unchanged', 'returned', 'pinned'];
local failures = [
  'queue_full', 'draining', 'store_full', 'store_unavailable', 'store_read_only', 'store_busy', 'store_loading', 'slot_moving',
  'outcome_unknown', 'corrupt', 'internal',
];
local outcomes = {
  accepted: 'outcome="held"',
  refused: 'outcome!~"%s"' % std.join('|', carriedOut + ['replayed'] + failures),
  replayed: 'outcome="replayed"',
  failed: 'outcome=~"%s"' % std.join('|', failures),
};

// A second; 0 and not nothing for a sale that has not been asked yet.
local answers(outcome) = promql.orZero(
  promql.rate('stockade_sale_reservations_total', labels=matching(outcomes[outcome])),
  promql.store('stockade_sale_status', labels=sale, operator='max')
);
local answerColours =
  lib.colour('accepted', 'green') + lib.colour('refused', 'orange') + lib.colour('replayed', 'text') + lib.colour('failed', 'red');

local ended(outcome) = promql.increase('stockade_sale_reservations_total', ['sale'], matching('outcome=~"%s"' % outcome));

// Requests that take or settle units; of all sales, since a route does not name one.
local reservationRoutes = 'method="POST", route=~"/v1/sales/.+/reservations.*"';
local answerTime(q) = promql.quantile(q, 'stockade_http_request_duration_seconds', labels=reservationRoutes);
local expiryLag(q) = promql.quantile(q, 'stockade_hold_expiry_lag_seconds');

// --- Books ---------------------------------------------------------------------------------------------------------

local balance(of) = [
  target(of('stockade_sale_units', sale), 'sales'),
  target(of('stockade_stock_units', sale), 'SKUs'),
];
local lastAudit = promql.store('stockade_audit_last_success_timestamp_seconds', operator='max');

// --- Annotations ---------------------------------------------------------------------------------------------------

// True from the moment of the change on for as long as one step of the graph at least, so that no step misses it. There
// must have been another value before: a sale that Prometheus sees for the first time has not changed.
local becomes(now, before) = '%s and %s' % [now, before];
local entered(status) =
  local labels = matching('status="%s"' % status);
  local series = promql.series('stockade_sale_status', labels);
  becomes('max by (sale) (%s) == 1' % series, 'max by (sale) (%s offset $__rate_interval) == 0' % series);
local soldOut =
  local series = promql.series('stockade_sale_units', matching('state="available"'));
  becomes('min by (sale) (%s) == 0' % series, 'min by (sale) (%s offset $__rate_interval) > 0' % series);

lib.dashboard(
  'Stockade / Sale',
  'stockade-sale',
  'What sells: stock, holds and answers of the chosen sales, and whether the books balance.',
  variables=[lib.labelVariable('sale', 'Sale', 'stockade_sale_status{job=~"$job"}')],
  annotations=[
    lib.annotation('opened', 'green', entered('open'), '{{sale}} has opened'),
    lib.annotation('paused', 'orange', entered('paused'), '{{sale}} is paused'),
    lib.annotation('closed', 'blue', entered('closed'), '{{sale}} is closed'),
    lib.annotation('sold out', 'red', soldOut, '{{sale}} is sold out'),
  ],
  rows=[
    lib.row('At a glance', [
      lib.line(4, [
        lib.stat('Doors open in', 'Time until the next of the chosen sales opens; red when it should be open and is not.', 'dtdhms', [
          target('min (%s and on (sale) %s == 1)' % [opensIn, inStatus('scheduled')]),
        ]) + lib.noValue('nothing scheduled') + lib.thresholds([['red', null], ['orange', 0], ['blue', 300]]),
        lib.stat('Doors', 'How many of the chosen sales are scheduled, open, paused and closed.', 'short', [
          target(promql.store('stockade_sale_status', ['status'], sale) + ' > 0', '{{status}}'),
        ]) + lib.text('value_and_name') + statusColours,
        lib.stat('Units left', 'Units that can be reserved now; red when there are none.', 'short', [
          target(units('available')),
        ]) + lib.thresholds([['red', null], ['green', 1]]),
        lib.stat('Held', 'Units in baskets: reserved, and neither paid nor given back.', 'short', [target(units('held'))])
        + lib.thresholds([['yellow', null]]),
        lib.stat('Sold', 'Units of confirmed reservations.', 'short', [target(units('sold'))])
        + lib.thresholds([['blue', null]]),
        lib.stat('Granted', 'Units ever put up for sale, less those withdrawn: left, held and sold together.', 'short', [
          target(units('granted')),
        ]),
      ]),
      lib.line(3, [
        lib.stat('Accepted', 'Reservations held a second.', 'reqps', [target(answers('accepted'))])
        + lib.thresholds([['green', null]]),
        lib.stat('Refused', 'Answers a second that say no, as they must: sold out, limits of buyers, doors shut, holds expired.', 'reqps', [
          target(answers('refused')),
        ]) + lib.thresholds([['text', null], ['orange', 1e-9]]),
        lib.stat('Failed', 'Requests a second that were not decided: the queue was full, or Redis was not there. Must be 0.', 'reqps', [
          target(answers('failed')),
        ]) + lib.zeroIsGood,
        lib.stat('Answer time, p99', '99 of 100 requests about reservations were answered within this time, over all sales.', 's', [
          target(answerTime(0.99)),
        ]) + lib.limits(0.1, 0.5) + lib.noValue('no requests'),
        lib.stat('Holds open', 'Reservations that are held, and those past their deadline, over all sales.', 'short', [
          target(promql.store('stockade_holds_open'), 'open'),
          target(promql.store('stockade_holds_overdue'), 'overdue'),
        ]) + lib.text('value_and_name'),
        lib.stat('Expiry lag, p99', '99 of 100 holds that expired gave their units back within this time after their deadline.', 's', [
          target(expiryLag(0.99)),
        ]) + lib.limits(1, 10) + lib.noValue('none expired'),
      ]),
      lib.line(3, [
        lib.stat('Oversold', 'Units held or sold beyond what was granted, by sale and by SKU. Must be 0.', 'short', balance(promql.oversold))
        + lib.zeroIsGood + lib.text('value_and_name'),
        lib.stat('Drift', 'Units by which available + held + sold differs from granted, by sale and by SKU. Must be 0.', 'short', balance(promql.drift))
        + lib.zeroIsGood + lib.text('value_and_name'),
        lib.stat('Violations', 'What the last audit of all sales found wrong, ids without a record, and sales whose stock cannot be read. Must be 0.', 'short', [
          target(promql.store('stockade_conservation_violations'), 'books'),
          target(promql.store('stockade_orphans'), 'orphans'),
          target(promql.store('stockade_sales_unreadable'), 'unreadable sales'),
        ]) + lib.zeroIsGood + lib.text('value_and_name'),
        lib.stat('Last audit', 'Time since the last audit of all sales came to its end.', 's', [
          target('time() - (%s > 0)' % lastAudit),
        ]) + lib.limits(120, 300) + lib.noValue('none yet'),
        lib.stat('Redis', 'Whether every process reaches Redis, and whether what is written gets to the disk.', 'short', [
          target('min (%s)' % promql.series('stockade_redis_up'), 'reached'),
          target(promql.store('stockade_redis_persistence_ok', operator='min'), 'persistence'),
        ]) + lib.words({ '0': ['failing', 'red'], '1': ['ok', 'green'] }) + lib.background + lib.text('value_and_name'),
        lib.stat('Webhook backlog', 'Events that wait for their delivery. It must not keep growing.', 'short', [
          target(promql.store('stockade_webhook_backlog')),
        ]) + lib.limits(1000, 10000),
      ]),
      lib.line(8, [
        lib.timeseries('Units', 'Available, held and sold units of the chosen sales; together they reach the line of what is granted.', 'short', [
          target(promql.store('stockade_sale_units', ['state'], matching('state!="granted"')), '{{state}}'),
          target(units('granted'), 'granted'),
        ]) + lib.stacked + stateColours + lib.dashed('granted'),
        lib.timeseries('Answers', 'Answers a second: accepted (held), refused, replayed (the same request again), failed.', 'reqps', [
          target(answers(outcome), outcome)
          for outcome in ['accepted', 'refused', 'replayed', 'failed']
        ]) + answerColours,
      ]),
    ]),

    lib.row('Sales and SKUs', [
      lib.line(9, [
        lib.table('Sales', 'The chosen sales with their doors and their units. A click on a name chooses that sale alone.', 'short', ['sale', 'status'], [
          target(promql.store('stockade_sale_status', ['sale', 'status'], sale, 'max') + ' == 1', name='is'),
          target('(%s) > 0' % opensIn, name='opens_in'),
          target(units('available', ['sale']), name='available'),
          target(units('held', ['sale']), name='held'),
          target(units('sold', ['sale']), name='sold'),
          target(units('granted', ['sale']), name='granted'),
        ]) + lib.unit('opens in', 'dtdhms') + lib.chooses('sale', 'stockade-sale'),
        lib.table('SKUs', 'The SKUs of the chosen sales with their units, as many as have series of their own.', 'short', ['sale', 'sku'], [
          target(unitsOfSku(state), name=state)
          for state in ['available', 'held', 'sold', 'granted']
        ]) + lib.chooses('sale', 'stockade-sale'),
      ]),
      lib.line(3, [
        lib.stat('Sales left out', 'Sales without series of their own, because of --metrics-sales-max: they are in no figure of this dashboard that can be chosen by sale.', 'short', [
          target(promql.store('stockade_sales_left_out')),
        ]) + lib.thresholds([['green', null], ['orange', 1]]),
        lib.stat('SKUs left out', 'SKUs without series of their own, because of --metrics-skus-max: they are not in the table.', 'short', [
          target(promql.store('stockade_skus_left_out')),
        ]) + lib.thresholds([['green', null], ['orange', 1]]),
      ]),
    ]),

    lib.row('Outcomes', [
      lib.line(9, [
        lib.timeseries('Answers by outcome', 'Answers a second by their word, of every verb about reservations.', 'reqps', [
          target(promql.moving(promql.rate('stockade_sale_reservations_total', ['outcome'], sale)), '{{outcome}}'),
        ]) + lib.legendRight + lib.span(2),
        lib.bargauge('Answers in the time shown', 'How many answers had which word.', 'short', [
          target('sort_desc(%s)' % promql.moving(promql.increase('stockade_sale_reservations_total', ['outcome'], sale)), '{{outcome}}'),
        ]) + lib.decimals(0),
      ]),
      lib.line(8, [
        lib.timeseries('Units moved', 'Units a second by what became of them, over all sales.', 'cps', [
          target(promql.rate('stockade_reservation_units_total', ['transition']), '{{transition}}'),
        ]) + lib.colour('held', 'yellow') + lib.colour('confirmed', 'blue') + lib.colour('released', 'text') + lib.colour('expired', 'orange')
        + lib.span(2),
        lib.bargauge('Conversion', 'Of the reservations held in the time shown, the part that was confirmed in it, by sale.', 'percentunit', [
          target('(%s) / (%s > 0)' % [promql.orZero(ended('confirmed|retaken'), ended('held')), ended('held')], '{{sale}}'),
        ]) + lib.max(1) + lib.thresholds([['blue', null]]),
      ]),
    ]),

    lib.row('Holds and answer times', [
      lib.line(8, [
        lib.timeseries('Holds', 'Open holds of all sales, and those of them that are past their deadline.', 'short', [
          target(promql.store('stockade_holds_open'), 'open'),
          target(promql.store('stockade_holds_overdue'), 'overdue'),
        ]) + lib.colour('open', 'yellow') + lib.colour('overdue', 'red'),
        lib.timeseries('Expiry lag', 'Time between a deadline and the moment its hold was expired.', 's', [
          target(expiryLag(0.5), 'p50'),
          target(expiryLag(0.99), 'p99'),
        ]),
        lib.timeseries('Answer time', 'Time to answer requests about reservations, over all sales.', 's', [
          target(answerTime(0.5), 'p50'),
          target(answerTime(0.95), 'p95'),
          target(answerTime(0.99), 'p99'),
        ]),
      ]),
    ]),

    lib.row('Books', [
      lib.line(7, [
        lib.timeseries('Out of balance', 'Units oversold, and units of drift, by SKU and by sale. Must be 0.', 'short', [
          target(promql.oversold('stockade_sale_units', sale), 'oversold, sales'),
          target(promql.oversold('stockade_stock_units', sale), 'oversold, SKUs'),
          target(promql.drift('stockade_sale_units', sale), 'drift, sales'),
          target(promql.drift('stockade_stock_units', sale), 'drift, SKUs'),
        ]) + lib.colourLike('.*', 'red'),
        lib.timeseries('Found by audits', 'What the last audit of all sales found wrong. Must be 0.', 'short', [
          target(promql.store('stockade_conservation_violations'), 'books'),
          target(promql.store('stockade_orphans'), 'orphans'),
        ]) + lib.colourLike('.*', 'red'),
        lib.timeseries('Age of the last audit', 'Time since the last audit of all sales came to its end. It must not keep growing.', 's', [
          target('time() - (%s > 0)' % lastAudit, 'age'),
        ]),
      ]),
    ]),
  ]
)
