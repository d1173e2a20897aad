"""`edgewise train`: from a file to a run folder."""

import argparse
import sys
from pathlib import Path
from typing import Any

from edgewise.cli.defaults import table_of_defaults
from edgewise.cli.options import add_train_options
from edgewise.cli.pictures import after_training
from edgewise.cli.report import print_run
from edgewise.plural import plural
from edgewise.progress import stage
from edgewise.tasks.commands import command

SUMMARY = "train a model on molecules, texts, graphs, series or motion"
DESCRIPTION = (
    "Train a model on a table of molecules or of texts (.csv, .tsv, .csv.gz, .tsv.gz, .parquet) and score it, beside "
    "simple models, on rows it has not seen; or on a text (.txt, .txt.gz), to tell each token from those before it; "
    "or, with --task-type translation, on texts and their translations; or, with --task-type masked, on many texts "
    "(lines, or the cells of --text-columns), to tell hidden tokens from those around them; or, with --task-type "
    "tagging, on sentences with one tag a word; or, with --edges, on the nodes of a graph (or a graph in one .npz), "
    "or, with --graph-column, on many graphs; "
    "and, with --task-type link, on its links; "
    "or, with --task-type forecast, on series on a graph; or on trajectories (.npz) as edgewise simulate writes them."
)
# Words of the command that are no settings of the run.
NOT_SETTINGS = ("run", "version", "config_path", "output_dir", "overwrite", "resume")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb; only those that were typed appear in the result."""
    add_train_options(parser)
    parser.more = table_of_defaults  # type: ignore[attr-defined]


def run(arguments: argparse.Namespace) -> int:
    """Trains, prints the scores and the next command."""
    from edgewise.train.folder import RunFolder, read_toml

    typed = {name: value for name, value in vars(arguments).items() if name not in NOT_SETTINGS}
    if typed.get("data") == []:
        del typed["data"]
    resume, overwrite = getattr(arguments, "resume", False), getattr(arguments, "overwrite", False)
    config_path = getattr(arguments, "config_path", None)
    config = read_toml(config_path) if config_path else {}
    output = getattr(arguments, "output_dir", None)
    folder = RunFolder(Path(output or default_folder({**hyphens(config), **typed})))
    if resume and not config_path and folder.is_begun:
        config, config_path = folder.read_config(), str(folder.path / "config.toml")
    settings = {**hyphens(config), **typed}
    return train(settings, folder, overwrite=overwrite, resume=resume, source=config_path or "the command line")


def hyphens(config: dict[str, Any]) -> dict[str, Any]:
    """The names of a configuration file as Python writes them."""
    return {name.replace("-", "_"): value for name, value in config.items()}


def default_folder(settings: dict[str, Any]) -> str:
    """runs/ and the name of the data file."""
    data = settings.get("data") or ["run"]
    name = Path(data if isinstance(data, str) else str(data[0])).name
    return f"runs/{name.split('.')[0] or 'run'}"


def train(settings: dict[str, Any], folder: Any, *, overwrite: bool, resume: bool, source: str) -> int:
    """The run that `settings` describes, in `folder`; also what `edgewise demo` does."""
    from edgewise.tasks.registry import inferred, task
    from edgewise.tasks.run import Run
    from edgewise.train.device import keep_memory

    chosen = task(inferred(settings))
    if resume and folder.is_finished:
        print(f"{folder.path} is finished; there is nothing to resume.")
        print_run(chosen, folder)
        return 0
    try:
        run = Run.prepare(chosen, chosen.job(settings, source), folder, overwrite=overwrite, resume=resume)
        keep_memory()
        with stage("looking at the data"):
            lines = chosen.describe(run.prepared, folder)
        print("\n".join(lines))
        print(where(run.prepared.settings.train))
        sys.stdout.flush()
        run.finish()
    except KeyboardInterrupt:
        if not folder.is_begun:
            raise
        again = command("train", "--resume", "-o", folder.path)
        print(f"edgewise: interrupted; continue with: {again}", file=sys.stderr)
        return 130
    with stage("writing the report"):
        print(after_training(folder))
    print_run(chosen, folder)
    return 0


def where(settings: Any) -> str:
    """Which device a training computes on, and with how many threads."""
    from edgewise.train.device import pick_device

    device, threads = pick_device(settings.device), settings.threads
    counted = plural(threads, "thread")
    return f"training on the CPU with {counted}" if device == "cpu" else f"training on {device}"
