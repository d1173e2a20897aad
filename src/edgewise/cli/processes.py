"""A training in several processes: `--devices` and `--num-nodes` start them here, torchrun and Ray elsewhere.

Where one process fails, all end. Those that `--devices` starts on one machine meet in a file, so that no port is open,
and the process that starts them does not import torch.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.cli.training import PROCESSES, check_typed, has_folds, job_of, run_in_group, train
from edgewise.errors import EdgewiseError, ProcessGroupError, SettingError
from edgewise.learn.settings import spelled
from edgewise.learn.tasks.registry import inferred

TICK = 0.05
"""Seconds between two looks at the processes."""
GRACE = 5.0
"""Seconds that a process has to end itself."""
RENDEZVOUS, PARENT = "EDGEWISE_RENDEZVOUS", "EDGEWISE_PARENT"
"""Variables of a process: the file where all meet (`train.distributed` reads it), and who started it."""
FAILED = 2
"""The exit code of an error that a process has printed."""


def launch(words: Sequence[str], devices: int, num_nodes: int, again: str) -> int:
    """Runs `edgewise` in so many processes on this machine; the exit code of all.

    Args:
        words: The words of the command.
        devices: Processes on this machine.
        num_nodes: Machines. Where there are several, MASTER_ADDR, MASTER_PORT and NODE_RANK say where they meet.
        again: The command that continues the training.

    Raises:
        ProcessGroupError: A process was killed or crashed.
        SettingError: There are several machines, and nothing says where they meet.
    """
    with tempfile.TemporaryDirectory(prefix="edgewise-") as folder:
        known = dict(os.environ) | {"WORLD_SIZE": str(devices * num_nodes), PARENT: str(os.getpid())}
        first = 0
        if num_nodes == 1:
            known[RENDEZVOUS] = f"file://{folder}/rendezvous"
            if Path("/sys/class/net/lo").exists():
                known.setdefault("GLOO_SOCKET_IFNAME", "lo")
        else:
            first = devices * node_rank()
        processes: list[subprocess.Popen[bytes]] = []
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            for local in range(devices):
                own = known | {"RANK": str(first + local), "LOCAL_RANK": str(local)}
                line = [sys.executable, "-m", "edgewise.cli.main", *words]
                processes.append(subprocess.Popen(line, env=own, stdin=subprocess.PIPE))
            return watch(processes, first, devices * num_nodes, again)
        finally:
            end(processes)
            signal.signal(signal.SIGTERM, before)


def node_rank() -> int:
    """The number of this machine.

    Raises:
        SettingError: A variable is missing.
    """
    names = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
    missing = [name for name in names if not os.environ.get(name)]
    number = os.environ.get("NODE_RANK", "")
    if missing or not number.isdecimal():
        raise SettingError(
            f"--num-nodes needs {', '.join(missing) or 'a whole number in NODE_RANK'}: set MASTER_ADDR and MASTER_PORT "
            "to a free port of the first machine on all machines, and NODE_RANK to 0, 1, … on each; or start it with "
            "torchrun."
        )
    return int(number)


def watch(processes: Sequence[subprocess.Popen[bytes]], first: int, size: int, again: str) -> int:
    """Waits until all processes are done, or one has failed."""
    while True:
        try:
            codes = [process.poll() for process in processes]
            if all(code == 0 for code in codes):
                return 0
            # One that a signal has killed comes first: the others failed as it was gone.
            failed = sorted((code, rank) for rank, code in enumerate(codes, first) if code)
            if failed:
                break
            time.sleep(TICK)
        except KeyboardInterrupt:  # the processes get it, too, and print what to do
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for process in processes:
                process.wait()
            return 130
    code, rank = failed[0]
    if code in (FAILED, 130):
        return code
    how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
    raise ProcessGroupError(
        f"process {rank} of {size} {how}, and the others were ended; continue from the last checkpoint: {again}"
    )


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends the processes that are left: by a signal, and after a while by force."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    limit = time.monotonic() + GRACE
    for process in processes:
        try:
            process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def end_with_parent() -> None:
    """Ends this process when the one that started it ends, and be it killed: its input ends then."""
    if not os.environ.get(PARENT):
        return

    def wait() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def again(given: dict[str, Any]) -> str:
    """The command that continues a run, in as many processes."""
    from edgewise.learn.tasks.scores import command

    flags = [word for name in PROCESSES if name in given for word in (spelled(name), given[name]) if word is not True]
    return command("train", "--resume", "-o", job_of(given)[1].path, *flags)


def run_among_others(given: dict[str, Any]) -> int:
    """Trains as one of several processes; only the first prints."""
    from edgewise.learn.progress import monitored
    from edgewise.learn.training.distributed import connected

    def stop(*_: Any) -> None:
        # Whoever started it with --devices says why.
        reason = "this process was ended (SIGTERM), as it is where another one has failed."
        raise ProcessGroupError("" if os.environ.get(PARENT) else reason)

    signal.signal(signal.SIGTERM, stop)
    end_with_parent()
    try:
        strategy, device = given.get("strategy", "ddp"), given.get("device", "auto")
        with connected(strategy, device) as group, contextlib.ExitStack() as quiet:
            if not group.leads:
                quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
                quiet.enter_context(monitored(None))
            return run_in_group(given, group)
    except ProcessGroupError as error:
        if not str(error):  # another process has printed its error
            return 2
        raise ProcessGroupError(f"{error} Continue with: {again(given)}") from error
    finally:
        # It ends by itself now; a signal while the interpreter shuts down would only print a traceback.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def run_in_ray(given: dict[str, Any]) -> int:
    """Trains in workers of Ray, and prints the scores."""
    import torch

    from edgewise.cli.report import print_run
    from edgewise.learn.engine.train import train as train_in_ray
    from edgewise.learn.engine.workers import Workers
    from edgewise.learn.progress import stage
    from edgewise.learn.tasks.registry import task

    for name in ("devices", "num_nodes"):
        if name in given:
            raise SettingError(f"{spelled(name)} does not go with --engine ray; use --num-workers.")
    on_gpu = given.get("device", "auto") in ("auto", "cuda") and torch.cuda.is_available()
    count = given.get("num_workers", 1)
    settings, folder, how = job_of(given)
    chosen = task(how["named"] or inferred(settings)[0])
    check_typed(chosen.name, how["typed"])
    job = chosen.settings_type.of(settings, how["source"])
    if has_folds(job) or chosen.ensemble_size(job) > 1:
        if "strategy" in given:
            raise SettingError("--strategy: a worker of Ray trains a whole fold or member; leave it out.")
        return train(settings, folder, **how, workers=Workers(count, on_gpu, given.get("ray_address")))
    folder.check(overwrite=how["overwrite"], resume=how["resume"])
    if how["overwrite"]:
        with folder.locked():
            folder.begin()
    # Workers have another current folder.
    given = {name: value for name, value in given.items() if name not in ("run", "overwrite")}
    given |= {"output_dir": str(folder.path.absolute()), "current_folder": str(Path.cwd())}
    with stage(f"training in Ray workers ({count})"):
        message = train_in_ray(
            *(work_in_ray, given, folder.path.absolute(), count), on_gpu=on_gpu, address=given.get("ray_address")
        )
    if message is not None:
        raise EdgewiseError(message)
    print(f"The report is {folder.path / 'report.html'}.")
    print_run(chosen, folder)
    return 0


def work_in_ray(given: dict[str, Any]) -> str | None:
    """What a worker of Ray does; the message of an error that another try would not mend."""
    from edgewise.learn.progress import monitored
    from edgewise.learn.training.distributed import connected

    os.chdir(given["current_folder"])
    with connected(given.get("strategy", "ddp")) as group, monitored(None):
        # Workers that replace lost ones continue what is there.
        folder = job_of(given)[1]
        given = {**given, "resume": group.share(folder.is_started)}
        try:
            run_in_group(given, group)
        except ProcessGroupError as error:
            if str(error):
                raise
        except EdgewiseError as error:
            return str(error)
    return None
