"""How far a verb is: bars on a terminal; elsewhere a dated line when a long stage begins, every few seconds, and at its
end."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, TextIO

from edgewise.learn.progress import Stage, duration, monitored

SHORT = 2.0
"""Seconds after which a stage is worth a line in a log."""
PAUSE = 10.0
"""Seconds between two lines on one stage."""
TICK = 0.2
"""Seconds between two looks at the stages."""


class Watch:
    """A monitor that looks at the running stages from a thread of its own, also while one of them is deep in C.

    Args:
        display: where they are shown.
    """

    def __init__(self, display: "Bars | Lines"):
        self.display = display
        self.running: dict[Stage, float] = {}
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.look, name="edgewise progress", daemon=True)

    def begin(self, stage: Stage) -> None:
        """A stage begins."""
        with self.lock:
            self.running[stage] = time.monotonic()
            if not self.thread.is_alive() and not self.stopped.is_set():
                self.thread.start()

    def end(self, stage: Stage) -> None:
        """It is over."""
        with self.lock:
            began = self.running.pop(stage)
            self.display.end(stage, time.monotonic() - began)

    def say(self, line: str) -> None:
        """Prints a line with what the verb prints."""
        with self.lock:
            print(line, flush=True)

    def note(self, line: str) -> None:
        """Prints a line beside what the verb prints."""
        with self.lock:
            print(line, file=sys.stderr, flush=True)

    def look(self) -> None:
        """Shows what runs, until the watch is stopped."""
        while not self.stopped.wait(TICK):
            with self.lock:
                now = time.monotonic()
                self.display.show([(stage, now - began) for stage, began in self.running.items()])

    def stop(self) -> None:
        """Shows nothing from now on."""
        self.stopped.set()
        if self.thread.is_alive():
            self.thread.join()
        self.display.close()


class Bars:
    """Bars on a terminal, which go when their stages end."""

    def __init__(self, stream: TextIO):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Left

        note = TextColumn("{task.fields[note]}")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), note)
        # Lines that are printed meanwhile go above the bars; what is piped elsewhere goes there.
        self.bars = Progress(
            *columns, TimeElapsedColumn(), TextColumn("elapsed,"), Left(), TextColumn("left"),
            console=Console(file=stream), transient=True, redirect_stdout=sys.stdout.isatty(), auto_refresh=False,
        )  # fmt: skip
        self.tasks: dict[Stage, Any] = {}
        self.is_shown = False

    def show(self, running: list[tuple[Stage, float]]) -> None:
        """One bar a stage."""
        if running and not self.is_shown:
            self.bars.start()
            self.is_shown = True
        for stage, seconds in running:
            if stage not in self.tasks:
                self.tasks[stage] = self.bars.add_task(stage.name, total=stage.total, note="")
                task = self.bars.tasks[-1]
                task.start_time = task.get_time() - seconds
            self.bars.update(self.tasks[stage], total=stage.total, completed=stage.done, note=stage.note)
        if self.is_shown:
            self.bars.refresh()

    def end(self, stage: Stage, seconds: float) -> None:
        """Its bar goes; with the last one the display, so that what is printed then is printed as it is."""
        if stage in self.tasks:
            self.bars.remove_task(self.tasks.pop(stage))
        if not self.tasks:
            self.close()

    def close(self) -> None:
        """No bars are left."""
        if self.is_shown:
            self.bars.stop()
            self.is_shown = False


class Lines:
    """Dated lines, for a log: of a stage that takes longer than `SHORT` its beginning, how far it is, and its end."""

    def __init__(self, stream: TextIO):
        self.stream = stream
        self.written: dict[Stage, float] = {}

    def show(self, running: list[tuple[Stage, float]]) -> None:
        """A line for each stage that has had none for long."""
        for stage, seconds in running:
            if seconds >= SHORT and stage not in self.written:
                self.say(f"{stage.name} …")
            elif seconds - self.written.get(stage, seconds) < PAUSE:
                continue
            else:
                self.say(f"{stage.name}: {how_far(stage, seconds)}")
            self.written[stage] = seconds

    def end(self, stage: Stage, seconds: float) -> None:
        """A line, where it had one before."""
        if self.written.pop(stage, None) is not None:
            self.say(f"{stage.name}: ended after {duration(seconds)}")

    def say(self, line: str) -> None:
        """A dated line."""
        print(f"{datetime.now():%Y-%m-%d %H:%M:%S} {line}", file=self.stream, flush=True)

    def close(self) -> None:
        """Lines stay."""


def how_far(stage: Stage, seconds: float) -> str:
    """How much is done, what else is known, and how long it may still take."""
    parts = [stage.note] if stage.note else []
    if stage.total:
        parts.insert(0, f"{stage.done:,} of {stage.total:,}")
        if stage.done:
            parts.append(f"about {duration(seconds * (stage.total - stage.done) / stage.done)} left")
    return ", ".join(parts) or f"{duration(seconds)} so far"


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Shows the stages of what runs inside on stderr, whatever runs; Ctrl-C and errors leave nothing behind."""
    watch = Watch(Bars(sys.stderr) if sys.stderr.isatty() else Lines(sys.stderr))
    try:
        with monitored(watch):
            yield
    finally:
        watch.stop()
