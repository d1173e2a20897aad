"""Processes of their own: the command with an allocator that keeps memory, children with the one that users have."""

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cpu_attention.machine import ALLOCATOR

COMMAND = Path(__file__).parents[1] / "attention.py"


class ChildError(Exception):
    """A child process ended with an error."""


def restart_with_allocator(keeps_memory: bool = True) -> None:
    """Start this very command again with an allocator that keeps memory, or with the default one, unless it has it."""
    wanted = ALLOCATOR if keeps_memory else {}
    if {name: os.environ[name] for name in ALLOCATOR if name in os.environ} == wanted:
        return
    rest = {name: value for name, value in os.environ.items() if name not in ALLOCATOR}
    os.execve(sys.executable, [sys.executable, *sys.argv], rest | wanted)


def in_child(
    task: str, command: str = str(COMMAND), settings: Mapping[str, str] | None = None, **request: object
) -> Any:
    """What a task of `tasks`, or of another command, finds in a fresh process.

    Its allocator is the default one, unless environment variables among `settings` say otherwise.

    Raises:
        ChildError: it ended with an error; the message is what it said.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ALLOCATOR} | dict(settings or {})
    words = [sys.executable, command, "--child", json.dumps({"task": task, **request})]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise ChildError(f"{task} of {request}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def answer(result: object) -> None:
    """Hand a result to the parent: the last line that the child prints."""
    print(json.dumps(result))


def reset_peak() -> int:
    """Forget the largest memory this process ever had; what it has now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(line: str) -> int:
    """A line of /proc/self/status, in bytes: VmRSS, what the process has; VmHWM, the most it had."""
    for text in Path("/proc/self/status").read_text().splitlines():
        if text.startswith(f"{line}:"):
            return 1024 * int(text.split()[1])
    raise ChildError(f"/proc/self/status has no line {line}")


def give_back() -> None:
    """Hand freed memory back to the system."""
    gc.collect()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # glibc
        library.malloc_trim(0)
