"""How a panel wants its values to look: colours, names, units, as its JSON says."""

import re

import svg
import units


class Looks:
    """Of one panel."""

    def __init__(self, panel):
        self.kind, self.title, self.options = panel["type"], panel["title"], panel["options"]
        self.defaults, self.overrides = panel["fieldConfig"]["defaults"], panel["fieldConfig"]["overrides"]
        self.columns = [target["refId"] for target in panel["targets"]]
        wanted = [step["options"]["include"]["pattern"] for step in panel.get("transformations", ())
                  if step["id"] == "filterFieldsByName"]
        self.wanted = wanted[0] if wanted else ".*"
        # The last step at or below a value gives its colour.
        self.steps = self.defaults.get("thresholds", {}).get("steps", [])
        self.said = {value: entry for mapping in self.defaults.get("mappings", ()) if mapping["type"] == "value"
                     for value, entry in mapping["options"].items()}

    def override(self, name, key, usual=None):
        """What is said of this series or column alone."""
        found = usual
        for entry in self.overrides:
            how, what = entry["matcher"]["id"], entry["matcher"]["options"]
            if name == what if how == "byName" else re.fullmatch(what, name):
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

    def hidden(self, name):
        return self.override(name, "custom.hidden", False)
