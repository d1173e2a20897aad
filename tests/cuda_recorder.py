"""CUDA graphs without a GPU: a recorder that replays the operations of torch.

The recorder behaves as a CUDA graph does: while it records nothing changes, and a replay reads and writes the memory
that was recorded.
"""

import importlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MODULE = importlib.import_module("edgewise.backends.capture")
HAS_GPU = torch.cuda.is_available()
WHERE = "cuda" if HAS_GPU else "cpu"


class Recorder(TorchDispatchMode):
    """Operations and their results; tensors that were there before get back what they held."""

    def __init__(self):
        super().__init__()
        self.operations, self.before, self.made = [], {}, set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if operation is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")
        kwargs = kwargs or {}
        written = [
            arg for arg, given in zip(operation._schema.arguments, args) if arg.alias_info and arg.alias_info.is_write
        ]
        for place, argument in enumerate(operation._schema.arguments):
            if argument in written:
                for tensor in tensors_of(args[place]):
                    address = tensor.untyped_storage().data_ptr()
                    if address not in self.made and address not in self.before:
                        self.before[address] = tensor, tensor.clone()
        results = operation(*args, **kwargs)
        inputs = {tensor.untyped_storage().data_ptr() for tensor in tensors_of([*args, *kwargs.values()])}
        self.made |= {tensor.untyped_storage().data_ptr() for tensor in tensors_of(results)} - inputs
        self.operations.append((operation, args, kwargs, results))
        return results

    def __exit__(self, *error):
        super().__exit__(*error)
        with torch.no_grad():
            for tensor, content in self.before.values():
                tensor.copy_(content)

    def replay(self):
        with torch.no_grad():
            for operation, args, kwargs, results in self.operations:
                for place, found in zip(tensors_of(results), tensors_of(operation(*args, **kwargs)), strict=True):
                    if place.data_ptr() != found.data_ptr():
                        place.copy_(found)


def tensors_of(given):
    if isinstance(given, torch.Tensor):
        return [given]
    return [tensor for part in given for tensor in tensors_of(part)] if isinstance(given, list | tuple) else []


def count_recordings(monkeypatch):
    """A list that grows with every recording, which are those of CUDA on a GPU, and else of a recorder."""
    counts = []
    if HAS_GPU:
        real = MODULE._recorded
        monkeypatch.setattr(MODULE, "_recorded", lambda call: counts.append(1) or real(call))
        return counts

    class Graph:
        def __init__(self):
            self.recorder = None

        def replay(self):
            self.recorder.replay()

    class Recording:
        def __init__(self, graph):
            self.graph = graph

        def __enter__(self):
            counts.append(1)
            self.graph.recorder = Recorder()
            self.graph.recorder.__enter__()

        def __exit__(self, *error):
            self.graph.recorder.__exit__(*error)

    monkeypatch.setattr(MODULE, "DEVICE", "cpu")
    monkeypatch.setattr(MODULE, "_on_a_stream", lambda call: call())
    for name, stand_in in (("is_available", lambda: True), ("CUDAGraph", Graph), ("graph", Recording)):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return counts
