"""`edgewise train --task-type masked`: what it prints, and how far it is."""

from typing import TYPE_CHECKING, Any

from edgewise.cli.next_step import command, free_name, print_next
from edgewise.cli.report import number, print_table, training_line
from edgewise.plural import plural
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.masked.run import MaskedRun


def asked(settings: dict[str, Any], source: str) -> "tuple[type[MaskedRun], Any]":
    """The kind of run, and its job."""
    from edgewise.tasks.masked.job import masked_job
    from edgewise.tasks.masked.run import MaskedRun

    return MaskedRun, masked_job(settings, source)


def print_data(run: "MaskedRun") -> None:
    """The texts in a few lines: what was rejected and why, the parts."""
    texts, parts = run.texts, run.parts
    rejected = f", {plural(len(texts.rejected), 'empty cell')} rejected" if texts.rejected else ""
    print(
        f"{', '.join(texts.files)}: {plural(len(texts.texts), 'text')}{rejected}; a vocabulary of "
        f"{len(run.tokenizer):,}"
    )
    if texts.rejected:
        first = texts.rejected[0]
        print(f"  the first in line {first.line}, column {first.column!r} (all in {run.folder.path / 'rejected.csv'})")
    train, val = parts["train"], parts["val"]
    print(
        f"{train.num_texts:,} training and {plural(val.num_texts, 'validation text')}; {len(train.numbers):,} and "
        f"{plural(len(val.numbers), 'token')}"
    )
    if cut := train.num_cut + val.num_cut:
        context = run.job.model.context
        print(
            f"  {plural(cut, 'text is', 'texts are')} longer than --context {context} and read in pieces of that length"
        )
    if not val.num_texts:
        print("  no validation texts: nothing says how good the model is")


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside those of counting tokens, and the next command."""
    metrics = folder.read_json("metrics.json")
    if "validation" in metrics:
        known = metrics["baselines"]["frequency"]["validation"]
        print_table(
            f"validation texts: {plural(metrics['tokens']['hidden'], 'hidden token')}",
            ["", "loss", "perplexity", "accuracy"],
            [
                [name, *(number(scores[what]) for what in ("loss", "perplexity", "accuracy"))]
                for name, scores in {"edgewise": metrics["validation"], "most frequent": known}.items()
            ],
        )
    print(training_line(metrics))
    data = folder.read_config()["data"][-1]
    print_next(folder, command("fingerprint", folder.path, data, "-o", free_name("vectors.npz")))
