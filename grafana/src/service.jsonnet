// How the service does: requests, group commit, Redis, the processes, and the load that k6 sends.

local lib = import 'lib.libsonnet';
local promql = import 'promql.libsonnet';
local target = lib.target;

// The part of requests that may fail; the alerts have the same.
local budget = 0.001;

// Probes are not requests of anybody.
local asked = 'route!~"/livez|/readyz|/metrics"';
// 409 and 410 are answers: only 5xx is a fault of ours.
local failed = asked + ', status=~"5.."';

local requests(by=[], labels=asked) = promql.rate('stockade_http_requests_total', by, labels);
local errorRatio = '(%s) / %s' % [promql.orZero(requests(labels=failed), requests()), requests()];
local errorRatioShown =
  local counted(labels) = promql.increase('stockade_http_requests_total', labels=labels);
  '(%s) / (%s > 0)' % [promql.orZero(counted(failed), counted(asked)), counted(asked)];

// 50, 95 and 99 of 100.
local percentiles(histogram, labels='') = [
  target(promql.quantile(q, histogram, labels=labels), 'p%d' % (q * 100))
  for q in [0.5, 0.95, 0.99]
];

local duration = 'stockade_http_request_duration_seconds';
local commit = 'stockade_commit_duration_seconds';

local redis(gauge, by=[], labels='') = promql.store('stockade_redis_' + gauge, by, labels);
local redisRate(counter, by=[]) = promql.storeRate('stockade_redis_' + counter, by);
local redisIncrease(counter) = promql.storeIncrease('stockade_redis_' + counter);
local up = lib.words({ '0': ['failing', 'red'], '1': ['ok', 'green'] }) + lib.background;

local process(expr) = promql.ours(expr);
local processGauge(gauge) = process(promql.sum('process_' + gauge, ['job', 'instance']));

local k6(metric, labels='') =
  'k6_%s{testid=~"$testid"%s}' % [metric, if labels == '' then '' else ', ' + labels];
local k6Rate(counter, by='') = 'sum%s (rate(%s[$__rate_interval]))' % [by, k6(counter)];

lib.dashboard(
  'Stockade / Service',
  'stockade-service',
  'How the service does: requests and their errors, group commit, Redis, the processes, and the load that k6 sends.',
  variables=[lib.labelVariable('testid', 'k6 test', 'k6_http_reqs_total', all='.*')],
  rows=[
    lib.row('At a glance', [
      lib.line(3, [
        lib.stat('Requests', 'Requests answered a second, without probes.', 'reqps', [target(requests())]),
        lib.stat('Errors', 'Part of the requests answered with 5xx. 409 and 410 are answers and not errors.', 'percentunit', [
          target(errorRatio + ' >= 0'),
        ]) + lib.limits(1e-9, budget) + lib.noValue('no requests'),
        lib.stat('Error budget left', 'Of the 0.1 % of requests that may fail, the part that was not used up in the time shown.', 'percentunit', [
          target('1 - %s / %g' % [errorRatioShown, budget]),
        ]) + lib.thresholds([['red', null], ['orange', 0.25], ['green', 0.5]]) + lib.noValue('no requests'),
        lib.stat('Duration, p99', '99 of 100 requests were answered within this time. Streams and waits are not in it.', 's', [
          target(promql.quantile(0.99, duration, labels=asked)),
        ]) + lib.limits(0.1, 0.5) + lib.noValue('no requests'),
        lib.stat('Redis', 'Whether every process reaches Redis.', 'short', [
          target('min (%s)' % promql.series('stockade_redis_up'), 'reached'),
        ]) + up,
        lib.stat('Instances', 'Processes of the service that are scraped.', 'short', [
          target('count (%s)' % promql.series('stockade_build_info')),
        ]) + lib.thresholds([['red', null], ['green', 1]]),
      ]),
    ]),

    lib.row('Requests', [
      lib.line(8, [
        lib.timeseries('Requests by route', 'Requests answered a second by route.', 'reqps', [
          target(promql.moving(requests(['route'])), '{{route}}'),
        ]) + lib.stacked,
        lib.timeseries('Requests by status', 'Requests answered a second by status of the answer.', 'reqps', [
          target(promql.moving(requests(['status'])), '{{status}}'),
        ]) + lib.stacked + lib.colourLike('2..', 'green') + lib.colourLike('4..', 'orange') + lib.colourLike('5..', 'red'),
        lib.timeseries('Errors by route', 'Answers with 5xx a second by route and status; nothing is drawn where there are none.', 'reqps', [
          target(promql.moving(requests(['route', 'status'], failed)), '{{route}} {{status}}'),
        ]),
      ]),
      lib.line(8, [
        lib.timeseries('Duration', 'Time from the head of a request to its answer.', 's', percentiles(duration, asked)),
        lib.heatmap('Distribution of durations', 'Requests a second by how long they took.', 's', promql.buckets(duration, labels=asked)),
        lib.timeseries('Duration by route, p99', '99 of 100 requests of a route were answered within this time.', 's', [
          target(promql.quantile(0.99, duration, ['route'], asked), '{{route}}'),
        ]),
      ]),
      lib.line(7, [
        lib.timeseries('Burn of the error budget', 'How many times faster than allowed the budget of 0.1 % is used up. Above 1 it will not last.', 'short', [
          target('%s / %g' % [errorRatio, budget], 'burn'),
        ]) + lib.colour('burn', 'red'),
        lib.timeseries('Verbs', 'Answers a second to reserve, confirm and their like, by verb and outcome, over all sales.', 'reqps', [
          target(promql.moving(promql.rate('stockade_reservations_total', ['verb', 'outcome'])), '{{verb}}: {{outcome}}'),
        ]) + lib.stacked,
        lib.timeseries('Streams open', 'Streams and waits that are open, by route.', 'short', [
          target(promql.sum('stockade_http_streams_open', ['route']), '{{route}}'),
        ]),
        lib.timeseries('Caches', 'Reads of levels a second by cache and by what the cache had.', 'reqps', [
          target(promql.rate('stockade_cache_requests_total', ['cache', 'result']), '{{cache}} {{result}}'),
        ]),
      ]),
    ]),

    lib.row('Group commit and pool', [
      lib.line(8, [
        lib.timeseries('Batch size', 'Requests carried by one script call: they grow with the load, to 256 at most.', 'short', [
          target(promql.mean('stockade_commit_batch_size'), 'mean'),
          target(promql.quantile(0.99, 'stockade_commit_batch_size'), 'p99'),
        ]),
        lib.timeseries('Queue', 'Mutations that wait for their batch, by process.', 'short', [
          target(promql.sum('stockade_commit_queue_depth', ['instance']), '{{instance}}'),
        ]),
        lib.timeseries('Script calls', 'Batches sent to Redis a second by script.', 'ops', [
          target(promql.moving(promql.rate(commit + '_count', ['script'])), '{{script}}'),
        ]) + lib.stacked,
      ]),
      lib.line(8, [
        lib.timeseries('Commit duration', 'Time from sending a batch to its answers.', 's', percentiles(commit)),
        lib.timeseries('Commit duration by script, p99', '99 of 100 batches of a script were answered within this time.', 's', [
          target(promql.quantile(0.99, commit, ['script']), '{{script}}'),
        ]),
        lib.heatmap('Distribution of commit durations', 'Batches a second by how long they took.', 's', promql.buckets(commit)),
      ]),
      lib.line(8, [
        lib.timeseries('Pool', 'Connections to Redis by state.', 'short', [
          target(promql.sum('stockade_redis_pool_connections', ['state']), '{{state}}'),
        ]) + lib.stacked + lib.colour('idle', 'green') + lib.colour('in_use', 'orange'),
        lib.timeseries('Wait for a connection', 'Time spent waiting for a connection of the pool.', 's', percentiles('stockade_redis_pool_wait_seconds')),
        lib.timeseries('Redis errors', 'Failed calls of Redis a second by kind. Must be 0.', 'ops', [
          target(promql.rate('stockade_redis_errors_total', ['kind']), '{{kind}}'),
        ]),
      ]),
    ]),

    lib.row('Redis', [
      lib.line(3, [
        lib.stat('Persistence', 'Whether the last writes of the log and its last rewrite and snapshot went well.', 'short', [
          target(promql.store('stockade_redis_persistence_ok', ['part'], operator='min'), '{{part}}'),
        ]) + up + lib.text('value_and_name') + lib.span(3),
        lib.stat('Evicted', 'Keys that Redis threw away for want of memory in the time shown. Must be 0: they were stock.', 'short', [
          target(redisIncrease('evicted_keys_total')),
        ]) + lib.zeroIsGood + lib.decimals(0) + lib.span(2),
        lib.stat('Rejected', 'Connections that Redis refused in the time shown because it had too many. Must be 0.', 'short', [
          target(redisIncrease('rejected_connections_total')),
        ]) + lib.zeroIsGood + lib.decimals(0) + lib.span(2),
        lib.stat('Slow commands', 'Entries that the slow log got in the time shown.', 'short', [
          target(redisIncrease('slowlog_entries_total')),
        ]) + lib.limits(1, 100) + lib.decimals(0) + lib.span(2),
        lib.stat('Replicas', 'Replicas that are connected.', 'short', [target(redis('replicas'))]) + lib.span(1),
        lib.stat('Uptime', 'Time since Redis was started.', 's', [target(redis('uptime_seconds'))])
        + lib.thresholds([['orange', null], ['green', 300]]) + lib.span(1),
        lib.stat('Version', 'Version and role of the Redis that the service writes to.', 'short', [
          target(promql.store('stockade_redis_info', ['version', 'role'], operator='max'), '{{version}} {{role}}'),
        ]) + lib.text('name') + lib.span(1),
      ]),
      lib.line(8, [
        lib.timeseries('Memory', 'Memory of Redis, and the limit where there is one. At the limit nothing can be reserved any more.', 'bytes', [
          target(redis('memory_bytes', ['kind'], 'kind!="max"'), '{{kind}}'),
          target(redis('memory_bytes', labels='kind="max"') + ' > 0', 'limit'),
        ]) + lib.dashed('limit') + lib.colour('limit', 'red'),
        lib.timeseries('Clients', 'Clients that are connected, and those that wait in a blocking command.', 'short', [
          target(redis('clients'), 'connected'),
          target(redis('blocked_clients'), 'blocked'),
        ]),
        lib.timeseries('Commands', 'Commands a second, and error replies among them.', 'ops', [
          target(redisRate('commands_total'), 'commands'),
          target(redisRate('error_replies_total'), 'error replies'),
        ]) + lib.colour('error replies', 'red'),
      ]),
      lib.line(8, [
        lib.timeseries('CPU of Redis', 'Time that Redis computes, in processors. Scripts run on one: at 1 it is full.', 'percentunit', [
          target(redisRate('cpu_seconds_total', ['mode']), '{{mode}}'),
        ]) + lib.stacked,
        lib.timeseries('Latency spikes', 'The last spike that Redis saw within a minute, by what caused it; aof_fsync is the disk.', 's', [
          target(promql.store('stockade_redis_latency_seconds', ['event'], operator='max'), '{{event}}'),
          target(promql.store('stockade_redis_fork_seconds', operator='max'), 'last fork'),
        ]),
        lib.timeseries('Slow log', 'Entries that the slow log gets a second.', 'ops', [
          target(redisRate('slowlog_entries_total'), 'slow commands'),
        ]),
      ]),
      lib.line(8, [
        lib.timeseries('Size of the log', 'Bytes of the append-only file, until its next rewrite.', 'bytes', [target(redis('aof_bytes'), 'AOF')]),
        lib.timeseries('Client buffers', 'The largest buffer of any client. Output grows where a listener reads too slowly.', 'bytes', [
          target(promql.store('stockade_redis_client_buffer_bytes', ['direction'], operator='max'), '{{direction}}'),
        ]),
        lib.timeseries('Network', 'Bytes a second that Redis receives (input) and sends (output).', 'Bps', [
          target(redisRate('network_bytes_total', ['direction']), '{{direction}}'),
        ]),
        lib.timeseries('Keys', 'Keys in Redis.', 'short', [target(redis('keys'), 'keys')]),
      ]),
    ]),

    lib.row('Processes', [
      lib.line(8, [
        lib.table('Processes', 'The processes that are scraped, with their versions and ages.', 'short', ['instance', 'version'], [
          target(promql.sum('stockade_build_info', ['instance', 'version']), name='is'),
          target('time() - (%s)' % process(promql.sum('process_start_time_seconds', ['job', 'instance'])), name='age'),
          target(processGauge('threads'), name='threads'),
        ]) + lib.unit('age', 's'),
        lib.timeseries('CPU', 'Time that a process computes, in processors.', 'percentunit', [
          target(process(promql.rate('process_cpu_seconds_total', ['job', 'instance'])), '{{instance}}'),
        ]),
        lib.timeseries('Memory of processes', 'Resident memory of a process.', 'bytes', [
          target(processGauge('resident_memory_bytes'), '{{instance}}'),
        ]),
        lib.timeseries('Open files', 'File descriptors in use, sockets included, of those that the process may open.', 'percentunit', [
          target(
            process('%s / %s' % [promql.sum('process_open_fds', ['job', 'instance']), promql.sum('process_max_fds', ['job', 'instance'])]),
            '{{instance}}'
          ),
        ]),
      ]),
    ]),

    lib.row('Load by k6', collapsed=true, lines=[
      lib.line(8, [
        lib.timeseries('Requests of k6', 'Requests that k6 made a second, by name.', 'reqps', [
          target(promql.moving(k6Rate('http_reqs_total', ' by (name)')), '{{name}}'),
        ]) + lib.stacked,
        lib.timeseries('Duration at k6, p99', '99 of 100 requests of a name were answered within this time, as k6 sees it.', 's', [
          target('max by (name) (%s)' % k6('http_req_duration_p99'), '{{name}}'),
        ]),
        lib.timeseries('Virtual users', 'Virtual users of k6 that run.', 'short', [target('sum (%s)' % k6('vus'), 'running')]),
      ]),
      lib.line(8, [
        lib.timeseries('Dropped iterations', 'Iterations a second that k6 could not start for want of virtual users. Above 0 the load is not what was asked for.', 'ops', [
          target(k6Rate('dropped_iterations_total'), 'dropped'),
        ]) + lib.colour('dropped', 'red'),
        lib.timeseries('Answers at k6', 'Answers a second as the load tests count them: refused is right, failed and unexpected must be 0.', 'reqps', [
          target(k6Rate(kind + '_total'), kind)
          for kind in ['accepted', 'refused', 'failed', 'unexpected']
        ]) + lib.colour('accepted', 'green') + lib.colour('refused', 'orange') + lib.colourLike('failed|unexpected', 'red'),
        lib.timeseries('Failed requests of k6', 'Part of the requests that k6 counts as failed, by name.', 'percentunit', [
          target('max by (name) (%s)' % k6('http_req_failed_rate'), '{{name}}'),
        ]) + lib.max(1),
      ]),
    ]),
  ]
)
