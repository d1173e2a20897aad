"""How files are damaged: byte by byte, and field by field of JSON, arrays, tensors and checkpoints."""

import copy
import io
import json
import random
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors

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
    """Reads an input, and raises AssertionError where what was read is not what the input says."""
    change: Callable[[random.Random, bytes], bytes] | None = None
    strategy: Any = None
    """Of Hypothesis, for whole inputs; None for undamaged content that is changed."""
    refuses: tuple[type[Exception], ...] = ()
    """Errors besides our own that say no."""

    def damaged(self, draw: random.Random) -> bytes:
        """The content with some of its fields or bytes changed."""
        change = self.change if self.change is not None and draw.random() < 0.6 else bytes_changed
        return change(draw, self.content)


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
