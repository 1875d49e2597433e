#!/usr/bin/env python3
"""Makes dashboards/*.json from src/*.jsonnet: `generate.py write`, or `generate.py check` to see that they are the same.

Needs the package jsonnet, which `scripts/setup.sh observe` puts into .tools/python.
"""

import json
import pathlib
import sys

import _jsonnet

HERE = pathlib.Path(__file__).resolve().parent


def generate() -> dict[pathlib.Path, str]:
    """The text of every dashboard by its file. The same source gives the same bytes: keys are sorted."""
    return {
        HERE
        / "dashboards"
        / f"{source.stem}.json": json.dumps(
            json.loads(_jsonnet.evaluate_file(str(source))), indent=2, sort_keys=True, ensure_ascii=False
        )
        + "\n"
        for source in sorted((HERE / "src").glob("*.jsonnet"))
    }


def different() -> list[str]:
    """What is wrong with the files in dashboards/, a sentence each."""
    wanted = generate()
    present = set((HERE / "dashboards").glob("*.json"))
    return [
        f"grafana/dashboards/{path.name} has no source in grafana/src: remove it"
        for path in sorted(present - set(wanted))
    ] + [
        f"grafana/dashboards/{path.name} is not made from grafana/src: run `make dashboards` and commit what it changes"
        for path, text in wanted.items()
        if path not in present or path.read_text(encoding="utf-8") != text
    ]


def main() -> int:
    match sys.argv[1:]:
        case ["write"]:
            for path, text in generate().items():
                path.write_text(text, encoding="utf-8")
            return 0
        case ["check"]:
            wrong = different()
            print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
            return 1 if wrong else 0
        case _:
            print("usage: generate.py write | check", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
