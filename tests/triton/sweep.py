"""Compiles the kernels of calls of every kind for sm_90, without a device, and says which put numbers into memory.

    python tests/triton/sweep.py [--seed 0] [--kinds edges graphs] [--out FILE.json]

The suite compiles a few calls; this takes most of an hour. The usual calls, scaled dot products under softmax, have all
sizes together. Of the others, each two properties, such as a score and a number of features, come together in at least
one call. Kinds that are not named stay in the file as they are. Ends with 1 where a kernel spills more than it may, or
needs more than a device has.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

from edgewise.backends.triton.sizes import MAX_REGISTERS

SHARED, REGISTERS = 227 * 1024, 65_536
"""Bytes of shared memory, and registers of all its threads together, that a program may have."""
NORMALIZERS = (
    "softmax", "temperature", "hardmax", "straight_through", "sparsemax", "entmax", "sigmoid", "mean", "identity",
)  # fmt: skip
MULTIPLIED = ("dot", "scaled", "cosine", "bilinear", "constant")
SCORES = (*MULTIPLIED, "tanh", "relu", "sigmoid", "silu", "gelu", "gat", "gatv2", "gaussian", "laplacian")
DTYPES = ("float32", "bfloat16", "float16")
DIMS = (8, 16, 24, 32, 64, 100, 128, 200, 256)
EITHER = (False, True)
DROPOUT = (0.0, 0.1)
NEIGHBORHOODS = ("full", "causal", "window")
KINDS: dict[str, dict[str, tuple]] = {
    "edges": {
        "score": SCORES, "normalizer": NORMALIZERS, "dtype": DTYPES, "heads": (1, 2, 3, 8, 16), "dim": DIMS,
        "carries": EITHER, "shared": EITHER, "dropout": DROPOUT,
    },
    "graphs": {
        "score": MULTIPLIED, "normalizer": NORMALIZERS, "dtype": DTYPES, "heads": (1, 4, 8), "dim": DIMS,
        "nodes": (12, 25, 40, 60), "bias": EITHER, "dropout": DROPOUT,
    },
    "ranges": {
        "score": SCORES, "normalizer": NORMALIZERS, "dtype": DTYPES, "dim": DIMS, "neighborhood": NEIGHBORHOODS,
        "bias": EITHER, "dropout": DROPOUT,
    },
    "strongest": {
        "score": SCORES, "normalizer": NORMALIZERS, "dtype": DTYPES, "dim": DIMS, "neighborhood": NEIGHBORHOODS,
        "bias": EITHER, "top": (1, 8, 16, 64),
    },
}  # fmt: skip
"""What calls of a kind have, and which values each of it."""
USUAL: dict[str, tuple] = {
    "score": ("scaled",), "normalizer": ("softmax",), "dtype": ("float32", "bfloat16"), "neighborhood": ("causal",),
    "carries": (False,), "shared": (False,), "bias": (False,), "dropout": (0.0,), "top": (8,),
}  # fmt: skip
"""What the usual calls have, of which none is left out. Each two properties together would miss some of them."""
MEASURED = "registers", "spills", "shared"
"""Of a thread; bytes of a thread, and instructions that put them there; bytes of a program."""
TOGETHER = 6
"""Calls that one process compiles."""


def calls_of(kind: str, chance: random.Random, tries: int = 60) -> list[dict[str, Any]]:
    """The usual calls, and few others, so that every value of each property meets every value of each other."""
    properties = KINDS[kind]
    usual = product(*(USUAL.get(name, values) for name, values in properties.items()))
    calls = [dict(zip(properties, values, strict=True)) for values in usual]
    missing = {
        ((one, a), (other, b))
        for one, other in combinations(properties, 2)
        for a, b in product(properties[one], properties[other])
    }
    for call in calls:
        missing -= set(combinations(call.items(), 2))
    while missing:
        pairs = sorted(missing, key=repr)
        drawn = [
            {name: chance.choice(values) for name, values in properties.items()} | dict(chance.choice(pairs))
            for _ in range(tries)
        ]
        calls.append(max(drawn, key=lambda call: len(missing & set(combinations(call.items(), 2)))))
        missing -= set(combinations(calls[-1].items(), 2))
    return [{"over": "ranges" if kind == "strongest" else kind, **call} for call in calls]


def kernels_of(calls: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """What became of the kernels of each call."""
    words = [sys.executable, str(Path(__file__).with_name("compiled.py")), json.dumps(calls)]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ran = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"{json.dumps(calls)}\n{ran.stderr[-3000:]}")
    return json.loads(ran.stdout)


def is_bad(made: dict[str, Any]) -> bool:
    """Programs that take care of what is not finite run seldom, and may put some numbers aside."""
    does_fit = made["shared"] <= SHARED and 32 * made["warps"] * made["registers"] <= REGISTERS
    return not does_fit or (made["spills"] > may_spill(made["registers_asked"]) and not made.get("again", False))


def may_spill(registers: int | None) -> float:
    """How much a program may put aside: what it likes where it is given few registers, because a device was faster with
    more programs at once; a little where the compiler trades some numbers for that; else nothing."""
    if registers is None:
        return 32
    return 0 if registers == MAX_REGISTERS else math.inf


def main() -> None:
    """Compiles everything, with a line for each kind and for each kernel that is not as it should be."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    asked.add_argument("--jobs", type=int, default=os.cpu_count())
    asked.add_argument("--out", type=Path)
    given = asked.parse_args()
    of = {"commit": commit(), "triton": version("triton"), "target": "sm_90", "seed": given.seed}
    report = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    is_bad_anywhere = False
    for kind in given.kinds:
        calls = calls_of(kind, random.Random(given.seed))  # the same, whichever other kinds there are
        groups = [calls[first : first + TOGETHER] for first in range(0, len(calls), TOGETHER)]
        kernels, bad = [], []
        with ThreadPoolExecutor(given.jobs) as pool:
            for call, made in zip(calls, chain.from_iterable(pool.map(kernels_of, groups)), strict=True):
                kernels += made
                for each in filter(is_bad, made):
                    bad.append({"call": call, **{name: each[name] for name in ("kernel", *MEASURED)}})
                    print(json.dumps(bad[-1]), flush=True)
        report[kind] = {**of, "calls": len(calls), "bad": bad, "kernels": most_of(kernels)}
        print(kind, json.dumps(report[kind], indent=1), flush=True)
        is_bad_anywhere = is_bad_anywhere or bool(bad)
        if given.out:
            given.out.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(is_bad_anywhere)


def commit() -> str:
    """What is compiled, and whether files differ from it."""
    words = "git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"
    ran = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return ran.stdout.strip() or "unknown"


def most_of(kernels: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """For each kernel, how often it was compiled, and the most that one of these takes."""
    of_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for made in kernels:
        of_name[made["kernel"] + (", with care" if made.get("again", False) else "")].append(made)
    return {
        name: {"compiled": len(made)} | {what: max(each[what] for each in made) for what in MEASURED}
        for name, made in sorted(of_name.items())
    }


if __name__ == "__main__":
    main()
