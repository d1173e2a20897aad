"""`edgewise train --task-type masked`: what it prints, and how far it is."""

import sys
from typing import Any

from edgewise.cli.report import number, print_table, progress
from edgewise.train.folder import RunFolder


def learn(settings: dict[str, Any], folder: RunFolder, *, overwrite: bool, resume: bool, source: str) -> None:
    """Learns to tell hidden tokens."""
    from edgewise.estimators.masked_job import masked_job
    from edgewise.estimators.masked_run import finish_masked, prepare_masked
    from edgewise.train.device import keep_memory

    keep_memory()
    prepared = prepare_masked(masked_job(settings, source), folder, overwrite=overwrite, resume=resume)
    texts, parts = prepared.texts, prepared.parts
    rejected = f", {len(texts.rejected):,} empty cells rejected" if texts.rejected else ""
    print(
        f"{', '.join(texts.files)}: {len(texts.texts):,} texts{rejected}; a vocabulary of {len(prepared.tokenizer):,}"
    )
    if texts.rejected:
        first = texts.rejected[0]
        print(f"  the first in line {first.row}, column {first.column!r} (all in {folder.path / 'rejected.csv'})")
    train, val = parts["train"], parts["val"]
    print(
        f"{train.num_texts:,} training and {val.num_texts:,} validation texts; {len(train.numbers):,} and "
        f"{len(val.numbers):,} tokens"
    )
    if cut := train.num_cut + val.num_cut:
        context = prepared.job.model.context
        print(f"  {cut:,} texts are longer than --context {context} and are read in pieces of that length")
    if not val.num_texts:
        print("  no validation texts: nothing says how good the model is")
    sys.stdout.flush()
    with progress(1) as show_progress:
        finish_masked(prepared, None if show_progress is None else lambda *steps: show_progress(0, *steps))


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside those of counting tokens."""
    metrics = folder.read_json("metrics.json")
    if "validation" in metrics:
        known = metrics["baselines"]["frequency"]["validation"]
        print_table(
            f"validation texts: {metrics['tokens']['hidden']:,} hidden tokens",
            ["", "loss", "perplexity", "accuracy"],
            [
                [name, *(number(scores[what]) for what in ("loss", "perplexity", "accuracy"))]
                for name, scores in {"edgewise": metrics["validation"], "most frequent": known}.items()
            ],
        )
    print(f"{metrics['parameters']:,} parameters, {metrics['epochs']} epochs in {metrics['training_seconds']:.0f} s")
    print(f"The run is in {folder.path}.")
