"""Runs the parts given on the command line, all of them without one, and prints what each counted.

Each part is a module beside this one with `run(minutes, seed) -> dict[str, Any]`; it raises AssertionError where a
promise was broken, after the counts.
"""

import argparse
import importlib
import json
import time
from pathlib import Path

PARTS = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))


def main() -> int:
    """Runs, prints one JSON object a part, and ends with 1 where a part found something."""
    parser = argparse.ArgumentParser(prog="attack", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--minutes", type=float, default=5.0, help="for each part (default: 5)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    code = 0
    for part in arguments.parts or PARTS:
        began = time.monotonic()
        counts = importlib.import_module(f"attack.{part}").run(arguments.minutes, arguments.seed)
        print(json.dumps({"part": part, "seconds": round(time.monotonic() - began, 1), **counts}, indent=1), flush=True)
        code |= bool(counts.get("foreign") or counts.get("broken"))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
