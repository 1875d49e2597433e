// Where panels stand: nobody writes a gridPos. A row is a list of lines, a line is a height and its panels.

local columns = 24;

// Panels beside each other, as wide as their `span` says.
local line(height, panels) = { height: height, panels: panels };

local row(title, lines, collapsed=false) = { title: title, lines: lines, collapsed: collapsed };

local placeLine(line, y) =
  local spans = std.sum([panel.span for panel in line.panels]);
  assert columns % spans == 0 : 'a line of %d spans does not fill %d columns: %s' % [spans, columns, [p.title for p in line.panels]];
  local place(done, panel) =
    local width = panel.span * columns / spans;
    { x: done.x + width, panels: done.panels + [panel { gridPos: { h: line.height, w: width, x: done.x, y: y } }] };
  std.foldl(place, line.panels, { x: 0, panels: [] }).panels;

local placeRow(row, y) =
  local step(done, line) = { y: done.y + line.height, panels: done.panels + placeLine(line, done.y) };
  local body = std.foldl(step, row.lines, { y: y + 1, panels: [] });
  local header = {
    type: 'row',
    title: row.title,
    collapsed: row.collapsed,
    gridPos: { h: 1, w: columns, x: 0, y: y },
  };
  if row.collapsed
  then { y: y + 1, panels: [header { panels: body.panels }] }
  else { y: body.y, panels: [header { panels: [] }] + body.panels };

// Numbers all panels in reading order, those of collapsed rows as well.
local number(panels) =
  local step(done, panel) =
    local inner = if std.objectHas(panel, 'panels') then panel.panels else [];
    local numbered = panel { id: done.next } + (
      if inner == [] then {} else { panels: std.mapWithIndex(function(i, p) p { id: done.next + 1 + i }, inner) }
    );
    { next: done.next + 1 + std.length(inner), panels: done.panels + [numbered] };
  std.foldl(step, panels, { next: 1, panels: [] }).panels;

{
  line: line,
  row: row,

  // The panels of a dashboard.
  place(rows):
    local step(done, row) =
      local placed = placeRow(row, done.y);
      { y: placed.y, panels: done.panels + placed.panels };
    number(std.foldl(step, rows, { y: 0, panels: [] }).panels),
}
