"""docs/pictures are of the dashboards that there are."""

from html import escape

import dashboards
import pictures
import pytest
import style
import units


@pytest.mark.parametrize("uid", dashboards.load())
def test_a_picture_has_every_panel(uid):
    text = pictures.path_of(uid).read_text()
    assert len(text) <= pictures.SIZE_MAX
    assert "not a screenshot of Grafana" in text
    for panel, how in style.panels():
        # What is too long for its place is cut.
        if panel.dashboard == uid and not how.folded:
            assert f">{escape(panel.title[:12])}" in text, f"{panel.title} is not in the picture: run `make pictures`"


@pytest.mark.parametrize("value, unit, shown", [
    (0, "short", "0"), (1_234_567, "short", "1.23M"), (120, "short", "120"), (0.5, "none", "0.5"),
    (0.0123, "s", "12.3 ms"), (0.00025, "s", "250 µs"), (86_400, "dtdhms", "1 d"), (90, "s", "1.5 min"),
    (0.051, "percentunit", "5.1 %"), (536_870_912, "bytes", "512 MiB"), (12.5, "reqps", "12.5 req/s"), (float("nan"), "s", "-"),
])
def test_values_are_written_as_people_read_them(value, unit, shown):
    assert units.shown(value, unit) == shown
