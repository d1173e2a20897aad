"""Progress of a verb: bars on a terminal; elsewhere dated lines when a long stage begins, every few seconds, and when
it ends."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, TextIO

from edgewise.learn.progress import Stage, duration, monitored

SHORT = 2.0
"""Seconds after which a stage gets a line in a log."""
PAUSE = 10.0
"""Seconds between two lines on one stage."""
TICK = 0.2
"""Seconds between two updates."""


class Watch:
    """A monitor that shows the running stages from its own thread, even while one of them runs in C.

    Args:
        display: what shows them.
    """

    def __init__(self, display: "Bars | Lines"):
        self.display = display
        self.running: dict[Stage, float] = {}
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.update, name="edgewise progress", daemon=True)

    def begin(self, stage: Stage) -> None:
        """A stage begins."""
        with self.lock:
            self.running[stage] = time.monotonic()
            if not self.thread.is_alive() and not self.stopped.is_set():
                self.thread.start()

    def end(self, stage: Stage) -> None:
        """A stage ends."""
        with self.lock:
            began = self.running.pop(stage)
            self.display.end(stage, time.monotonic() - began)

    def say(self, line: str) -> None:
        """Prints a line to stdout."""
        with self.lock:
            print(line, flush=True)

    def note(self, line: str) -> None:
        """Prints a line to stderr."""
        with self.lock:
            print(line, file=sys.stderr, flush=True)

    def update(self) -> None:
        """Shows the running stages until the watch is stopped."""
        while not self.stopped.wait(TICK):
            with self.lock:
                now = time.monotonic()
                self.display.show([(stage, now - began) for stage, began in self.running.items()])

    def stop(self) -> None:
        """Stops the display."""
        self.stopped.set()
        if self.thread.is_alive():
            self.thread.join()
        self.display.close()


class Bars:
    """Bars on a terminal, which disappear when their stages end."""

    def __init__(self, stream: TextIO):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Left

        note = TextColumn("{task.fields[note]}")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), note)
        # Lines printed meanwhile go above the bars, unless stdout is piped elsewhere.
        self.bars = Progress(
            *columns, TimeElapsedColumn(), TextColumn("elapsed,"), Left(), TextColumn("left"),
            console=Console(file=stream), transient=True, redirect_stdout=sys.stdout.isatty(), auto_refresh=False,
        )  # fmt: skip
        self.tasks: dict[Stage, Any] = {}
        self.is_shown = False

    def show(self, running: list[tuple[Stage, float]]) -> None:
        """Updates one bar for each stage."""
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
        """Removes the bar of a stage; after the last one the display stops, so that later output is not redirected."""
        if stage in self.tasks:
            self.bars.remove_task(self.tasks.pop(stage))
        if not self.tasks:
            self.close()

    def close(self) -> None:
        """Stops the display."""
        if self.is_shown:
            self.bars.stop()
            self.is_shown = False


class Lines:
    """Dated lines for a log: the start, progress and end of a stage that takes longer than `SHORT`."""

    def __init__(self, stream: TextIO):
        self.stream = stream
        self.written: dict[Stage, float] = {}

    def show(self, running: list[tuple[Stage, float]]) -> None:
        """Prints a line for each stage whose last one is `PAUSE` seconds old."""
        for stage, seconds in running:
            if seconds >= SHORT and stage not in self.written:
                self.say(f"{stage.name} …")
            elif seconds - self.written.get(stage, seconds) < PAUSE:
                continue
            else:
                self.say(f"{stage.name}: {how_far(stage, seconds)}")
            self.written[stage] = seconds

    def end(self, stage: Stage, seconds: float) -> None:
        """Prints a line if the stage had one before."""
        if self.written.pop(stage, None) is not None:
            self.say(f"{stage.name}: ended after {duration(seconds)}")

    def say(self, line: str) -> None:
        """Prints a dated line."""
        print(f"{datetime.now():%Y-%m-%d %H:%M:%S} {line}", file=self.stream, flush=True)

    def close(self) -> None:
        """Does nothing: lines stay."""


def how_far(stage: Stage, seconds: float) -> str:
    """How much is done, the note of the stage, and the estimated time left."""
    parts = [stage.note] if stage.note else []
    if stage.total:
        parts.insert(0, f"{stage.done:,} of {stage.total:,}")
        if stage.done:
            parts.append(f"about {duration(seconds * (stage.total - stage.done) / stage.done)} left")
    return ", ".join(parts) or f"{duration(seconds)} so far"


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Shows the stages of its block on stderr; nothing is left on the screen after Ctrl-C or an error."""
    watch = Watch(Bars(sys.stderr) if sys.stderr.isatty() else Lines(sys.stderr))
    try:
        with monitored(watch):
            yield
    finally:
        watch.stop()
