"""The same seed is the same plan, and each row draws one that can be written down."""

import json

import faults
import matrix
import plan
import pytest
import table
from scenario import Result

ROWS = matrix.all_rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_plan_can_be_drawn_again(row):
    first = plan.draw(row, 7, 3)
    assert plan.digest(first) == plan.digest(plan.draw(row, 7, 3))
    assert json.loads(json.dumps(first)) == first
    others = [plan.draw(row, 8, 3), plan.draw(row, 7, 4)]
    assert len({plan.digest(one) for one in (first, *others)}) == 3


def test_rows_have_names_of_their_own():
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert faults.chosen("reset,aof-torn") == [row for name in ("reset", "aof-torn") for row in ROWS if row.name == name]
    with pytest.raises(SystemExit, match="there is no nonsense"):
        faults.chosen("reset,nonsense")


def test_all_lengths_are_torn_in_twenty_runs():
    [row] = [row for row in ROWS if row.name == "aof-torn"]
    lengths = [length for number in range(20) for length in plan.draw(row, 7, number)["faults"]["lengths"]]
    assert sorted(lengths) == list(range(1, 2_001))


def test_a_line_of_the_table():
    [row] = [row for row in ROWS if row.name == "reset"]
    results = [Result(calls=10, unknown=1, recovered=[0.1, 0.3], notes={"things": 2}), Result(calls=5, lost=1, recovered=[0.2], notes={"things": 3})]
    assert table.cells(row, results) == [row.fault, 2, 15, 1, 1, 0, 0, 0, 0, "0.20", "0.30"]
    text = table.text([row], {"reset": results})
    assert "RST on all connections" in text and "reset: things 5" in text
    assert table.cells(row, [Result(not_linearizable=None)])[-3:] == ["-", "-", "-"]
