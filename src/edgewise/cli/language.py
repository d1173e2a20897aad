"""`edgewise train` over a text: what it prints, and how far it is."""

import sys
from typing import Any

from edgewise.cli.report import number, print_table, progress
from edgewise.train.folder import RunFolder


def learn(settings: dict[str, Any], folder: RunFolder, *, overwrite: bool, resume: bool, source: str) -> None:
    """Learns a text."""
    from edgewise.estimators.language_job import language_job
    from edgewise.estimators.language_run import finish_text, prepare_text
    from edgewise.train.device import keep_memory

    keep_memory()
    prepared = prepare_text(language_job(settings, source), folder, overwrite=overwrite, resume=resume)
    counts = {part: len(numbers) for part, numbers in prepared.parts.items()}
    print(
        f"{', '.join(prepared.job.data)}: {prepared.num_characters:,} characters; {counts['training']:,} training and "
        f"{counts['validation']:,} validation tokens out of a vocabulary of {len(prepared.tokenizer):,}"
    )
    if not counts["validation"]:
        print("  no validation text: nothing says how good the model is")
    sys.stdout.flush()
    with progress(1) as show_progress:
        finish_text(prepared, None if show_progress is None else lambda *steps: show_progress(0, *steps))


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside counting pairs of tokens, and the next command."""
    metrics = folder.read_json("metrics.json")
    if "validation" in metrics:
        companions = {"edgewise": metrics["validation"], "pairs of tokens": metrics["baselines"]["pairs"]["validation"]}
        print_table(
            f"validation text: {metrics['tokens']['validation']:,} tokens",
            ["", "loss", "perplexity"],
            [[name, number(scores["loss"]), number(scores["perplexity"])] for name, scores in companions.items()],
        )
    print(f"{metrics['parameters']:,} parameters, {metrics['steps']:,} steps in {metrics['training_seconds']:.0f} s")
    print(f'The run is in {folder.path}. Next: edgewise generate {folder.path} --prompt "..."')
