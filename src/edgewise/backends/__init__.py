"""The same sum computed in several ways. Faster ones stand first; the first that takes a call runs it.

The order is fixed, with one exception: torch's kernels compute every pair of the table and then forbid some, so that
for narrow windows and short segments they stand behind numba, which computes only the pairs there are.
"""

from dataclasses import dataclass
from types import ModuleType

from edgewise.backends import gather, numba, reference, sdpa, triton
from edgewise.backends.call import Call
from edgewise.errors import SettingError, UnsupportedError

ORDER: tuple[ModuleType, ...] = (sdpa, triton, numba, gather, reference)
BY_NAME = {backend.NAME: backend for backend in ORDER}


@dataclass(frozen=True)
class Choice:
    """Which backend runs a call, and why those before it in the order do not."""

    backend: ModuleType
    """The module that runs it."""
    refused: dict[str, tuple[str, ...]]
    """The reasons of each backend that would have come first."""


def choose(call: Call, name: str = "auto") -> Choice:
    """The backend that runs a call: the first in the order that takes it, or the one that is named.

    Raises:
        SettingError: no backend has that name.
        UnsupportedError: the named backend refuses the call; the message lists its reasons.
    """
    if name == "auto":
        refused: dict[str, tuple[str, ...]] = {}
        for backend in ORDER:
            reasons = backend.refusals(call)
            if not reasons and backend is sdpa and numba.takes_few_pairs(call):
                reasons = ("it would compute every pair of the table, of which few are allowed",)
            if not reasons:
                return Choice(backend, refused)
            refused[backend.NAME] = reasons
    if name not in BY_NAME:
        raise SettingError(f"backend must be one of auto, {', '.join(BY_NAME)}, not {name!r}.")
    reasons = BY_NAME[name].refusals(call)
    if reasons:
        raise UnsupportedError(f"backend {name!r} refuses this call: {'; '.join(reasons)}.")
    return Choice(BY_NAME[name], {})
