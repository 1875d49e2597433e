"""What dashboards and alerts say: their expressions, run by Prometheus."""

import math
import re
from dataclasses import dataclass

STRING = r'"(?:[^"\\]|\\.)*"'
BRACES = rf'\{{(?:[^}}"]|{STRING})*\}}'
NAME = r"[A-Za-z_:][\w:]*"
# Labels, not metrics, stand in these; a range is not a name either.
CLAUSE = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\[[^\]]*\]")
WORDS = set("and or unless bool offset inf nan group_left group_right "
            "sum min max avg count group stddev stdvar topk bottomk quantile count_values".split())


@dataclass(frozen=True)
class Selector:
    """A metric as it stands in an expression, with its labels."""

    metric: str
    text: str


def selectors(expr):
    """All selectors of an expression."""
    strings = []
    # Strings may hold brackets and braces: they are put away first, and put back last.

    def put_away(found):
        if found[0].startswith("#"):
            return ""  # a comment
        strings.append(found[0])
        return f'"{len(strings) - 1}"'

    bare = re.sub(rf"{STRING}|#[^\n]*", put_away, expr)
    found = re.finditer(rf"(?<![\w:.\"])({NAME})\s*({BRACES})?(?!\s*\()(?![\w:])", CLAUSE.sub("", bare))

    def whole(text):
        return re.sub(r'"(\d+)"', lambda number: strings[int(number[1])], text)

    return [Selector(name, whole(name + (labels or ""))) for name, labels in map(re.Match.groups, found)
            if name.lower() not in WORDS]


def legend(target, labels):
    """The name of a series: its legend with the labels in it, or the labels."""
    if target.legend and target.legend != "__auto":
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found[1], ""), target.legend)
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()) if name not in ("__name__", "job"))


def has_data(samples):
    """NaN is what a quantile of nothing says, and no answer."""
    return any(not math.isnan(value) for _, value in samples)


def read(prometheus, panel, at):
    """What a panel shows at a time: the samples of each of its targets."""
    return [prometheus.query(target.expr, at) for target in panel.targets]
