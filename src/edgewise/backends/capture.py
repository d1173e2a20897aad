"""`capture`: a function as one CUDA graph, whose kernels are started at once, without Python between them."""

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from edgewise.errors import SettingError, UnsupportedError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Path = tuple[Any, ...]
"""Where a part of the arguments stands: 0 and its number, or 1 and its name; then its keys in tuples, lists, dicts."""

MAX_FORMS = 64
"""Forms of arguments, each of which has a graph and its memory."""
DEVICE = "cuda"
"""Where the tensors of a graph lie."""
CONTAINERS = (tuple, list, dict)
"""What is looked into."""
PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
"""Types of arguments that are alike where they are equal; all others must be the same object."""


def capture(step: Callable[Parameters, Result], *, warmup: int = 3) -> Callable[Parameters, Result]:
    """A step of a training, or any function of tensors on a GPU, as one CUDA graph.

        @capture
        def step(tokens, next_tokens):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(tokens).flatten(0, 1), next_tokens.flatten())
            loss.backward()
            optimizer.step()
            return loss.detach()

    The first `warmup` calls run as they are. The next one is recorded, and it and all later ones are replayed: each
    call is one step. Calls with another form of arguments are recorded apart. The form is the shapes, strides and
    dtypes of the tensors, all other arguments (numbers and texts by value, other objects by identity), and whether
    torch computes gradients and casts.

    What runs in Python is not repeated: a number that it computes stays what it was. So a learning rate that changes
    must be a tensor, the optimizer takes `capturable=True`, and nothing may read a number back from the GPU
    (`.item()`, shapes that follow from values). Numbers that are drawn at random, as by dropout, are new in each call.

    Args:
        step: what is called. Its tensors may be arguments, also in tuples, lists and dicts, or be held by it, as the
            weights of a model are.
        warmup: calls of each form that run as they are, at least 1: kernels are compiled and the state of the
            optimizer is made.

    Returns:
        The same function. Its results lie in the same memory after each call of a form: clone what is to stay. Without
        CUDA it is the step itself.

    Raises:
        SettingError: `warmup` is below 1.
        UnsupportedError: a tensor among the arguments is not on a GPU, or requires a gradient; the step waits for the
            GPU, writes into an argument, does something else that a CUDA graph cannot hold, or starts nothing on the
            GPU; more than 64 forms.

    Cost: memory for the tensors of one step of each form, which is kept; a copy of each tensor among the arguments.
    Source: `torch.cuda.graph` of PyTorch.
    """
    if warmup < 1:
        raise SettingError(f"warmup is {warmup}; expected 1 or more calls before the one that is recorded.")
    if not torch.cuda.is_available():
        return step

    recordings: dict[tuple[Any, ...], Recording] = {}

    @functools.wraps(step)
    def captured(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        parts = list(_parts((args, kwargs)))
        key = (*_modes(), *[_alike(path, part) for path, part in parts])
        if key not in recordings:
            if len(recordings) == MAX_FORMS:
                raise UnsupportedError(
                    f"capture: more than {MAX_FORMS} forms of arguments, {_reason(parts, recordings)}."
                )
            recordings[key] = Recording([part for _, part in parts if not isinstance(part, (Tensor, *CONTAINERS))])
        recording = recordings[key]
        if recording.num_calls < warmup:
            recording.num_calls += 1
            return _on_a_stream(lambda: step(*args, **kwargs))

        tensors = [part for _, part in parts if isinstance(part, Tensor)]
        if recording.replay is None:
            recording.inputs = [tensor.clone() for tensor in tensors]
            args, kwargs = _replaced((args, kwargs), iter(recording.inputs))
            replay, recording.results = _recorded(lambda: step(*args, **kwargs))
            _check_unwritten(parts, recording.inputs)
            recording.replay = replay
        else:
            for read, tensor in zip(recording.inputs, tensors, strict=True):
                read.copy_(tensor)
        recording.replay()
        return cast(Result, recording.results)

    return captured


@dataclass(eq=False)
class Recording:
    """Calls whose arguments are alike, and their graph."""

    objects: list[Any]
    """Arguments other than tensors, kept so that no other object gets the identity of one of them."""
    num_calls: int = 0
    """Calls that ran as they are."""
    inputs: list[Tensor] = field(default_factory=list)
    """Where the recorded kernels read the tensors among the arguments."""
    replay: Callable[[], None] | None = None
    """Starts the recorded kernels; None before they are recorded."""
    results: Any = None
    """What the step returned while it was recorded."""


def _modes() -> tuple[Any, ...]:
    """What torch does beside to compute: a graph holds it as it was recorded."""
    casts = torch.is_autocast_enabled(DEVICE) and torch.get_autocast_dtype(DEVICE)
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), casts


def _parts(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """A value, and all that its tuples, lists and dicts hold, with where each stands."""
    yield path, value
    if isinstance(value, dict):
        pairs: Iterable[tuple[Any, Any]] = value.items()
    else:
        pairs = enumerate(value) if isinstance(value, CONTAINERS) else ()
    for key, part in pairs:
        yield from _parts(part, (*path, key))


def _replaced(value: Any, tensors: Iterator[Tensor]) -> Any:
    """The same tuples, lists and dicts with other tensors."""
    if isinstance(value, dict):
        return {key: _replaced(part, tensors) for key, part in value.items()}
    if isinstance(value, CONTAINERS):
        parts = [_replaced(part, tensors) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return next(tensors) if isinstance(value, Tensor) else value


def _alike(path: Path, part: Any) -> tuple[Any, ...]:
    """What two arguments at the same place have in common where one graph serves both."""
    if isinstance(part, CONTAINERS):
        return path, type(part), len(part)
    if not isinstance(part, Tensor):
        return path, type(part), repr(part) if isinstance(part, PLAIN) else id(part)  # 0.0 is not -0.0
    if part.requires_grad:
        raise UnsupportedError(f"capture: {_place(path)} requires a gradient; detach it, or let the step hold it.")
    if part.device.type != DEVICE:
        raise UnsupportedError(f"capture: {_place(path)} is on {part.device}; move it to the GPU first.")
    return path, part.shape, part.stride(), part.dtype, part.device


def _place(path: Path) -> str:
    """An argument in words."""
    kind, name, *within = path
    where = "".join(f"[{key!r}]" for key in within)
    return f"argument {name + 1}{where}" if kind == 0 else f"argument {name}{where}"


def _reason(parts: list[tuple[Path, Any]], recordings: Iterable[tuple[Any, ...]]) -> str:
    """Why there are so many forms, in words."""
    entries = {entry for key in recordings for entry in key}
    path, part = next((each for each in parts if _alike(*each) not in entries), ((), None))
    if len(path) < 2:
        return "as they come in ever other combinations"
    what = "has one more shape" if isinstance(part, Tensor) else f"is another {type(part).__name__} each time"
    return f"as {_place(path)} {what}"


def _check_unwritten(parts: list[tuple[Path, Any]], inputs: list[Tensor]) -> None:
    """Raise UnsupportedError if the step has changed a tensor among its arguments, whose copy it would change."""
    paths = [path for path, part in parts if isinstance(part, Tensor)]
    for path, tensor in zip(paths, inputs, strict=True):
        if tensor._version:
            raise UnsupportedError(f"capture: the step writes into {_place(path)}; let it hold that tensor instead.")


def _on_a_stream(call: Callable[[], Result]) -> Result:
    """A call on a stream of its own, as torch wants it before a recording."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        results = call()
    torch.cuda.current_stream().wait_stream(side)
    return results


def _recorded(call: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """What replays the kernels of a call, which are recorded and do not run, and what it returns."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings(), torch.cuda.graph(graph):
            warnings.filterwarnings("error", message="The CUDA Graph is empty")
            results = call()
    except (RuntimeError, UserWarning) as error:
        reason = str(error).strip().splitlines()[0]
        raise UnsupportedError(f"capture: the step cannot be one CUDA graph: {reason}") from error
    return graph.replay, results
