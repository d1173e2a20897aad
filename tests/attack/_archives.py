"""Weights, checkpoints, the cache of molecules and the bodies of requests, as targets of an attack."""

import asyncio
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from safetensors.torch import save as to_safetensors

from attack._damage import Target, checkpoint_changed, json_changed, tensors_changed
from attack._readers import Files


def archive_targets(folder: Path) -> list[Target]:
    """Weights, a checkpoint, and the cache of molecules, which must never give what it was not given."""
    from edgewise.learn.readers.molecules.bounded import Featurized, featurize
    from edgewise.learn.readers.molecules.cache import CACHE_ERRORS, FeatureCache
    from edgewise.learn.readers.molecules.descriptor import DESCRIPTOR_NAMES
    from edgewise.learn.readers.molecules.limits import MoleculeLimits
    from edgewise.learn.training.checkpoint import load_checkpoint, read_history
    from edgewise.learn.training.weights import check_weights, read_tensors

    files = Files(folder)
    tensors = {"weight": torch.arange(6.0).view(2, 3), "count": torch.arange(4)}
    files.add(
        "weights.safetensors",
        to_safetensors(tensors, {"format": "pt"}),
        lambda path: check_weights(tensors, read_tensors(Path(path)), Path(path)),
        lambda *_: None,
        change=tensors_changed,
    )
    record = {"epoch": 0, "step": 3, "learning_rate": 1e-3, "train_loss": 1.0, "seconds": 0.5, "val_loss": None}
    content = {"state_dict": tensors, "history": [record], "best_epoch": 0, "step": 3}
    buffer = io.BytesIO()
    torch.save(content, buffer)
    files.add(
        "state.ckpt",
        buffer.getvalue(),
        lambda path: read_history(Path(path), load_checkpoint(Path(path))),
        lambda *_: None,
        change=checkpoint_changed,
    )
    smiles = ["CCO", "c1ccccc1", "CC(=O)O", "[Na+].[Cl-]"]
    known = dict(zip(smiles, featurize(smiles, MoleculeLimits(), DESCRIPTOR_NAMES), strict=True))
    path = folder / "known.sqlite"
    cache = FeatureCache(path)
    given = {text: each for text, each in known.items() if isinstance(each, Featurized)}
    cache.write({text: (each.canonical, each.arrays, each.descriptors) for text, each in given.items()})
    cache.connection.close()

    def read(name: str) -> dict[str, Any]:
        with contextlib.suppress(*CACHE_ERRORS):  # what is damaged is computed again
            cache = FeatureCache(Path(name))
            try:
                return cache.read(smiles)
            finally:
                cache.connection.close()
        return {}

    def check(found: dict[str, Any], _: bytes) -> None:
        for text, (canonical, arrays, descriptors) in found.items():
            usual = given[text]
            assert canonical == usual.canonical and np.array_equal(descriptors, usual.descriptors, True), text
            assert all(np.array_equal(value, getattr(usual.arrays, name)) for name, value in vars(arrays).items())

    files.add("molecules.sqlite", path.read_bytes(), read, check)
    return files.targets


def body_targets(_: Path) -> list[Target]:
    """Bodies of requests to the application of `edgewise serve`: each row has its own answer, or the request a reason.

    The model counts characters, so that every answer says which row it belongs to.
    """
    from edgewise.explain.explanation import TargetPrediction
    from edgewise.serve.application import create_app

    class Counting:
        """A model that predicts the length of a text, and the temperature beside it."""

        kind = "molecule"
        fields = ({"name": "smiles", "type": "smiles"}, {"name": "T", "type": "number"})
        facts = {"kind": "molecule", "rows": "molecules", "model": "count", "targets": ["length"], "classes": {}}  # noqa: RUF012

        @property
        def quick(self) -> "Counting":
            return self

        def predict(self, rows: list[dict[str, Any]]) -> list[Any]:
            return [(TargetPrediction("length", float(len(row["smiles"])), low=0.0, high=row["T"]),) for row in rows]

        def unread(self, row: dict[str, Any]) -> str:
            return ""

        def statuses(self, rows: list[dict[str, Any]]) -> list[str]:
            return ["ok" for _ in rows]

    loop, app = asyncio.new_event_loop(), create_app(Counting())  # type: ignore[arg-type]
    loop.run_until_complete(app.router.lifespan_context(app).__aenter__())

    async def ask(body: bytes) -> tuple[int, bytes]:
        sent: list[dict[str, Any]] = []
        parts = [{"type": "http.request", "body": body, "more_body": False}]
        headers = [(b"host", b"x"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]

        async def receive() -> dict[str, Any]:
            return parts.pop() if parts else await asyncio.Event().wait()  # type: ignore[return-value]

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
        where = {"path": "/predict", "raw_path": b"/predict", "query_string": b"", "root_path": "", "server": ("x", 80)}
        await app({**scope, **where, "headers": headers, "client": ("127.0.0.1", 1)}, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])

    def read(body: bytes) -> None:
        status, answer = loop.run_until_complete(ask(body))
        found = json.loads(answer)
        if status != 200:
            assert status in (400, 413, 422) and found["error"], f"{status}: {answer[:200]!r}"
            raise Refused
        rows = json.loads(body)["rows"]
        assert len(found["rows"]) == len(rows), f"{len(found['rows'])} answers for {len(rows)} rows"
        for row, one in zip(rows, found["rows"], strict=True):
            if one["error"] is not None:
                is_usable = isinstance(row, dict) and row.keys() == {"smiles", "T"} and isinstance(row["smiles"], str)
                is_usable = is_usable and bool(row["smiles"].strip()) and type(row["T"]) in (int, float)
                assert not is_usable or not -1e300 < row["T"] < 1e300, f"{row} is refused: {one['error']}"
                continue
            (told,) = one["predictions"]
            assert (told["value"], told["high"]) == (len(row["smiles"]), row["T"]), f"{row} is answered by {told}"

    row = st.fixed_dictionaries({"smiles": st.text(max_size=9), "T": st.integers() | st.floats()})
    odd = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["smiles", "T", "x"]), inner),
        max_leaves=5,
    )
    whole = st.fixed_dictionaries({"rows": st.lists(row | odd, max_size=5) | odd}) | odd
    content = b'{"rows": [{"smiles": "CCO", "T": 300}, {"smiles": "C\\u00e9", "T": -1.5e2}]}'
    strategy = whole.map(lambda found: json.dumps(found).encode())
    return [Target("body of a request", content, read, json_changed, strategy, refuses=(Refused,))]


class Refused(Exception):  # noqa: N818 -- an answer with its reason is no error
    """The server said no, and why."""
