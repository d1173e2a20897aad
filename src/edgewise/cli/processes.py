"""Training in several processes: `--devices` and `--num-nodes` start them here, torchrun and Ray elsewhere.

If one process fails, all end. The processes of `--devices` on one machine rendezvous in a file, so that no port is
open, and the process that starts them does not import torch.
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
"""Seconds between two checks of the processes."""
GRACE = 5.0
"""Seconds that a process gets to exit after SIGTERM."""
RENDEZVOUS, PARENT = "EDGEWISE_RENDEZVOUS", "EDGEWISE_PARENT"
"""Environment variables of a process: its rendezvous file (read by `train.distributed`), and the id of its parent."""
FAILED = 2
"""The exit code of an error that a process has printed."""


def launch(words: Sequence[str], devices: int, num_nodes: int, resume_with: str) -> int:
    """Runs `edgewise` in several processes on this machine; returns their common exit code.

    Args:
        words: The arguments of the command.
        devices: Number of processes on this machine.
        num_nodes: Number of machines. Several meet as MASTER_ADDR, MASTER_PORT and NODE_RANK say.
        resume_with: The command that continues the training.

    Raises:
        ProcessGroupError: A process was killed or crashed.
        SettingError: There are several machines, and MASTER_ADDR, MASTER_PORT or NODE_RANK is missing.
    """
    with tempfile.TemporaryDirectory(prefix="edgewise-") as folder:
        environment = dict(os.environ) | {"WORLD_SIZE": str(devices * num_nodes), PARENT: str(os.getpid())}
        first_rank = 0
        if num_nodes == 1:
            environment[RENDEZVOUS] = f"file://{folder}/rendezvous"
            if Path("/sys/class/net/lo").exists():
                environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        else:
            first_rank = devices * node_rank()

        processes: list[subprocess.Popen[bytes]] = []
        previous_handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            for local in range(devices):
                process_environment = environment | {"RANK": str(first_rank + local), "LOCAL_RANK": str(local)}
                command_line = [sys.executable, "-m", "edgewise.cli.main", *words]
                processes.append(subprocess.Popen(command_line, env=process_environment, stdin=subprocess.PIPE))
            return watch(processes, first_rank, devices * num_nodes, resume_with)
        finally:
            end(processes)
            signal.signal(signal.SIGTERM, previous_handler)


def node_rank() -> int:
    """The rank of this machine.

    Raises:
        SettingError: A variable is missing.
    """
    names = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
    missing = [name for name in names if not os.environ.get(name)]
    number = os.environ.get("NODE_RANK", "")
    if missing or not number.isdecimal():
        raise SettingError(
            f"--num-nodes needs {', '.join(missing) or 'an integer in NODE_RANK'}: set MASTER_ADDR and MASTER_PORT "
            "to a free port of the first machine on all machines, and NODE_RANK to 0, 1, … on each; or start it with "
            "torchrun."
        )

    return int(number)


def watch(processes: Sequence[subprocess.Popen[bytes]], first_rank: int, size: int, resume_with: str) -> int:
    """Waits until all processes have finished, or one has failed."""
    while True:
        try:
            codes = [process.poll() for process in processes]
            if all(code == 0 for code in codes):
                return 0

            # A process killed by a signal comes first: the others failed because it was gone.
            failed = sorted((code, rank) for rank, code in enumerate(codes, first_rank) if code)
            if failed:
                break
            time.sleep(TICK)
        except KeyboardInterrupt:  # the processes get it, too, and print how to continue
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for process in processes:
                process.wait()
            return 130

    code, rank = failed[0]
    if code in (FAILED, 130):
        return code

    how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
    raise ProcessGroupError(
        f"process {rank} of {size} {how}, and the others were ended; continue from the last checkpoint: {resume_with}"
    )


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends the remaining processes: by SIGTERM, and after a while by SIGKILL."""
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
    """Ends this process when its parent ends or is killed: the pipe to its stdin closes then."""
    if not os.environ.get(PARENT):
        return

    def wait() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def resume_command(flags: dict[str, Any]) -> str:
    """The command that continues a run in the same processes."""
    from edgewise.learn.tasks.scores import command

    words = [word for name in PROCESSES if name in flags for word in (spelled(name), flags[name]) if word is not True]
    return command("train", "--resume", "-o", job_of(flags)[1].path, *words)


def run_as_member(flags: dict[str, Any]) -> int:
    """Trains as one of several processes; only the first prints."""
    from edgewise.learn.progress import monitored
    from edgewise.learn.training.distributed import connected

    def stop(*_: Any) -> None:
        # With --devices the parent prints the reason.
        reason = "this process was ended by SIGTERM, as happens when another one fails."
        raise ProcessGroupError("" if os.environ.get(PARENT) else reason)

    signal.signal(signal.SIGTERM, stop)
    end_with_parent()

    try:
        settings, folder, options = job_of(flags)
        # The device may also stand in a configuration file, or in that of the run that is resumed.
        strategy, device = flags.get("strategy", "ddp"), settings.get("device", "auto")
        with connected(strategy, device) as group, contextlib.ExitStack() as quiet:
            if not group.leads:
                quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
                quiet.enter_context(monitored(None))
            return train(settings, folder, **options, group=group)
    except ProcessGroupError as error:
        if not str(error):  # another process has printed its error
            return 2
        raise ProcessGroupError(f"{error} Continue with: {resume_command(flags)}") from error
    finally:
        # The process exits now; a signal during shutdown would only print a traceback.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def run_in_ray(flags: dict[str, Any]) -> int:
    """Trains in workers of Ray, and prints the scores."""
    import torch

    from edgewise.cli.scores import print_run
    from edgewise.learn.engine.train import train as train_in_ray
    from edgewise.learn.engine.workers import Workers
    from edgewise.learn.progress import stage
    from edgewise.learn.tables.options import current_limits
    from edgewise.learn.tasks.registry import task
    from edgewise.learn.training import claim

    for name in ("devices", "num_nodes"):
        if name in flags:
            raise SettingError(f"{spelled(name)} cannot be used with --engine ray; use --num-workers.")
    count = flags.get("num_workers", 1)
    settings, folder, options = job_of(flags)
    on_gpu = settings.get("device", "auto") in ("auto", "cuda") and torch.cuda.is_available()
    chosen = task(options["named"] or inferred(settings)[0])
    check_typed(chosen.name, options["typed"])

    job = chosen.settings.of(settings, options["source"])
    if has_folds(job) or chosen.ensemble_size(job) > 1:
        if "strategy" in flags:
            raise SettingError("--strategy cannot be used here: a Ray worker trains a whole fold or member; drop it.")
        return train(settings, folder, **options, workers=Workers(count, on_gpu, flags.get("ray_address")))

    folder.check(overwrite=options["overwrite"], resume=options["resume"])
    if options["overwrite"]:
        with folder.locked():
            folder.begin()

    # Workers run in another folder, and know nothing of the limits that apply here.
    flags = {name: value for name, value in flags.items() if name not in ("run", "overwrite")}
    flags |= {"output_dir": str(folder.path.absolute()), "current_folder": str(Path.cwd())}
    flags |= {"read_limits": vars(current_limits())}
    with claim.removing_empty_folders(folder.path), stage(f"training in Ray workers ({count})"):
        message = train_in_ray(
            *(work_in_ray, flags, folder.path.absolute(), count), on_gpu=on_gpu, address=flags.get("ray_address")
        )
    if message is not None:
        raise EdgewiseError(message)

    print(f"The report is {folder.path / 'report.html'}.")
    print_run(chosen, folder)
    return 0


def work_in_ray(flags: dict[str, Any]) -> str | None:
    """Trains in a Ray worker; returns the message of an error that a retry would not fix."""
    from edgewise.learn.progress import monitored
    from edgewise.learn.tables.options import read_limits
    from edgewise.learn.training.distributed import connected

    os.chdir(flags["current_folder"])
    with connected(flags.get("strategy", "ddp")) as group, monitored(None), read_limits(**flags["read_limits"]):
        # Workers that replace lost ones continue from the checkpoint.
        folder = job_of(flags)[1]
        flags = {**flags, "resume": group.share(folder.is_started)}
        try:
            run_in_group(flags, group)
        except ProcessGroupError as error:
            if str(error):
                raise
        except EdgewiseError as error:
            return str(error)

    return None
