"""`stockade serve` in a process of its own, with a private Redis, for all tests."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from stockade_client import Settings, Stockade

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("STOCKADE_PROGRAM", ROOT / "target/debug/stockade"))


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its URL. It takes a port of its own; a server in .tools/bin is found from the repository."""
    assert PROGRAM.exists(), f"{PROGRAM} is not there: run `cargo build`"
    folder = tmp_path_factory.mktemp("stockade")
    flags = ["serve", "--listen", "127.0.0.1:0", "--log", "json", "--drain-seconds", "1", "--data-dir", str(folder)]
    keep = {name for name in os.environ if not name.startswith("STOCKADE_") or name == "STOCKADE_REDIS_SERVER"}
    environment = {name: os.environ[name] for name in keep}
    environment["STOCKADE_REDIS_APPENDFSYNC"] = "no"
    with subprocess.Popen([PROGRAM, *flags], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if address := re.search(r"listens on (http://[\d.:]+)", line):
                break
        else:
            pytest.fail(f"the service ended:\n{''.join(said)}")
        # Whatever else it says must not fill the pipe.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        try:
            yield address[1]
        finally:
            process.terminate()
            process.wait()


def client(url: str, settings: Settings = Settings()) -> Stockade:
    """Without the proxies of this machine's environment."""
    limits = httpx.Limits(max_connections=100)
    return Stockade(url, settings=settings, http=httpx.Client(trust_env=False, limits=limits))
