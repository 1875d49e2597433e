// What sells: the first screen is what an operator looks at five minutes before the doors open.

local lib = import 'lib.libsonnet';
local promql = import 'promql.libsonnet';

local sale = 'sale=~"$sale"';
local target = lib.target;

// Units of all SKUs of the chosen sales.
local units(state, by=[]) = promql.store('stockade_sale_units', by, '%s, state="%s"' % [sale, state]);

lib.dashboard(
  'Stockade / Sale',
  'stockade-sale',
  'What sells: stock, holds and answers of the chosen sales, and whether the books balance.',
  variables=[lib.labelVariable('sale', 'Sale', 'stockade_sale_status{job=~"$job"}')],
  rows=[
    lib.row('At a glance', [
      lib.line(4, [
        lib.stat('Units left', 'Units that can still be reserved.', 'short', [target(units('available'))]),
        lib.stat('Oversold', 'Units held or sold beyond what was granted. Must be 0.', 'short', [
          target(promql.oversold('stockade_sale_units', sale), 'all SKUs'),
        ]) + lib.zeroIsGood,
      ]),
    ]),
  ]
)
