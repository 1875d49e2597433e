"""Selectors are found in expressions as people write them."""

import promql
import pytest


@pytest.mark.parametrize("expr, found", [
    ("up", ["up"]),
    ("max without (instance) (stockade_holds_open)", ["stockade_holds_open"]),
    ('sum by (route) (rate(a_total{route!~"/x/{y}(z)", status=~"5.."}[15s]))', ['a_total{route!~"/x/{y}(z)", status=~"5.."}']),
    ("a / ignoring (b) group_left (c) sum(d)", ["a", "d"]),
    ("time() - max(a{}) > bool 3 and on () b == 1e3 offset 5m", ["a{}", "b"]),
    ("job:a:rate5m > 14.4 * 0.001 or absent(a)", ["job:a:rate5m", "a"]),
    ("a # not b\nunless c", ["a", "c"]),
])
def test_selectors(expr, found):
    assert [selector.text for selector in promql.selectors(expr)] == found


def test_a_quantile_of_nothing_is_no_data():
    assert not promql.has_data([])
    assert not promql.has_data([({}, float("nan"))])
    assert promql.has_data([({}, float("nan")), ({}, 0.0)])
