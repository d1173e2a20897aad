"""The same sum computed in several ways. Faster ones stand first; the first that takes a call runs it.

The order is fixed, with two exceptions. `sdpa` computes every pair of a table and then forbids some: it stands behind
others where the table is in the way, behind `numba` for narrow windows and short segments, and on a CUDA device behind
`varlen` and `triton` wherever the table would be made for it. `flex` runs only where it is named.
"""

from contextlib import AbstractContextManager, nullcontext
from types import ModuleType

from torch import Tensor

from edgewise.backends import flex, gather, numba, reference, sdpa, triton, uniform, varlen
from edgewise.backends.call import Call, is_autocast, outside_autocast
from edgewise.backends.form import Remembered, RunAgain
from edgewise.backends.kernels import NORMALIZERS, SCORES
from edgewise.errors import SettingError, UnsupportedError
from edgewise.neighborhood import Edges, Ranges
from edgewise.normalize import Normalize
from edgewise.score import Score

ORDER: tuple[ModuleType, ...] = (sdpa, varlen, flex, uniform, triton, numba, gather, reference)
ORDER_OVER_EDGES = tuple(backend for backend in ORDER if backend not in (sdpa, varlen, flex, uniform))
"""Those that take lists of edges, so that the others need not be tried at every call."""
OF_DEVICES = (varlen, flex, triton)
"""Those that run on some devices alone, their `DEVICES`."""
READ_EDGE_ROWS = (numba,)
"""Those that can read rows which several edges share, where their `shares_rows` takes the call; others need a row for
each edge."""
REDUCE_EDGES = (numba,)
"""Those that have a maximum over lists of edges of their own."""
BY_NAME = {backend.NAME: backend for backend in ORDER}


def choose(call: Call, name: str = "auto") -> ModuleType:
    """The backend that runs a call: the first in the order that takes it, or the one that is named.

    Raises:
        SettingError: no backend has that name.
        UnsupportedError: the named backend refuses the call; the message lists its reasons.
    """
    if name == "auto":
        device = call.query.device.type
        for backend in ORDER_OVER_EDGES if isinstance(call.neighborhood, Edges) else ORDER:
            if backend in OF_DEVICES and device not in backend.DEVICES:
                continue
            if not backend.refusals(call) and not _others_are_better(backend, call):
                return backend
    if name not in tuple(BY_NAME):
        raise SettingError(f"backend must be one of auto, {', '.join(BY_NAME)}, not {name!r}.")

    reasons = BY_NAME[name].refusals(call)
    if reasons:
        raise UnsupportedError(f"backend {name!r} refuses this call: {'; '.join(reasons)}.")

    return BY_NAME[name]


def remember(form: tuple, call: Call, backend: ModuleType, tensors: tuple[Tensor | None, ...]) -> None:
    """Remember how a call was run whose form is this, for others of that form.

    Args:
        form: that of the arguments.
        call: the call, checked.
        backend: what ran it.
        tensors: query, key, value, bias, edge_key and edge_value, as they came.
    """
    checked = call.query, call.key, call.value, call.bias, call.edge_key, call.edge_value
    if any(x is not given for x, given in zip(checked, tensors, strict=True)):
        return  # the check made others of them

    def run(neighborhood: Edges, score: Score, normalize: Normalize, tensors: tuple, dropout: float) -> Tensor:
        query, key, value, bias, edge_key, edge_value = tensors
        call = Call(query, key, value, neighborhood, score, normalize, bias, edge_key, edge_value, dropout)
        out: Tensor = backend.run(call)
        return out

    RUNS.put(form, (numba.run_again(call) if backend is numba else None) or run)


RUNS: Remembered[RunAgain] = Remembered()
"""How to run the calls whose forms are known: they are neither checked again, nor is a backend chosen."""


def reads_edge_rows(backend: ModuleType, call: Call) -> bool:
    """Whether a backend reads the rows that edges share, so that they need not be copied for each edge."""
    return backend in READ_EDGE_ROWS and backend.shares_rows(call)


def largest(backend: ModuleType, call: Call) -> Tensor:
    """The largest of each feature over the neighbors of each query, 0 where there is none: by the backend's own maximum
    where it has one, else by that of `gather`."""
    has_maximum = backend in REDUCE_EDGES and isinstance(call.neighborhood, Edges)
    maximum: Tensor = (backend if has_maximum else gather).largest(call)
    return maximum


def refused(call: Call) -> dict[str, tuple[str, ...]]:
    """The reasons of each backend that stands before the one that is chosen for a call."""
    reasons_by_backend: dict[str, tuple[str, ...]] = {}
    for backend in ORDER:
        reasons = backend.refusals(call) or _others_are_better(backend, call)
        if not reasons:
            break
        reasons_by_backend[backend.NAME] = reasons

    return reasons_by_backend


def without_autocast(call: Call) -> AbstractContextManager:
    """torch.autocast switched off for what a backend computes: the tensors of a call have their dtype, and float32
    arithmetic stays float32. A score or normalizer of the caller's own, which may hold layers, goes on under it."""
    device = call.query.device
    if not is_autocast(device) or not (type(call.score) in SCORES and type(call.normalize) in NORMALIZERS):
        return _AS_IT_IS
    return outside_autocast(device)


_AS_IT_IS = nullcontext()


def _others_are_better(backend: ModuleType, call: Call) -> tuple[str, ...]:
    """Why a backend that takes a call is passed over."""
    if backend is flex:
        return ("it would be compiled, which takes seconds; backend='flex' selects it",)
    if backend is sdpa and isinstance(call.neighborhood, Ranges) and sdpa.needs_table(call):
        if numba.takes_few_pairs(call):
            return ("it would compute every pair of the table, of which few are allowed",)
        device = call.query.device.type
        if any(device in other.DEVICES and not other.refusals(call) for other in (varlen, triton)):
            return ("it would need a table of all pairs",)
    return ()
