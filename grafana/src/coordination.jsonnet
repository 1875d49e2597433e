// What goes beyond one reservation: locks, orders, barriers, webhooks, streams.

local lib = import 'lib.libsonnet';
local promql = import 'promql.libsonnet';
local target = lib.target;

local percentiles(histogram, by=[], legend='') = [
  target(promql.quantile(q, histogram, by), 'p%d%s' % [q * 100, legend])
  for q in [0.5, 0.99]
];

local locks(by=[], labels='') = promql.rate('stockade_locks_total', by, labels);
local orders(by=[], labels='') = promql.rate('stockade_orders_total', by, labels);
local barriers(by=[], labels='') = promql.rate('stockade_barriers_total', by, labels);
local deliveries(by=[], labels='') = promql.rate('stockade_webhook_deliveries_total', by, labels);

// How often in the time shown.
local times(counter, labels='') = target(promql.increase('stockade_' + counter, labels=labels));

lib.dashboard(
  'Stockade / Coordination',
  'stockade-coordination',
  'What goes beyond one reservation: locks, orders, barriers, webhooks, streams.',
  rows=[
    lib.row('At a glance', [
      lib.line(3, [
        lib.stat('Leases', 'Locks acquired a second, those that orders take included.', 'ops', [target(locks(labels='operation="acquire", outcome="acquired"'))]),
        lib.stat('Locks refused', 'Acquisitions a second that met a lock held by somebody else.', 'ops', [
          target(locks(labels='operation="acquire", outcome="lock_held"')),
        ]) + lib.thresholds([['text', null], ['orange', 1e-9]]),
        lib.stat('Orders', 'Orders held a second.', 'ops', [target(orders(labels='outcome="held"'))]),
        lib.stat('Orders recovered', 'Orders in the time shown that nobody worked on any more: their time was over, or a process had left them half done. They were ended, finished or undone.', 'short', [
          times('orders_total', 'outcome="recovered"'),
        ]) + lib.decimals(0),
      ]),
      lib.line(3, [
        lib.stat('Barriers timed out', 'Barriers in the time shown that ended before all had arrived.', 'short', [
          times('barriers_total', 'outcome="timed_out"'),
        ]) + lib.limits(1, 100) + lib.decimals(0),
        lib.stat('Webhook backlog', 'Events that wait for their delivery. It must not keep growing.', 'short', [
          target(promql.store('stockade_webhook_backlog')),
        ]) + lib.limits(1000, 10000),
        lib.stat('Events lost to webhooks', 'Events in the time shown that an endpoint will not get: dead after all tries, refused for good, or skipped. Must be 0.', 'short', [
          target(promql.increase('stockade_webhook_deliveries_total', labels='outcome=~"dead|gone"'), 'dead'),
          target(promql.increase('stockade_webhook_events_skipped_total'), 'skipped'),
        ]) + lib.zeroIsGood + lib.decimals(0) + lib.text('value_and_name'),
        lib.stat('Streams and waits', 'Streams and waits that are open.', 'short', [target(promql.sum('stockade_http_streams_open'))]),
      ]),
    ]),

    lib.row('Locks', [
      lib.line(8, [
        lib.timeseries('Calls', 'Calls about locks a second by operation and the word of their answer.', 'ops', [
          target(promql.moving(locks(['operation', 'outcome'])), '{{operation}}: {{outcome}}'),
        ]),
        lib.timeseries('Wait for a lock', 'Time from the call to the lease, of those who got one.', 's', percentiles('stockade_lock_wait_seconds')),
        lib.timeseries('Lock held', 'Time from acquire to release, where both were calls of the same process.', 's', percentiles('stockade_lock_held_seconds')),
      ]),
    ]),

    lib.row('Orders', [
      lib.line(8, [
        lib.timeseries('Orders by outcome', 'Calls that change orders a second by the word of their answer.', 'ops', [
          target(promql.moving(orders(['outcome'])), '{{outcome}}'),
        ]) + lib.legendRight + lib.span(2),
        lib.timeseries('Orders in each other’s way', 'Calls a second that met an order at work (order_busy), and orders that recovery finished or undid.', 'ops', [
          target(orders(['outcome'], 'outcome=~"order_busy|order_in_progress|recovered"'), '{{outcome}}'),
        ]),
      ]),
    ]),

    lib.row('Barriers', [
      lib.line(8, [
        lib.timeseries('Barriers', 'Barriers created a second, and how they ended.', 'ops', [
          target(barriers(['outcome']), '{{outcome}}'),
        ]) + lib.colour('completed', 'green') + lib.colour('failed', 'red') + lib.colour('timed_out', 'orange') + lib.colour('cancelled', 'text'),
        lib.timeseries('Arrivals', 'Arrivals at barriers a second by the word of their answer.', 'ops', [
          target(promql.moving(promql.rate('stockade_barrier_arrivals_total', ['outcome'])), '{{outcome}}'),
        ]),
        lib.timeseries('Barrier open', 'Time from the creation of a barrier to its end.', 's', percentiles('stockade_barrier_open_seconds')),
      ]),
    ]),

    lib.row('Webhooks', [
      lib.line(8, [
        lib.timeseries('Backlog', 'Events that wait for their delivery.', 'short', [
          target(promql.store('stockade_webhook_backlog'), 'waiting'),
        ]),
        lib.timeseries('Deliveries', 'Tries to deliver a second by outcome: retried are those that failed and are tried again.', 'ops', [
          target(deliveries(['outcome']), '{{outcome}}'),
        ]) + lib.colour('delivered', 'green') + lib.colour('retried', 'orange') + lib.colour('dead', 'red') + lib.colour('gone', 'text'),
        lib.timeseries('Delay', 'Time from an event to its delivery.', 's', percentiles('stockade_webhook_delay_seconds')),
        lib.timeseries('Skipped', 'Events a second that an endpoint will not get: trimmed, damaged, or its queue was full. Must be 0.', 'ops', [
          target(promql.rate('stockade_webhook_events_skipped_total'), 'skipped'),
        ]) + lib.colour('skipped', 'red'),
      ]),
    ]),

    lib.row('Streams and waits', [
      lib.line(8, [
        lib.timeseries('Open', 'Streams and waits that are open, by route.', 'short', [
          target(promql.sum('stockade_http_streams_open', ['route']), '{{route}}'),
        ]) + lib.stacked,
        lib.timeseries('How long they were open', 'Length of the streams and waits that have ended, by route.', 's',
          percentiles('stockade_http_stream_seconds', ['route'], ' {{route}}')),
      ]),
    ]),
  ]
)
