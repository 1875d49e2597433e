"""How a panel wants its values to look: colours, names, units, as its JSON says."""

import re

import dashboards
import svg
import units


def panels(**times):
    """All panels, each with its style."""
    queries = dashboards.panels(**times)
    boards = dashboards.load().values()
    folded = {(board["uid"], inner["id"]) for board in boards for row in board["panels"] for inner in row.get("panels", ())}
    raw = [(board["uid"], panel) for board in boards for _, panel in dashboards.rows_and_panels(board)]
    return [(panel, Style(json, (uid, json["id"]) in folded)) for panel, (uid, json) in zip(queries, raw, strict=True)]


class Style:
    """Of one panel."""

    def __init__(self, panel, folded):
        self.kind, self.title, self.options = panel["type"], panel["title"], panel["options"]
        self.place, self.folded = panel["gridPos"], folded
        self.defaults, self.overrides = panel["fieldConfig"]["defaults"], panel["fieldConfig"]["overrides"]
        self.ref_ids = [target["refId"] for target in panel["targets"]]
        # Of a table: which columns there are, and in which order.
        self.organize = next((step["options"] for step in panel.get("transformations", ()) if step["id"] == "organize"), None)
        # The last step at or below a value gives its colour.
        self.steps = self.defaults.get("thresholds", {}).get("steps", [])
        self.said = {value: entry for mapping in self.defaults.get("mappings", ()) if mapping["type"] == "value"
                     for value, entry in mapping["options"].items()}

    def override(self, name, key, usual=None):
        """What is said of this series or column alone."""
        found = usual
        for entry in self.overrides:
            how, what = entry["matcher"]["id"], entry["matcher"]["options"]
            if name == what if how == "byName" else re.fullmatch(what.strip("/"), name):
                found = next((said["value"] for said in entry["properties"] if said["id"] == key), found)
        return found

    def colour(self, name, place):
        """Of a line."""
        own = self.override(name, "color")
        return svg.colour(own["fixedColor"]) if own else svg.COLOURS[place % len(svg.COLOURS)]

    def shade(self, name, value):
        """Of a number."""
        own = self.override(name, "color")
        if own:
            return svg.colour(own["fixedColor"])
        mapped = self.said.get(units.number(value), {}).get("color")
        steps = [step["color"] for step in self.steps if step["value"] is None or value >= step["value"]]
        return svg.colour(mapped or (steps[-1] if steps else "text"))

    def say(self, name, value):
        """A number in words."""
        if self.options.get("textMode") == "name":
            return name
        mapped = self.said.get(units.number(value), {}).get("text")
        return mapped or units.shown(value, self.unit(name))

    def unit(self, name=""):
        return self.override(name, "unit", self.defaults.get("unit"))

    def stacked(self, name):
        usual = self.defaults.get("custom", {}).get("stacking", {})
        return self.override(name, "custom.stacking", usual).get("mode", "none") != "none"

    def dashed(self, name):
        return (self.override(name, "custom.lineStyle") or {}).get("fill") == "dash"

    def table(self, answers):
        """Head and rows, of labels, value and number of the target. A row for each set of labels; what has only some of the
        labels is joined to all rows that have the same ones."""
        order = sorted(self.organize["indexByName"], key=self.organize["indexByName"].get)
        names = [name for name in order if not name.startswith("Value #")]
        answers = [({name: labels[name] for name in names if name in labels}, value, f"Value #{self.ref_ids[place]}")
                   for labels, value, place in answers]
        columns = {name: self.organize["renameByName"].get(name, name) for name in order
                   if name not in names and not self.organize["excludeByName"].get(name)}
        keys = []
        for labels, _, _ in answers:
            if labels not in keys and not any(labels.items() < other.items() for other, _, _ in answers):
                keys.append(labels)
        rows = []
        for key in sorted(keys, key=lambda key: list(key.values())):
            cells = {column: units.shown(value, self.unit(columns.get(column, ""))) for labels, value, column in answers
                     if labels.items() <= key.items()}
            rows.append([*(key.get(name, "") for name in names), *(cells.get(column, "") for column in columns)])
        return [*names, *columns.values()], rows
