// Dashboards, rows, panels, variables and annotations as classic Grafana JSON (schemaVersion 39).
//
// A panel is made by a function and refined with `+`: `lib.timeseries(...) + lib.stacked + lib.span(2)`.

local layout = import 'layout.libsonnet';

local datasource = { type: 'prometheus', uid: '${datasource}' };

// --- Targets -------------------------------------------------------------------------------------------------------

local target(expr, legend='', name=null) = {
  expr: expr,
  legendFormat: legend,
  datasource: datasource,
  editorMode: 'code',
  // Hidden: only names the column of a table.
  name:: name,
};

// The value at the end of the time shown. What has no value any more must not show an old one.
local instant = { instant: true, range: false };
local ranged = { instant: false, range: true };

local withRefIds(targets) = std.mapWithIndex(
  function(i, target) target { refId: if target.name != null then target.name else std.char(65 + i) },
  targets
);

// --- Panels --------------------------------------------------------------------------------------------------------

local thresholds(steps) = {
  fieldConfig+: { defaults+: { thresholds: {
    mode: 'absolute',
    steps: [{ color: step[0], value: step[1] } for step in steps],
  } } },
};

local panel(type, title, description, unit, targets) = {
  type: type,
  title: title,
  description: description,
  datasource: datasource,
  targets: withRefIds(targets),
  fieldConfig: { defaults: { unit: unit, mappings: [] }, overrides: [] },
  options: {},
  span:: 1,
} + thresholds([['text', null]]);

local override(matcher, value, properties) = {
  fieldConfig+: { overrides+: [{
    matcher: { id: matcher, options: value },
    properties: [{ id: id, value: properties[id] } for id in std.objectFields(properties)],
  }] },
};

local stat(title, description, unit, targets) =
  panel('stat', title, description, unit, [target + instant for target in targets]) {
    options: {
      colorMode: 'value',
      graphMode: 'none',
      justifyMode: 'auto',
      orientation: 'auto',
      percentChangeColorMode: 'standard',
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      showPercentChange: false,
      textMode: 'auto',
      wideLayout: true,
    },
  };

local timeseries(title, description, unit, targets) =
  panel('timeseries', title, description, unit, [target + ranged for target in targets]) {
    fieldConfig+: { defaults+: {
      min: 0,
      color: { mode: 'palette-classic' },
      custom: {
        axisPlacement: 'auto',
        drawStyle: 'line',
        fillOpacity: 10,
        lineInterpolation: 'linear',
        lineWidth: 1,
        showPoints: 'auto',
        spanNulls: false,
        stacking: { group: 'A', mode: 'none' },
      },
    } },
    options: {
      legend: { calcs: ['lastNotNull', 'max'], displayMode: 'table', placement: 'bottom', showLegend: true },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
  };

local bargauge(title, description, unit, targets) =
  panel('bargauge', title, description, unit, [target + instant for target in targets]) {
    fieldConfig+: { defaults+: { min: 0 } },
    options: {
      displayMode: 'basic',
      legend: { calcs: [], displayMode: 'list', placement: 'bottom', showLegend: false },
      maxVizHeight: 300,
      minVizHeight: 16,
      minVizWidth: 8,
      namePlacement: 'auto',
      orientation: 'horizontal',
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      showUnfilled: true,
      sizing: 'auto',
      valueMode: 'color',
    },
  };

// `labels` are the columns that tell rows apart; each target's `name` is the title of its column. One that is named `is`
// only says which rows there are: its value is always 1.
local table(title, description, unit, labels, targets) =
  panel('table', title, description, unit, [target + instant { format: 'table' } for target in targets]) {
    fieldConfig+: { defaults+: { custom: { align: 'auto', cellOptions: { type: 'auto' }, filterable: true, inspect: false } } },
    options: { cellHeight: 'sm', frameIndex: 0, showHeader: true },
    transformations: [
      { id: 'filterFieldsByName', options: { include: { pattern: '/^(%s|Value.*)$/' % std.join('|', labels) } } },
      { id: 'merge', options: {} },
      { id: 'organize', options: {
        excludeByName: { 'Value #is': true },
        includeByName: {},
        indexByName:
          { [labels[i]]: i for i in std.range(0, std.length(labels) - 1) } +
          { ['Value #' + targets[i].name]: std.length(labels) + i for i in std.range(0, std.length(targets) - 1) },
        renameByName: { ['Value #' + target.name]: std.strReplace(target.name, '_', ' ') for target in targets },
      } },
    ],
  };

// Buckets of a Prometheus histogram.
local heatmap(title, description, unit, expr) =
  panel('heatmap', title, description, unit, [target(expr, '{{le}}') + ranged { format: 'heatmap' }]) {
    fieldConfig+: { defaults: { unit: unit, custom: { hideFrom: { legend: false, tooltip: false, viz: false } } } },
    options: {
      calculate: false,
      cellGap: 1,
      cellValues: { unit: 'reqps' },
      color: { exponent: 0.5, fill: 'orange', mode: 'scheme', scale: 'exponential', scheme: 'Oranges', steps: 64, reverse: false },
      exemplars: { color: 'rgba(255,0,255,0.7)' },
      // Buckets without requests stay empty.
      filterValues: { le: 1e-9 },
      legend: { show: true },
      rowsFrame: { layout: 'auto' },
      showValue: 'never',
      tooltip: { mode: 'single', showColorScale: false, yHistogram: true },
      yAxis: { axisPlacement: 'left', reverse: false, unit: unit },
    },
  };

// --- Variables, annotations, links ---------------------------------------------------------------------------------

local datasourceVariable = {
  name: 'datasource',
  label: 'Data source',
  type: 'datasource',
  query: 'prometheus',
  current: { selected: true, text: 'default', value: 'default' },
  hide: 0,
  includeAll: false,
  multi: false,
  options: [],
  refresh: 1,
  regex: '',
};

// `all` is the regular expression of the choice All: '.*' lets pass what has no such label.
local labelVariable(name, label, metric, all='.+') = {
  local query = 'label_values(%s, %s)' % [metric, name],
  name: name,
  label: label,
  type: 'query',
  datasource: datasource,
  definition: query,
  query: { qryType: 1, query: query, refId: 'variable' },
  allValue: all,
  current: { selected: true, text: ['All'], value: ['$__all'] },
  hide: 0,
  includeAll: true,
  multi: true,
  options: [],
  // On every change of the time range: sales and processes come and go.
  refresh: 2,
  regex: '',
  sort: 1,
};

// Fires while `expr` is true and was not a moment ago; `text` may name labels.
local annotation(name, colour, expr, text) = {
  name: name,
  datasource: datasource,
  enable: true,
  expr: expr,
  hide: false,
  iconColor: colour,
  step: '5s',
  tagKeys: 'sale',
  textFormat: text,
  titleFormat: name,
  useValueForTime: false,
};

local alertsAnnotation = {
  builtIn: 1,
  datasource: { type: 'grafana', uid: '-- Grafana --' },
  enable: true,
  hide: true,
  iconColor: 'rgba(0, 211, 255, 1)',
  name: 'Annotations & Alerts',
  type: 'dashboard',
};

// To all dashboards of this tag.
local tag = 'stockade';
local link = {
  asDropdown: false,
  icon: 'external link',
  includeVars: true,
  keepTime: true,
  tags: [tag],
  targetBlank: false,
  title: 'Stockade',
  tooltip: '',
  type: 'dashboards',
  url: '',
};

{
  target: target,
  stat: stat,
  timeseries: timeseries,
  bargauge: bargauge,
  table: table,
  heatmap: heatmap,
  row: layout.row,
  line: layout.line,
  override: override,
  thresholds: thresholds,
  labelVariable: labelVariable,
  annotation: annotation,

  dashboard(title, uid, description, rows, variables=[], annotations=[]): {
    title: title,
    uid: uid,
    description: description,
    id: null,
    schemaVersion: 39,
    version: 1,
    editable: false,
    graphTooltip: 1,
    links: [link],
    panels: layout.place(rows),
    refresh: '5s',
    tags: [tag],
    templating: { list: [
      datasourceVariable,
      labelVariable('job', 'Job', 'stockade_build_info'),
      labelVariable('instance', 'Instance', 'stockade_build_info{job=~"$job"}'),
    ] + variables },
    annotations: { list: [alertsAnnotation] + annotations },
    time: { from: 'now-30m', to: 'now' },
    timepicker: { refresh_intervals: ['5s', '10s', '30s', '1m', '5m'] },
    timezone: 'browser',
  },

  // --- Refinements -------------------------------------------------------------------------------------------------

  span(n): { span:: n },
  stacked: { fieldConfig+: { defaults+: { custom+: { fillOpacity: 40, stacking: { group: 'A', mode: 'normal' } } } } },
  legendRight: { options+: { legend+: { placement: 'right' } } },
  noValue(text): { fieldConfig+: { defaults+: { noValue: text } } },
  decimals(n): { fieldConfig+: { defaults+: { decimals: n } } },
  max(n): { fieldConfig+: { defaults+: { max: n } } },
  background: { options+: { colorMode: 'background' } },
  // Values with their names, or names alone.
  text(mode): { options+: { textMode: mode } },
  // 0 is how it must be.
  zeroIsGood: thresholds([['green', null], ['red', 1e-9]]) + self.background,
  // The more, the worse: from `warning` on and from `bad` on.
  limits(warning, bad): thresholds([['green', null], ['orange', warning], ['red', bad]]),
  colour(series, colour): override('byName', series, { color: { fixedColor: colour, mode: 'fixed' } }),
  colourLike(pattern, colour): override('byRegexp', '/^%s$/' % pattern, { color: { fixedColor: colour, mode: 'fixed' } }),
  dashed(series): override('byName', series, {
    'custom.fillOpacity': 0,
    'custom.lineStyle': { dash: [8, 8], fill: 'dash' },
    'custom.stacking': { group: 'B', mode: 'none' },
  }),
  // Of tables: units of columns, and a click that chooses a value on a dashboard.
  unit(column, unit): override('byName', column, { unit: unit }),
  chooses(column, uid): override('byName', column, { links: [{
    title: 'Only ${__value.text}',
    url: '/d/%s?var-%s=${__value.text}&${datasource:queryparam}&${job:queryparam}&${instance:queryparam}&${__url_time_range}' % [uid, column],
  }] }),
  // Words for numbers: { '1': ['up', 'green'] }.
  words(words): { fieldConfig+: { defaults+: { mappings: [{
    type: 'value',
    options: { [value]: { text: words[value][0], color: words[value][1] } for value in std.objectFields(words) },
  }] } } },
}
