"""Every reader under three engines: changes of undamaged files, Hypothesis, and atheris where it is installed.

atheris looks for inputs that reach new code; Hypothesis draws whole tables, texts and documents; changes are many.

    python -m attack fuzz --minutes 20
    python -m attack.fuzz --engine atheris --readers table.csv --inputs 100000 --json counts.json

An input is read, or refused by an error of the package; anything else is a find: another error, a crash, an input that
takes seconds, a row that is neither read nor listed, a cell that is read as something else. Each reader runs in a
process of its own. atheris (`pip install atheris`) has wheels for Linux on some versions of Python only.
"""

import argparse
import base64
import contextlib
import importlib
import importlib.util
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

ENGINES = ("changes", "hypothesis", "atheris")
INSTRUMENTED = (
    "edgewise.learn.readers",
    "edgewise.learn.tables",
    "edgewise.learn.training",
    "edgewise.serve",
    "edgewise.learn.settings",
    "edgewise.learn.tasks.config",
    "tomllib",
)
"""What atheris watches; compiled readers below it (csv, json, pyarrow, zlib) are not."""
EVERY = 0.5
"""Seconds between two writings of the counts: what a crash leaves."""


GROUPS = {
    "tables": ("_readers", "table_targets"),
    "graphs": ("_readers", "graph_targets"),
    "molecules": ("_readers", "molecule_targets"),
    "texts": ("_readers", "text_targets"),
    "settings": ("_readers", "setting_targets"),
    "archives": ("_archives", "archive_targets"),
    "requests": ("_archives", "body_targets"),
    "arrays": ("_folders", "array_targets"),
    "models": ("_folders", "model_targets"),
    "folders": ("_folders", "folder_targets"),
    "checkpoints": ("_folders", "checkpoint_targets"),
}
"""The registry of readers: where the targets of each group are made."""


def names(groups: Sequence[str] = tuple(GROUPS)) -> list[str]:
    """All readers of some groups, as `group/name`."""
    with tempfile.TemporaryDirectory() as folder:
        return [f"{group}/{name}" for group in groups for name in targets_of(group, Path(folder) / group)]


def targets_of(group: str, folder: Path) -> dict[str, Any]:
    """The readers of a group by their names; their files are in a folder that is made."""
    module, function = GROUPS[group]
    folder.mkdir()
    return {each.name: each for each in getattr(importlib.import_module(f"attack.{module}"), function)(folder)}


def run(minutes: float, seed: int) -> dict[str, Any]:
    """All readers under all engines that are there, each for the same time."""
    engines = [engine for engine in ENGINES if engine != "atheris" or importlib.util.find_spec("atheris")]
    readers = names()
    seconds = minutes * 60 / len(readers) / len(engines)
    found = [fuzz(engine, name, 10**9, seconds, seed) for engine in engines for name in readers]
    foreign = sum(each["foreign"] + each["crashed"] for each in found)
    return {"inputs": sum(each["inputs"] for each in found), "foreign": foreign, "readers": found}


def fuzz(engine: str, name: str, inputs: int, seconds: float, seed: int) -> dict[str, Any]:
    """One reader under one engine, in a process of its own; the counts, and what ended the process.

    The process is a fork: torch and pandas are imported once.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as at, _watched(engine):
        folder = Path(at)
        importlib.import_module("attack._archives")
        sys.stdout.flush()
        if (process := os.fork()) == 0:
            os.chdir(folder)
            os.environ["EDGEWISE_CACHE"] = ""
            with open("log.txt", "wb") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            code = 1
            try:
                inside(engine, name, inputs, seconds, seed, folder)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        counts = folder / "counts.json"
        found = json.loads(counts.read_text()) if counts.exists() else {"inputs": 0, "foreign": 0, "finds": {}}
        if code != 0:
            left = next(iter([*folder.glob("crash-*"), *folder.glob("timeout-*")]), None)
            content = b"" if left is None else left.read_bytes()
            log_text = (folder / "log.txt").read_text(errors="replace")
            found["finds"][f"exit status {code}: {log_text[-2000:]}"] = _letters(content)
        return {"reader": name, "engine": engine, **found, "crashed": int(code != 0)}


def _letters(content: bytes) -> str:
    return base64.b85encode(content[:4096]).decode()


def inside(engine: str, name: str, inputs: int, seconds: float, seed: int, folder: Path) -> None:
    """The process of one reader: gives it inputs until there were enough, and writes the counts now and then."""
    group, _, own = name.partition("/")
    target = targets_of(group, folder / "files")[own]
    from attack._outcome import Outcomes

    target.read(target.content)  # as it is, it can be read
    found, written, end = Outcomes(), time.monotonic(), time.monotonic() + seconds

    def write() -> None:
        content = {**asdict(found), "finds": {what: _letters(given) for what, given in found.finds.items()}}
        part = folder / "counts.part"
        part.write_text(json.dumps(content))
        part.replace(folder / "counts.json")

    def one(content: bytes) -> None:
        nonlocal written
        found.add(target, content)
        if time.monotonic() - written > EVERY or found.inputs >= inputs:
            write()
            written = time.monotonic()

    write()
    if engine == "atheris":
        _atheris(target, one, inputs, seconds, seed, folder)  # ends the process
    draw = random.Random(seed)
    changed = (target.damaged(draw) for _ in iter(lambda: found.inputs < inputs and time.monotonic() < end, False))
    for content in changed if engine == "changes" else _drawn(target, inputs, end, seed):
        one(content)
    write()


def _watched(engine: str) -> contextlib.AbstractContextManager[Any]:
    if engine != "atheris":
        return contextlib.nullcontext()
    import atheris

    return atheris.instrument_imports(include=list(INSTRUMENTED))


def _drawn(target: Any, inputs: int, end: float, seed: int) -> Iterator[bytes]:
    """Inputs that Hypothesis draws: from the strategy of the reader, or its content with changes."""
    import hypothesis
    from hypothesis import strategies as st

    changed = st.randoms(use_true_random=False).map(target.damaged)
    strategy = changed if target.strategy is None else st.one_of(target.strategy, target.strategy, changed)
    some: list[bytes] = []

    how: dict[str, Any] = {"phases": [hypothesis.Phase.generate], "database": None, "deadline": None}
    how["suppress_health_check"] = list(hypothesis.HealthCheck)
    count, number = 0, 0
    while count < inputs and time.monotonic() < end:
        number += 1
        some.clear()
        given = hypothesis.given(strategy)(lambda content: some.append(content))
        once = hypothesis.settings(max_examples=min(500, inputs - count), **how)
        hypothesis.seed(seed * 1_000_003 + number)(once(given))()
        for content in some[: inputs - count]:
            if time.monotonic() > end:
                return
            yield content
            count += 1


def _atheris(target: Any, one: Any, inputs: int, seconds: float, seed: int, folder: Path) -> None:
    """Inputs that libFuzzer makes from those that reached new lines; half of its changes are those of fields."""
    import atheris

    corpus = folder / "corpus"
    corpus.mkdir()
    (corpus / "undamaged").write_bytes(target.content)

    def mutate(content: bytes, most: int, number: int) -> bytes:
        draw = random.Random(number)
        if draw.random() < 0.5:
            with contextlib.suppress(Exception):  # the content is damaged already
                return type(target)(**{**vars(target), "content": content}).damaged(draw)[:most]
        return atheris.Mutate(content, most)

    words = [sys.argv[0], f"-runs={inputs}", f"-max_total_time={max(1, int(seconds))}", f"-seed={seed + 1}"]
    words += ["-timeout=20", "-rss_limit_mb=4096", f"-max_len={max(4096, 2 * len(target.content))}"]
    words += ["-print_final_stats=0", "-verbosity=0", str(corpus)]
    atheris.Setup(words, one, custom_mutator=mutate)
    atheris.Fuzz()


def main() -> None:
    """Runs some readers under one engine, and writes what was counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="changes")
    parser.add_argument("--readers", nargs="+", help="group/name, or a group (default: all)")
    parser.add_argument("--inputs", type=int, default=1000, help="for each reader")
    parser.add_argument("--seconds", type=float, default=60, help="for each reader, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="a file of counts, to which these are added")
    given = parser.parse_args()
    named = given.readers or list(GROUPS)
    for name in [each for some in named for each in ([some] if "/" in some else names([some]))]:
        one = fuzz(given.engine, name, given.inputs, given.seconds, given.seed)
        print(json.dumps({key: value for key, value in one.items() if value}), flush=True)
        if given.json is not None:
            before = json.loads(given.json.read_text()) if given.json.exists() else []
            given.json.write_text(json.dumps([*before, {**one, "seed": given.seed}], indent=1) + "\n")


if __name__ == "__main__":
    main()
