"""Run folders under attack: files cut, emptied, removed, bytes flipped, single settings and fields changed.

Every verb that opens the folder then does what it did before, or ends with an error of ours that names the file; never
with a traceback, with another result, or not at all. The folders are those of `tests/frozen`, saved again, so that they
have all that a run of today has.
"""

import contextlib
import copy
import io
import json
import random
import shlex
import shutil
import signal
import tempfile
import time
import tomllib
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from attack._damage import ODD, places_in
from edgewise.cli.main import main
from edgewise.learn.tasks.registry import task_of
from edgewise.learn.training.folder import FILE_SETTINGS, RunFolder
from frozen.openings import OPENINGS, in_folder

VERSION = Path(__file__).parents[1] / "frozen/0.2.0"
SECONDS = 60
"""After which a command hangs: each takes less than one."""
ROWS = "test_predictions"
"""The table of test rows: what is explained where no input is named, whatever stands there."""


@dataclass(frozen=True)
class AttackedRun:
    """A run, and what its commands come to."""

    name: str
    path: Path
    """The folder of the run; inputs lie beside it."""
    results: dict[str, bytes]
    """What each command writes or prints."""

    @classmethod
    def of(cls, name: str, folder: Path) -> "AttackedRun":
        """A copy of a frozen run, saved again."""
        place = Path(shutil.copytree(VERSION / name, folder / name))
        run = RunFolder(place / "run")
        task_of(run).load(run).save(run)
        (place / "out").mkdir()
        results = {}
        for words in commands_of(name, run.path):
            code, result, errors = outcome(place, words)
            assert code == 0, f"{name}: edgewise {words}: {errors}"
            results[words] = result
        return cls(name, run.path, results)

    @property
    def files(self) -> list[Path]:
        """What may be damaged."""
        return sorted(path for path in self.path.iterdir() if path.is_file() and not path.name.startswith("."))


def commands_of(name: str, run: Path) -> list[str]:
    """What opens a run, and writes one file into `out`, or prints."""
    opening = OPENINGS[name]
    words = opening.commands("out") + [f"generate run {each}" for each in opening.generate[:1]]
    if opening.explain is not None and (run / f"{ROWS}.csv").is_file():
        words.append("explain run --rows 0 -o out/rows.json")
    return [f"{each} --overwrite" if " -o " in each else each for each in words]


def outcome(folder: Path, words: str) -> tuple[int, bytes, str]:
    """The exit code of a command, what it wrote or printed, and its last error."""
    printed, errors = io.StringIO(), io.StringIO()
    with (
        in_folder(folder),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
        warnings.catch_warnings(),
        at_most(SECONDS),
    ):
        warnings.simplefilter("ignore")
        code = main(shlex.split(words))
    written = sorted((folder / "out").iterdir())
    result = b"".join(path.read_bytes() for path in written) if written else printed.getvalue().encode()
    for path in written:
        path.unlink()
    return code, result, errors.getvalue().strip().split("\n")[-1]


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raises TimeoutError where the block takes longer."""

    def expired(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def removed(draw: random.Random, content: bytes) -> None:
    """The file is gone."""


def cut(draw: random.Random, content: bytes) -> bytes:
    """The file ends early: anywhere, or behind a line."""
    ends = [number + 1 for number, byte in enumerate(content[:-1]) if byte == ord("\n")]
    return content[: draw.choice(ends) if ends and draw.random() < 0.5 else draw.randrange(len(content))]


def emptied(draw: random.Random, content: bytes) -> bytes:
    """A full disk leaves nothing, or zeros."""
    return draw.choice((b"", bytes(len(content))))


def flipped(draw: random.Random, content: bytes) -> bytes:
    """One bit is another, or one byte."""
    found, place = bytearray(content), draw.randrange(len(content))
    found[place] = found[place] ^ 1 << draw.randrange(8) if draw.random() < 0.5 else draw.randrange(256)
    return bytes(found)


def field_changed(draw: random.Random, content: bytes) -> bytes:
    """One field of a JSON or a TOML document has a value near the one that it had, an odd one, or none."""
    is_json = content.lstrip()[:1] in (b"{", b"[")
    document = json.loads(content) if is_json else tomllib.loads(content.decode())
    node, key = draw.choice(places_in(document))
    action = draw.randrange(4)
    if action == 0:
        del node[key]
    elif action == 1:
        node[key] = copy.deepcopy(draw.choice(ODD if is_json else [value for value in ODD if toml_holds(value)]))
    else:
        node[key] = near(draw, node[key])
    return json.dumps(document, indent=1).encode() if is_json else tomli_w.dumps(document).encode()


def toml_holds(value: Any) -> bool:
    """Whether TOML has such a value; it has no null."""
    return value is not None and value != [None] and not (isinstance(value, int) and abs(value) > 2**63)


def near(draw: random.Random, value: Any) -> Any:
    """A value of the same type that a slip of the hand may leave."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return draw.choice((value + 1, value - 1, -value, value * 1.0001 if isinstance(value, float) else value * 10))
    if isinstance(value, str):
        return draw.choice((value + "x", value[:-1], value.upper(), value[::-1]))
    if isinstance(value, list):
        return draw.choice((value[:-1], value[::-1], value + value[:1]))
    return {**dict(list(value.items())[:-1])} if isinstance(value, dict) else value


DAMAGES: tuple[Callable[[random.Random, bytes], bytes | None], ...] = (removed, cut, emptied, flipped, field_changed)


def verdict(run: AttackedRun, path: Path, damage: str, words: str) -> tuple[str, str]:
    """What a command did with a damaged run: a word for the counts, and what is wrong with it."""
    try:
        code, result, error = outcome(run.path.parent, words)
    except (Exception, SystemExit):  # whatever it is, it is what is looked for
        return "foreign", traceback.format_exc(limit=-4)
    if code == 0:
        is_same = result == run.results[words] or (path.stem == ROWS and "--rows" in words)
        return ("held", "") if is_same else ("silent", "the result is another one")
    if not error.startswith("edgewise: error: "):
        return "foreign", error
    # Of a file that is gone the folder is named, and of one that moved the file that is looked for.
    is_named = path.name in error or (damage == "removed" and "run" in error)
    is_named |= path.name == "config.toml" and any(name in error for name in ("bring ", *FILE_SETTINGS))
    return ("refused", "") if is_named else ("unnamed", error)


def attack(runs: Sequence[AttackedRun], seconds: float, draw: random.Random, most: int = 10**9) -> dict[str, Any]:
    """Damages runs in turn, one file each, and opens them with one of their commands.

    Args:
        runs: The runs.
        seconds: For all inputs.
        draw: Draws file, damage and command.
        most: Inputs, at most.

    Returns:
        How many damaged folders `held` (the result was the same), were `refused` by an error that names the file, and
        what is wrong: `unnamed` errors, `silent` changes of the result, `foreign` errors and hangs.
    """
    counts: dict[str, Counter[str]] = {damage.__name__: Counter() for damage in DAMAGES}
    finds: dict[str, str] = {}
    end, num_inputs = time.monotonic() + seconds, 0
    while num_inputs < most and time.monotonic() < end:
        run = runs[num_inputs % len(runs)]
        path, damage = draw.choice(run.files), draw.choice(DAMAGES)
        if damage is field_changed and path.suffix not in (".json", ".toml"):
            continue
        words, content = draw.choice(list(run.results)), path.read_bytes()
        damaged = damage(draw, content)
        if damaged is None:
            path.unlink()
        else:
            path.write_bytes(damaged)
        began = time.monotonic()
        word, reason = verdict(run, path, damage.__name__, words)
        path.write_bytes(content)
        num_inputs += 1
        counts[damage.__name__][word] += 1
        if reason:
            seconds = time.monotonic() - began
            place = f"{word}, {path.name} {damage.__name__}, {run.name}: edgewise {words} ({seconds:.1f} s)"
            finds.setdefault(f"{place}: {reason}"[:1500], changes(content, damaged))
    totals = sum(counts.values(), Counter())
    return {
        "inputs": num_inputs,
        **{word: totals[word] for word in ("held", "refused", "unnamed", "silent")},
        "foreign": totals["foreign"] + totals["silent"] + totals["unnamed"],
        "damages": {name: dict(count) for name, count in counts.items()},
        "finds": [f"{find}\n{change}" for find, change in finds.items()][:40],
    }


def changes(before: bytes, after: bytes | None) -> str:
    """The first lines in which two contents differ, as texts."""
    if after is None:
        return ""
    pairs = zip(before.split(b"\n"), after.split(b"\n"), strict=False)
    differing = [f"{one[:80]!r} → {other[:80]!r}" for one, other in pairs if one != other]
    return "; ".join(differing[:3]) or f"{len(before)} → {len(after)} bytes"


def run(minutes: float, seed: int) -> dict[str, Any]:
    """Every frozen kind."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [AttackedRun.of(name, Path(folder)) for name in OPENINGS]
        return attack(runs, minutes * 60, random.Random(seed))
