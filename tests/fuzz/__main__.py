"""`python -m fuzz --calls 200000 --seed 1`: draw calls, check them, count what was found; every finding is printed."""

import argparse
import collections
import math
import time

import torch

from fuzz.check import BACKENDS, check
from fuzz.draw import Draw


def main() -> int:
    """Run, and say by its exit status whether anything is left unexplained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000, help="calls of the library to make")
    parser.add_argument("--seed", type=int, default=0, help="of the first call; each call has a seed of its own")
    parser.add_argument("--backends", nargs="+", default=BACKENDS)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long, between two seeds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: collections.Counter[str] = collections.Counter()
    wrong, seed, start = 0, options.seed, time.monotonic()
    while sum(counts.values()) < options.calls and time.monotonic() - start < options.seconds:
        drawn = Draw(seed).call()
        for backend, verdict in check(drawn, tuple(options.backends)).items():
            known = verdict in ("ok", "refused", "rounding")
            counts[f"{drawn.verb:17} {backend:9} {verdict if known else 'WRONG'}"] += 1
            if not known:
                wrong += 1
                print(f"seed {seed} {backend}: {verdict}\n    {drawn}", flush=True)
        seed += 1
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")
    total = sum(counts.values())
    print(f"{total} calls of seeds {options.seed} to {seed - 1}: {wrong} wrong, {time.monotonic() - start:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
