"""Files under attack: damaged at random, byte by byte and field by field; nothing but our own errors may come out.

And a training that is killed at random moments: its folder always opens or resumes, and the end is the same, bit for
bit, as without a kill.
"""

import copy
import io
import itertools
import json
import math
import random
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import nn

from edgewise.errors import EdgewiseError
from edgewise.neighborhood import Edges
from edgewise.records import Batch
from edgewise.train.claim import LOCK
from edgewise.train.folder import RunFolder

ODD: list[Any] = [
    None, True, False, -1, 0, 1, 2, 7, 10**9, 2**62, 10**400, -0.5, 1e308, float("nan"), float("inf"), "", "x", "inf",
    "é\u0000", [], {}, [[]], [None], {"a": 1}, ["a", "a"], "null", [0] * 9, "9" * 30,
]  # fmt: skip


@dataclass
class Target:
    """A file that is read: its undamaged content, what reads it, and how its fields are changed."""

    name: str
    content: bytes
    read: Callable[[bytes], Any]
    change: Callable[[random.Random, bytes], bytes] | None = None


def bytes_changed(draw: random.Random, content: bytes) -> bytes:
    """A few random changes: bits, bytes, pieces cut out, doubled, put elsewhere, or the end cut off."""
    found = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        if not found:
            break
        place = draw.randrange(len(found))
        length = draw.choice((1, 2, 4, 8, 64, 512))
        action = draw.randrange(6)
        if action == 0:
            found[place] ^= 1 << draw.randrange(8)
        elif action == 1:
            found[place : place + length] = draw.randbytes(length)
        elif action == 2:
            del found[place : place + length]
        elif action == 3:
            found[place:place] = found[place : place + length]
        elif action == 4:
            found[place : place + length] = draw.choice((b"\0", b"\xff", b"9", b"[")) * length
        elif draw.random() < 0.3:
            del found[place:]
    return bytes(found)


def places_in(content: Any) -> list[tuple[Any, Any]]:
    """Every place of a JSON document as (what holds it, key or index)."""
    found, waiting = [], [content]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            found.append((node, key))
            waiting.append(node[key])
    return found


def document_changed(draw: random.Random, content: Any) -> Any:
    """A JSON document with some values replaced, removed, exchanged, or put very deep."""
    content = copy.deepcopy(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        places = places_in(content)
        if not places:
            return draw.choice(ODD)
        node, key = draw.choice(places)
        action = draw.randrange(8)
        if action < 5:
            node[key] = copy.deepcopy(draw.choice(ODD))
        elif action == 5:
            del node[key]
        elif action == 6:
            other, place = draw.choice(places)
            node[key] = copy.deepcopy(other[place])
        else:
            deep: Any = []
            for _ in range(draw.choice((5, 200))):
                deep = [deep]
            node[key] = deep
    return content


def json_changed(draw: random.Random, content: bytes) -> bytes:
    """The same for a file of JSON; one in twenty is too deep for any reader."""
    if draw.random() < 0.05:
        return b'{"format":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    return json.dumps(document_changed(draw, json.loads(content))).encode()


def array_changed(draw: random.Random, array: np.ndarray) -> np.ndarray:
    """An array of another type, shape, or with odd numbers in it."""
    action = draw.randrange(8)
    if action == 0:
        kind = draw.choice(["int8", "uint64", "float16", "float64", "complex64", "bool", "U5", "S3", "M8[s]", "V8"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return array.astype(kind)
            except (ValueError, TypeError):
                return np.zeros(array.shape, kind)
    if action == 1:
        return array.reshape(draw.choice([(-1,), (1, -1), (-1, 1), (1, 1, -1)]))
    if action == 2:
        return array[: draw.randrange(len(array) + 1)] if array.ndim else array
    if action == 3:
        return np.zeros(draw.choice([(), (0,), (0, 3), (3, 0), (2, 2, 2), (1,)]), array.dtype)
    if action == 4:
        return array.T
    found = array.copy().reshape(-1)
    if found.size and np.issubdtype(found.dtype, np.number):
        odd = draw.choice([-1, 10**6, 2**31, 2**62, 127, -(2**62), np.nan, np.inf])
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found[draw.randrange(found.size)] = np.array(odd).astype(found.dtype)
    return found.reshape(array.shape)


def arrays_changed(draw: random.Random, content: bytes) -> bytes:
    """An .npz file with arrays changed, left out, doubled, or with a header that lies."""
    with np.load(io.BytesIO(content)) as read:
        arrays = {name: read[name] for name in read.files}
    for _ in range(draw.choice((1, 1, 2, 3))):
        name = draw.choice(sorted(arrays))
        action = draw.randrange(6)
        if action == 0 and len(arrays) > 1:
            del arrays[name]
        elif action == 1:
            arrays[draw.choice(sorted(arrays))] = arrays[name]
        else:
            arrays[name] = array_changed(draw, arrays[name])
    buffer = io.BytesIO()
    (np.savez_compressed if draw.random() < 0.2 else np.savez)(buffer, **arrays)
    content = buffer.getvalue()
    if draw.random() < 0.2:  # of files that are not packed, the header stands there to be read
        content = content.replace(b"'shape': (", draw.choice([b"'shape': (9", b"'shape': (-", b"'shape': [("]), 1)
    return content


def tensors_changed(draw: random.Random, content: bytes) -> bytes:
    """A safetensors file with tensors changed, left out, or under other names."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        tensors = load_file(file.name)
        with safe_open(file.name, "pt") as opened:
            metadata = opened.metadata()
    name = draw.choice(sorted(tensors))
    tensor = tensors.pop(name)
    action = draw.randrange(7)
    if action == 1:
        tensors[draw.choice(["x", "member_7.x", name + "x"])] = tensor
    elif action == 2:
        tensors[name] = tensor.reshape(-1)[: draw.randrange(tensor.numel() + 1)].clone()
    elif action == 3:
        tensors[name] = tensor.to(draw.choice([torch.float16, torch.int64, torch.uint8, torch.bool])).contiguous()
    elif action == 4:
        tensors[name] = torch.full_like(tensor, draw.choice([0, 1, 100]))
    elif action == 5 and tensor.is_floating_point():
        tensors[name] = torch.full_like(tensor, draw.choice([float("nan"), float("inf"), 1e30]))
    elif action == 6:
        tensors[name] = tensor[None].contiguous()
    return to_safetensors(tensors, metadata)


def checkpoint_changed(draw: random.Random, content: bytes) -> bytes:
    """A checkpoint with a value or a tensor changed."""
    found = torch.load(io.BytesIO(content), weights_only=True)
    places = places_in(found)
    node, key = draw.choice(places)
    value = node[key]
    if isinstance(value, torch.Tensor) and draw.random() < 0.7:
        changes = [
            value.reshape(-1),
            value[None],
            value.double(),
            value * float("nan"),
            value[:0] if value.ndim else value,
        ]
        node[key] = draw.choice(changes)
    elif draw.random() < 0.2:
        del node[key]
    else:
        node[key] = copy.deepcopy(draw.choice(ODD))
    buffer = io.BytesIO()
    torch.save(found, buffer)
    return buffer.getvalue()


def graph_arrays(draw: np.random.Generator, *, sparse: bool) -> dict[str, np.ndarray]:
    """A small graph with all that a file may say of one."""
    num_nodes, num_edges = 12, 30
    mask = np.arange(num_nodes) % 3
    arrays = {
        "edge_index": draw.integers(0, num_nodes, (2, num_edges)),
        "y": draw.integers(-1, 3, num_nodes),
        "has_label": np.ones(num_nodes, dtype=bool),
        "class_names": np.array(["a", "b", "c"]),
        "edge_attr": draw.normal(size=(num_edges, 2)),
        "edge_type": np.array(["x", "y"])[np.arange(num_edges) % 2],
        **{f"{part}_mask": mask == place for place, part in enumerate(("train", "val", "test"))},
    }
    if not sparse:
        return {**arrays, "x": draw.normal(size=(num_nodes, 4)), "node_type": np.arange(num_nodes) % 2}
    starts = np.arange(num_nodes + 1)
    return {
        **arrays,
        "x_indices": draw.integers(0, 5, num_nodes),
        "x_indptr": starts,
        "x_shape": np.array([num_nodes, 5]),
        "x_data": np.ones(num_nodes),
    }


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    """An .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def array_targets(folder: Path) -> list[Target]:
    """Graphs and moving bodies in .npz files."""
    from edgewise.data.graphs.file import read_graph_file
    from edgewise.data.motion.motion import read_motion

    path, draw = folder / "data.npz", np.random.default_rng(0)

    def reads(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
        def write_and_read(content: bytes) -> Any:
            path.write_bytes(content)
            return read(str(path))

        return write_and_read

    def both_ways(name: str) -> None:
        found = read_graph_file(name, with_types=True)
        found.edges.both_ways(found.features.shape[0])
        found.features.to_dense()

    bodies = {name: draw.normal(size=(2, 4, 3, 2)) for name in ("positions", "velocities", "accelerations")}
    bodies |= {"times": np.arange(4.0), "time_step": np.array(0.1), "names": np.array(["a", "b", "c"])}
    bodies |= {"masses": np.ones((2, 3)), "charges": np.ones((2, 3)), "couplings": np.ones((2, 3, 3))}
    bodies |= {"units": np.array('{"position": "m"}'), "law": np.array('{"kind": "gravity"}')}
    return [
        Target("graph.npz", packed(graph_arrays(draw, sparse=False)), reads(read_graph_file), arrays_changed),
        Target("kinds.npz", packed(graph_arrays(draw, sparse=False)), reads(both_ways), arrays_changed),
        Target("sparse.npz", packed(graph_arrays(draw, sparse=True)), reads(read_graph_file), arrays_changed),
        Target("motion.npz", packed(bodies), reads(read_motion), arrays_changed),
    ]


def models() -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """A small model of every kind that needs no training, and a prediction with it."""
    import explain_cases as cases
    from edgewise.data.texts.table import texts_from_arrays

    text = cases.text_model()
    words = texts_from_arrays(np.array([" ".join(cases.WORDS)] * 2, dtype=object), task_type="classification")
    nodes, node_table = cases.node_model("gat", num_heads=2)
    link = cases.link_model("gat")
    graph, graph_table, _ = cases.graph_model()
    return {
        "text": (text, lambda model: model.predict(words)),
        "node": (nodes, lambda model: model.predict(node_table)),
        "graph": (graph, lambda model: model.predict(graph_table)),
        "link": (link, lambda model: model.predict(np.array([0]), np.array([1]))),
        "language": (cases.language_model(), lambda model: model.tokenizer.encode("a song")),
        "tagging": (cases.tagger(), lambda model: model.tag([cases.WORDS])),
    }


def model_targets(folder: Path) -> list[Target]:
    """model.json, model.safetensors and tokenizer.json of every kind of model."""
    changes = {"model.json": json_changed, "model.safetensors": tensors_changed, "tokenizer.json": json_changed}
    found = []
    for kind, (trained, predict) in models().items():
        run = RunFolder(folder / kind)
        run.begin()
        trained.save(run)
        for name, change in changes.items():
            path = run.path / name
            if path.is_file():
                found.append(
                    Target(f"{kind}/{name}", path.read_bytes(), _reads(run, path, type(trained), predict), change)
                )
    return found


def _reads(run: RunFolder, path: Path, kind: Any, predict: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    good = path.read_bytes()

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        try:
            return predict(kind.load(RunFolder.finished(run.path)))
        finally:
            path.write_bytes(good)

    return read


def folder_targets(folder: Path) -> list[Target]:
    """config.toml and the marker of a folder."""
    run = RunFolder(folder / "marked")
    run.begin()
    run.write_config({"epochs": 3, "data": ["a.csv"], "learning-rate": 1e-3})
    config, marker = run.path / "config.toml", run.path / ".edgewise-run.json"

    def read_config(content: bytes) -> Any:
        from edgewise.tasks.molecules.settings import PropertyRunSettings

        config.write_bytes(content)
        return PropertyRunSettings.of(
            {"smiles-columns": ["a"], "target-columns": ["b"], **run.read_config()}, str(config)
        )

    def read_marker(content: bytes) -> Any:
        marker.write_bytes(content)
        return run.check(overwrite=True)

    return [
        Target("config.toml", config.read_bytes(), read_config),
        Target("marker", marker.read_bytes(), read_marker, json_changed),
    ]


class Line(nn.Module):
    """A model of one layer over the conditions of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(2, 1)

    def forward(self, batch: Batch) -> torch.Tensor:
        """The predictions."""
        return self.body(batch.conditions)


def line_batch(rows: np.ndarray) -> Batch:
    """Rows of a table that a line fits."""
    values = torch.linspace(-1, 1, 16).reshape(8, 2)[torch.from_numpy(rows)]
    nowhere, count = torch.zeros(0, dtype=torch.int64), len(rows)
    return Batch(
        node_features=torch.zeros(1, 1), edges=Edges(nowhere, nowhere, 1, 1), edge_features=torch.zeros(0, 1),
        global_features=torch.zeros(1, 0), offsets=torch.tensor([0, 1]), conditions=values,
        graph_of_row=torch.zeros(count, 1, dtype=torch.int64), targets=values[:, :1], weights=torch.ones(count),
    )  # fmt: skip


def checkpoint_targets(folder: Path) -> list[Target]:
    """The checkpoints of a training that goes on from them."""
    from edgewise.train.fit import fit
    from edgewise.train.loader import RowLoader
    from edgewise.train.loss import TargetLoss
    from edgewise.train.settings import TrainSettings

    path = folder / "member_0"
    path.mkdir()
    loaders = RowLoader(np.arange(6), line_batch, 3, 0), RowLoader(np.arange(6, 8), line_batch, 3)

    def train(epochs: int) -> None:
        settings = TrainSettings(epochs=epochs, batch_size=3, device="cpu", checkpoint="best", logger="csv")
        torch.manual_seed(0)
        fit(Line(), *loaders, TargetLoss("regression", "mse"), settings, folder=path, resume=True)

    train(2)
    kept = {name: (path / name).read_bytes() for name in ("last.ckpt", "best.ckpt", "finished.ckpt")}

    def reads(name: str) -> Callable[[bytes], None]:
        def resume(content: bytes) -> None:
            for each, good in kept.items():
                (path / each).write_bytes(content if each == name else good)
            if name != "finished.ckpt":
                (path / "finished.ckpt").unlink()
            train(2 if name == "finished.ckpt" else 3)

        return resume

    return [Target(name, content, reads(name), checkpoint_changed) for name, content in kept.items()]


def attack(targets: list[Target], seconds: float, draw: random.Random, most: int | None = None) -> dict[str, Any]:
    """Damages the files in turn until the time is over; counts of what came out, and the first foreign errors."""
    counts: Counter[str] = Counter()
    by_file: dict[str, Counter[str]] = {target.name: Counter() for target in targets}
    examples: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and (most is None or counts["inputs"] < most):
        for target in targets:
            damage = target.change if target.change is not None and draw.random() < 0.6 else bytes_changed
            content = damage(draw, target.content)
            outcome = _outcome(target, content, examples)
            counts.update(["inputs", outcome])
            by_file[target.name][outcome] += 1
    return {
        **{name: counts[name] for name in ("inputs", "read", "ours", "foreign")},
        "by_file": {name: dict(found) for name, found in by_file.items()},
        "examples": examples,
    }


def _outcome(target: Target, content: bytes, examples: list[str]) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(content)
    except EdgewiseError:
        return "ours"
    except Exception as error:  # whatever it is, it is what is looked for
        if len(examples) < 20:
            last = traceback.extract_tb(error.__traceback__)[-1]
            own = [each for each in traceback.extract_tb(error.__traceback__) if "edgewise" in each.filename]
            where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else f"{last.filename}:{last.lineno}"
            examples.append(f"{target.name}: {type(error).__name__} at {where}: {str(error)[:120]}")
        return "foreign"
    return "read"


def run(minutes: float, seed: int) -> dict[str, Any]:
    """Nine tenths of the time for damaged files, the rest, and at least five kills, for killed trainings."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = [*array_targets(folder), *model_targets(folder), *folder_targets(folder)]
        targets += checkpoint_targets(folder)
        found = attack(targets, minutes * 60 * 0.6, draw)
        return {**found, **kills(folder / "killed", minutes * 60 * 0.4, draw)}


SMALL = (
    "--smiles-columns", "smiles", "--target-columns", "y", "--model-dim", "8", "--num-heads", "2", "--num-layers", "1",
    "--epochs", "12", "--device", "cpu", "--logger", "csv", "--no-molecule-descriptors", "--no-baselines",
)  # fmt: skip
MAX_RUNS = 20
"""Trainings after which one must have been killed."""
KEPT = ("model.safetensors", "model.json", "splits.json", "test_predictions.csv")


def kills(folder: Path, seconds: float, draw: random.Random) -> dict[str, Any]:
    """Kills a training at random moments and resumes it, again and again; the last end is that of a run left alone.

    A broken promise: a folder that neither opens nor resumes, a file of a killed process that stays, other bits.
    """
    folder.mkdir()
    data = folder / "data.csv"
    chains = ["C" * length + end for length in range(1, 9) for end in ("", "O", "N", "F", "Cl", "C(=O)O")]
    data.write_text("smiles,y\n" + "".join(f"{text},{len(text) / 7}\n" for text in chains))
    command = [sys.executable, "-m", "edgewise.cli.main", "train", str(data), *SMALL, "--resume", "-o"]
    span, counts, broken = math.inf, Counter[str](), []
    end = time.monotonic() + seconds
    for number in itertools.count():
        run = folder / f"run_{number}"
        # The first is left alone.
        for is_last in [False] * draw.randint(1, 4) * (number > 0) + [True]:
            with subprocess.Popen([*command, str(run)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                began = _lock_time(process, run)
                try:
                    _, err = process.communicate(timeout=None if is_last else draw.uniform(0, span))
                except subprocess.TimeoutExpired:
                    process.kill()
                    counts["kills"] += 1
                    continue
            span = min(span, time.monotonic() - began) if number == 0 else span
            if process.returncode != 0:
                broken.append(f"{run.name}: {err.decode()[-300:]}")
            break  # it ended before it was killed
        counts["runs_ended"] += 1
        broken += [f"{run.name}: {name} differs" for name in KEPT if _differ(run / name, folder / "run_0" / name)]
        broken += [f"{run.name}: {path.name} is left" for path in run.rglob("*.part")]
        if time.monotonic() > end and not counts["kills"] and number >= MAX_RUNS:
            broken.append(f"none of {number} trainings was killed before it ended")
        if time.monotonic() > end and (counts["kills"] or broken):
            return {**{name: counts[name] for name in ("kills", "runs_ended")}, "broken": broken}
    raise AssertionError("the loop ends by its time")


def _lock_time(process: subprocess.Popen, run: Path) -> float:
    """Waits until a process works in its folder, which its lock says; when that was."""
    while process.poll() is None:
        try:
            if json.loads((run / LOCK).read_text())["process"] == process.pid:
                break
        except (OSError, ValueError):
            time.sleep(0.005)
    return time.monotonic()


def _differ(one: Path, other: Path) -> bool:
    return not one.is_file() or one.read_bytes() != other.read_bytes()
