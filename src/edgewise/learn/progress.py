"""How far long work is: readers, trainings and explanations open stages; whoever runs them decides what is shown.

    with stage("reading molecules", total=len(texts)) as current:
        for text in texts:
            ...
            current.done += 1

Without a monitor, as in a library, a stage is a counter without a display.
"""

import contextlib
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


@dataclass(eq=False)
class Stage:
    """A stretch of work that may take long. The work counts in it; a monitor reads it when it likes."""

    name: str
    """What is done, in a few words."""
    total: int | None = None
    """How many steps there are; None where that is unknown."""
    done: int = 0
    """How many of them are done."""
    note: str = ""
    """What else is known now, such as the last loss."""


class Counted(Protocol[Item_co]):
    """Items whose number is known: a list, a range, a loader."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Item_co]: ...


class Monitor(Protocol):
    """What shows stages."""

    def begin(self, stage: Stage) -> None:
        """A stage begins, inside those that have not ended."""

    def end(self, stage: Stage) -> None:
        """It is over, whether or not it got to its end."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def note(self, line: str) -> None:
        """A line about the data that is not part of the output, such as a warning."""


@dataclass(frozen=True)
class Audience:
    """Where what is said within a block goes."""

    monitor: Monitor | None = None
    """What shows stages; None shows none."""
    remarks: list[str] | None = None
    """Where remarks are collected; None shows them at once."""


NO_AUDIENCE = Audience()
_AUDIENCE = ContextVar("audience", default=NO_AUDIENCE)


@contextlib.contextmanager
def monitored(monitor: Monitor | None) -> Iterator[None]:
    """Shows the stages of what runs inside on `monitor`; None shows none."""
    token = _AUDIENCE.set(replace(_AUDIENCE.get(), monitor=monitor))
    try:
        yield
    finally:
        _AUDIENCE.reset(token)


def is_monitored() -> bool:
    """Whether anybody looks."""
    return _AUDIENCE.get().monitor is not None


@contextlib.contextmanager
def stage(name: str, total: int | None = None) -> Iterator[Stage]:
    """A stage that lasts as long as its block."""
    monitor, current = _AUDIENCE.get().monitor, Stage(name, total)
    if monitor is None:
        yield current
        return
    monitor.begin(current)
    try:
        yield current
    finally:
        monitor.end(current)


def counted(items: Counted[Item], name: str) -> Iterator[Item]:
    """The items one by one, as a stage that counts them."""
    with stage(name, len(items)) as current:
        for item in items:
            yield item
            current.done += 1


def say(line: str) -> None:
    """Shows a line on the monitor, where there is one."""
    if (monitor := _AUDIENCE.get().monitor) is not None:
        monitor.say(line)


def note(line: str) -> None:
    """Shows a line about the data on the monitor, where there is one: readers print nothing themselves."""
    if (monitor := _AUDIENCE.get().monitor) is not None:
        monitor.note(line)


@contextlib.contextmanager
def collected_remarks() -> Iterator[list[str]]:
    """The remarks of readers inside, each once, for a summary that shows them."""
    remarks: list[str] = []
    token = _AUDIENCE.set(replace(_AUDIENCE.get(), remarks=remarks))
    try:
        yield remarks
    finally:
        _AUDIENCE.reset(token)


def remark(line: str) -> None:
    """What a reader finds suspicious: a line of the summary that collects it, else of the monitor, else a warning."""
    if (remarks := _AUDIENCE.get().remarks) is not None:
        if line not in remarks:
            remarks.append(line)
    elif (monitor := _AUDIENCE.get().monitor) is not None:
        monitor.note(line)
    else:
        warnings.warn(line.removeprefix("warning: "), stacklevel=3)


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, seconds_left = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds_left} s"
    return f"{minutes // 60} h {minutes % 60} min"
