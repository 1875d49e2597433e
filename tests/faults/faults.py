"""`make faults`: real processes, killed, frozen, starved and cut off under load, and what is true of the books afterwards.

All that is chosen comes from SEED; the same seed draws the same plans, and each run prints the digest of its own.
"""

import contextlib
import json
import os
import pathlib
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import matrix
import plan
import table
from processes import MEMORY, ROOT, engine
from scenario import Result, Run

KNOBS = {"SECONDS": "600", "SEED": "", "ROWS": "", "RUN": "", "OUT": ""}
KEPT = ROOT / "target/faults"


def main(arguments):
    knobs = KNOBS | dict(argument.split("=", 1) for argument in arguments)
    if unknown := set(knobs) - set(KNOBS):
        raise SystemExit(f"there is no {', '.join(sorted(unknown))}: {', '.join(KNOBS)}")
    seed = int(knobs["SEED"] or random.SystemRandom().randrange(1_000_000))
    rows = chosen(knobs["ROWS"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))    # so that nothing that was started is left
    print(f"SEED={seed} SECONDS={knobs['SECONDS']} ROWS={','.join(row.name for row in rows)}", flush=True)
    print(about(), flush=True)
    results = {row.name: [] for row in rows}
    ends, failed = time.monotonic() + float(knobs["SECONDS"]), []
    for place, row in enumerate(rows):
        share = (ends - time.monotonic()) / (len(rows) - place)
        until, number = time.monotonic() + share, int(knobs["RUN"] or 0)
        while not results[row.name] or time.monotonic() < until and not knobs["RUN"]:
            result = played(row, seed, number)
            results[row.name].append(result)
            if result.wrong:
                failed.append(f"make faults SEED={seed} ROWS={row.name} RUN={number}")
                break
            number += 1
    print(table.text(rows, results))
    if knobs["OUT"]:
        pathlib.Path(knobs["OUT"]).write_text(json.dumps({"seed": seed, "seconds": knobs["SECONDS"], "machine": about()} | table.document(rows, results), indent=1) + "\n")
    if failed:
        raise SystemExit("\n".join(["", "not so:", *failed]))


def about():
    """What it ran on."""
    server = subprocess.run([engine.server(), "--version"], capture_output=True, text=True).stdout.strip()
    version = " ".join(word for word in server.split() if word.startswith("v="))
    return (f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, {os.path.basename(engine.server())} {version}, "
            f"Python {platform.python_version()}, files in {MEMORY or tempfile.gettempdir()}")


def chosen(names):
    """Those named; `quick`: those of `make test`; or all."""
    rows = {row.name: row for row in matrix.all_rows()}
    names = ",".join(name for name, row in rows.items() if row.is_quick) if names == "quick" else names
    if unknown := [name for name in names.split(",") if name and name not in rows]:
        raise SystemExit(f"there is no {', '.join(unknown)}: {', '.join(rows)}")
    return [rows[name] for name in names.split(",") if name] or list(rows.values())


def played(row, seed, number):
    """One run, in a folder of its own that stays where something was wrong."""
    drawn = plan.draw(row, seed, number)
    home = pathlib.Path(tempfile.mkdtemp(prefix=f"stockade-faults-{row.name}-", dir=MEMORY))
    begun, result = time.monotonic(), Result()
    try:
        with contextlib.ExitStack() as stack:
            run = Run(row, drawn, str(home), stack)
            result = run.result
            row.play(run)
            if run.crowd and not run.is_finished:
                run.finish()
    except Exception:   # noqa: BLE001
        result.wrong.append(traceback.format_exc())
    finally:
        if result.wrong:
            keep(home, drawn, seed, result, run.crowd)
        shutil.rmtree(home, ignore_errors=True)
    print(f"{row.name} {number}: plan {plan.digest(drawn)}, {time.monotonic() - begun:.1f} s, {table.line(result)}", flush=True)
    return result


def keep(home, drawn, seed, result, crowd):
    """What it takes to find out."""
    if crowd:
        crowd.goes_on = False
    calls = crowd.journal.calls if crowd else []
    (home / "plan.json").write_text(json.dumps({"seed": seed, **drawn}))
    (home / "calls.jsonl").write_text("".join(json.dumps(vars(call)) + "\n" for call in calls))
    (home / "wrong.txt").write_text("\n".join(result.wrong) + "\n")
    kept = KEPT / home.name
    shutil.copytree(home, kept, ignore=lambda _, names: [name for name in names if name.endswith(".sock")])
    print(f"\n{drawn['row']} {drawn['number']}: {len(result.wrong)} wrong, see {kept}:", *result.wrong[:10], "", sep="\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
