"""`edgewise train` over a text: what it prints, and how far it is."""

from typing import TYPE_CHECKING, Any

from edgewise.cli.next_step import command, print_next
from edgewise.cli.report import number, print_table, training_line
from edgewise.plural import plural
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.language.run import LanguageRun


def asked(settings: dict[str, Any], source: str) -> "tuple[type[LanguageRun], Any]":
    """The kind of run, and its job."""
    from edgewise.tasks.language.job import language_job
    from edgewise.tasks.language.run import LanguageRun

    return LanguageRun, language_job(settings, source)


def print_data(run: "LanguageRun") -> None:
    """The text in a line."""
    counts = {part: len(numbers) for part, numbers in run.parts.items()}
    print(
        f"{', '.join(run.job.data)}: {plural(run.num_characters, 'character')}; {counts['training']:,} training and "
        f"{plural(counts['validation'], 'validation token')} out of a vocabulary of {len(run.tokenizer):,}"
    )
    if not counts["validation"]:
        print("  no validation text: nothing says how good the model is")


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside counting pairs of tokens, and the next command."""
    metrics = folder.read_json("metrics.json")
    if "validation" in metrics:
        companions = {"edgewise": metrics["validation"], "pairs of tokens": metrics["baselines"]["pairs"]["validation"]}
        print_table(
            f"validation text: {plural(metrics['tokens']['validation'], 'token')}",
            ["", "loss", "perplexity"],
            [[name, number(scores["loss"]), number(scores["perplexity"])] for name, scores in companions.items()],
        )
    print(training_line(metrics))
    print_next(folder, command("generate", folder.path))
