"""The charts: where things are on an axis, and what a file holds."""

import xml.etree.ElementTree as xml

import plot
import pytest
from plot import Axis, Line, Panel

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("low, high, ticks", [
    (300, 26_000, [200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000]), (0.14, 0.9, [0.1, 0.2, 0.5, 1]), (5, 5, [5]),
    (1, 1_000, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000]),
])
def test_a_logarithmic_axis_ends_at_round_numbers(low, high, ticks):
    assert plot.log_ticks(low, high) == pytest.approx(ticks)


def test_each_power_of_ten_takes_as_much_room():
    axis = Axis([1, 10_000], True, 0, 400, 6)
    assert [axis.at(value) for value in (1, 10, 100, 10_000)] == pytest.approx([0, 100, 200, 400])
    assert axis.ticks == pytest.approx([1, 10, 100, 1_000, 10_000])


def test_a_linear_axis_starts_at_zero_and_has_room_for_the_largest():
    axis = Axis([3, 22], False, 100, 0, 5)
    assert axis.ticks == [0, 5, 10, 15, 20, 25] and axis.at(0) == 100 and axis.at(25) == 0


@pytest.mark.parametrize("values", [[0], [1], [7, 7, 7], [0.02], [100_000_000], [99.9]])
def test_a_linear_axis_is_there_for_any_values(values):
    axis = Axis(values, False, 0, 100, 5)
    assert axis.ticks[0] == 0 and 0 <= axis.at(max(values)) <= 100.001


def test_a_figure_is_one_file_with_its_texts_as_texts():
    lines = [Line("p50 & more", [(1, 1.0), (2, 3.0)]), Line("p99", [(1, 5.0), (2, 9.0)], 1, True, frozenset([2])), Line("none", [])]
    panels = [Panel("latency", "connections", lines, log_y=True, ticks=(1, 2)), Panel("nothing", "x", [])]
    drawn = plot.figure("Title", "caption", panels, 2)
    assert drawn == plot.figure("Title", "caption", panels, 2)
    root = xml.fromstring(drawn)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"Title", "caption", "latency", "connections", "p50 & more", "p99", "nothing was measured"} <= set(texts)
    assert "none" not in texts
    # The one that is past saturation is hollow.
    assert sum(path.get("fill") == "#ffffff" for path in root.iter(f"{SVG}path")) == 1
