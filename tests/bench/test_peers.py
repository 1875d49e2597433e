"""The peers: what pgbench's log says, and what becomes of one that is not installed."""

import os
import subprocess
import sys

import peers
import pytest
from report import Row
from sides import Failed


def test_a_latency_counts_from_when_the_transaction_was_due(tmp_path):
    # client, transaction, latency, script, second, microsecond, lag
    (tmp_path / "log.1").write_text("0 1 700 0 1000 900 200\n0 2 500 0 1001 100 0\n")
    (tmp_path / "log.1.1").write_text("1 1 300 0 1000 300 0\n1 2 40 0 1002")      # cut off when it was given up
    read = sorted(peers.read_log(str(tmp_path / "log")))
    assert read == [(1_000_000_000, 300), (1_000_000_200, 700), (1_000_999_600, 500)]
    assert not list(tmp_path.iterdir())


def test_a_log_without_a_transaction_is_no_run(tmp_path):
    with pytest.raises(Failed):
        peers.read_log(str(tmp_path / "log"))


@pytest.mark.parametrize("share, value", [(0.5, 50), (0.99, 99), (0.999, 100), (0, 1)])
def test_as_many_are_at_or_below_a_quantile(share, value):
    assert peers.quantile(list(range(1, 101)), share) == value


def test_what_is_not_installed_is_missing_and_its_rows_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "postgres_programs", lambda: None)
    with pytest.raises(peers.Missing) as postgres:
        peers.Postgres()
    monkeypatch.setattr(peers, "node_version", lambda: [18, 20, 4])
    with pytest.raises(peers.Missing, match="Node 20"):
        peers.Node(str(tmp_path), "unix", "redis-server")
    assert Row("row", None, None, None, note=str(postgres.value)).verdict() == "not measured: no PostgreSQL server with pgbench"
    assert Row("row", None, None, None).verdict() == "not measured"


def test_children_are_those_of_one_process():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in peers.children(os.getpid()) and child.pid not in peers.children(child.pid)
    finally:
        child.communicate(b"\n")
