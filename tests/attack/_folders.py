"""What a run leaves, and arrays in files, as targets of an attack: each undamaged content with its reader."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from attack._damage import Target, arrays_changed, checkpoint_changed, json_changed, tensors_changed
from edgewise.graph import Batch, Graph, Supervision
from edgewise.learn.tasks.registry import task_of
from edgewise.learn.training.folder import RunFolder
from edgewise.neighborhood import Edges


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
    from edgewise.learn.readers.graphs.file import read_graph_file
    from edgewise.learn.readers.motion.motion import read_motion

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
    from edgewise.learn.readers.texts.data import texts_from_arrays
    from edgewise.learn.tasks.links.model import predict as predict_links
    from edgewise.learn.tasks.tagging.task import tag

    text = cases.text_model()
    words = texts_from_arrays(np.array([" ".join(cases.WORDS)] * 2, dtype=object), task_type="classification")
    nodes, node_table = cases.node_model("gat", num_heads=2)
    link = cases.link_model("gat")
    graph, graph_table, _ = cases.graph_model()
    return {
        "text": (text, lambda model: model.predict(words)),
        "node": (nodes, lambda model: model.predict(node_table)),
        "graph": (graph, lambda model: model.predict(graph_table)),
        "link": (link, lambda model: predict_links(model, np.array([0]), np.array([1]))),
        "language": (cases.language_model(), lambda model: model.encoder.tokenizer.encode("a song")),
        "tagging": (cases.tagger(), lambda model: tag(model, [cases.WORDS])),
    }


def model_targets(folder: Path) -> list[Target]:
    """model.json, model.safetensors and tokenizer.json of every kind of model."""
    changes = {"model.json": json_changed, "model.safetensors": tensors_changed, "tokenizer.json": json_changed}
    found = []
    for kind, (trained, predict) in models().items():
        run = RunFolder(folder / kind)
        run.begin()
        trained.save(run)
        predict(trained)  # kernels are compiled here, and not within the time of an input
        load = task_of(run).load
        for name, change in changes.items():
            path = run.path / name
            if path.is_file():
                found.append(Target(f"{kind}/{name}", path.read_bytes(), _reads(run, path, load, predict), change))
    return found


def _reads(
    run: RunFolder, path: Path, load: Callable[[RunFolder], Any], predict: Callable[[Any], Any]
) -> Callable[[bytes], Any]:
    good = path.read_bytes()

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        try:
            return predict(load(RunFolder.finished(run.path)))
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
        from edgewise.learn.tasks.molecules.settings import SETTINGS

        config.write_bytes(content)
        return SETTINGS.of({"smiles-columns": ["a"], "target-columns": ["b"], **run.read_config()}, str(config))

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
        return self.body(batch.supervision.row_features)


def line_batch(rows: np.ndarray) -> Batch:
    """Rows of a table that a line fits."""
    values = torch.linspace(-1, 1, 16).reshape(8, 2)[torch.from_numpy(rows)]
    nowhere = torch.zeros(0, dtype=torch.int64)
    graph = Graph(torch.zeros(1, 1), Edges(nowhere, nowhere, 1, 1))
    return Batch(graph, Supervision(row_features=values, targets=values[:, :1], weights=torch.ones(len(rows))))


def checkpoint_targets(folder: Path) -> list[Target]:
    """The checkpoints of a training that goes on from them."""
    from edgewise.learn.training.fit import fit
    from edgewise.learn.training.loader import RowLoader
    from edgewise.learn.training.loss import TargetLoss
    from edgewise.learn.training.settings import TrainSettings

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
