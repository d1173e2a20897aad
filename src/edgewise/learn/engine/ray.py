"""Starts Ray on this machine or connects to a cluster; Ray is imported only when it is used."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from edgewise.errors import EdgewiseError, MissingExtraError, SettingError

MAX_FAILURES = 3
"""How often lost workers are replaced before the run fails."""


def import_ray() -> ModuleType:
    """The package `ray`; raises MissingExtraError where it is not installed."""
    # Otherwise Ray sends usage statistics to its developers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its processes write to our screen
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray") from error
    return ray


@contextlib.contextmanager
def cluster(
    address: str | None = None, *, num_cpus: int | None = None, object_store_memory: int | None = None
) -> Iterator[ModuleType]:
    """The package `ray`, connected to a cluster inside the block.

    Args:
        address: of a running cluster, as `ray start` prints it; None is that of the environment variable RAY_ADDRESS,
            or starts a cluster on this machine, which listens on this machine alone and ends with the block.
        num_cpus: cores of a cluster that is started here; all by default.
        object_store_memory: bytes of Ray's object store; by default Ray decides.

    Raises:
        MissingExtraError: Ray is not installed.
        SettingError: no cluster answers at the address.
        EdgewiseError: none could be started here.
    """
    ray = import_ray()
    if ray.is_initialized():  # by the calling program
        yield ray
        return

    source = "--ray-address" if address else "the environment variable RAY_ADDRESS"
    address = address or os.environ.get("RAY_ADDRESS")
    options: dict[str, object] = {
        "num_cpus": num_cpus,
        "object_store_memory": object_store_memory,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",  # listens on this machine alone
    }
    try:
        try:
            ray.init(
                address=address or "local", log_to_driver=False, logging_level="ERROR", **({} if address else options)
            )
        except (OSError, RuntimeError, ValueError) as error:
            reason = _last_line(error)
            if address:
                raise SettingError(
                    f"{source} is {address}, but no Ray cluster answers there ({reason}); start one with: "
                    "ray start --head."
                ) from error
            raise EdgewiseError(
                f"Ray could not start on this machine ({reason}); end what is left of other clusters with: ray stop; "
                "or use --engine local."
            ) from error

        yield ray
    finally:
        ray.shutdown()


def ray_error(what: str, error: Exception) -> EdgewiseError:
    """An EdgewiseError with the last line of Ray's report."""
    return EdgewiseError(f"{what} failed: {_last_line(error)}")


def _last_line(error: Exception) -> str:
    last = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
    return last.strip()[:300]


@dataclass(frozen=True)
class WorkerError:
    """The type and message of an error in a worker: not every EdgewiseError can be pickled."""

    error_type: type[EdgewiseError]
    """The type of the error."""
    message: str
    """The message of the error."""

    @classmethod
    def from_error(cls, error: EdgewiseError) -> "WorkerError":
        """From an error."""
        return cls(type(error), str(error))

    def to_error(self) -> EdgewiseError:
        """An error of the same type and message."""
        error = self.error_type.__new__(self.error_type)  # without __init__, whose arguments differ from class to class
        error.args = (self.message,)
        return error
