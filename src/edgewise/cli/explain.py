"""`edgewise explain`: what a model predicts for an input, where it attended, and what really changes its prediction."""

import argparse
import json
import math
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cli.flags import add_molecule_limits
from edgewise.cli.output import check_output, write
from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.progress import counted
from edgewise.learn.tables.options import TABLES, TableFormat

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgewise.explain.explanation import Explanation, TargetPrediction
    from edgewise.learn.tasks.explainer import Explainer

DESCRIPTION = (
    "Explain predictions of a model of texts, molecules, graphs, their nodes, edges or links, of the next token of a "
    "text, of the tags of a sentence, or of its translation: the prediction, where the model attended, and beside it "
    "what changes the prediction. INPUT is a text, a SMILES, the name of a node or graph, or the two nodes of an edge "
    "or a link (where the model reads several columns, a word for each), or a table of rows; without one, test rows of "
    "the run are explained, where it has a table of them. With every explanation is printed how well each method "
    "agrees with occlusion (of a molecule, with removal), and how fast the prediction falls when what it calls "
    "important is removed."
)
FORMATS = (".html", ".svg", ".png", ".json")
LINES = (".txt", ".txt.gz")
MAX_PREDICTIONS = 30
"""The most predictions of one row that are printed."""
DEFAULT_ROWS = 10
"""How many rows of a table are explained by default."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "inputs", nargs="*", metavar="INPUT", help="a text, a SMILES, a node, or a table (default: the run's test rows)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"{', '.join(FORMATS)}, or - for the screen, where JSON is usual (default: explanation.html)",
    )
    parser.add_argument("--format", choices=[end[1:] for end in FORMATS], help="(default: as the output's name ends)")
    parser.add_argument("--rows", nargs="+", type=int, metavar="N", help="of the table, counted from 0")
    parser.add_argument(
        "--values", nargs="+", metavar="COLUMN=X", help="the numbers of the row, such as temperature=298 pressure=1"
    )
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="what is explained (default: the first target); of a sentence with tags a word, of a translation a token, "
        "or its place",
    )
    parser.add_argument(
        "--label", metavar="CLASS", help="the class, tag or next token that is explained (default: the predicted one)"
    )
    parser.add_argument(
        "--method",
        nargs="+",
        metavar="NAME",
        help="methods by name, the one that is shown first in front, such as occlusion integrated-gradients; options "
        "follow a colon, as in shapley:samples=64; an unknown name lists all (default: the cheap ones)",
    )
    parser.add_argument("--top", type=int, metavar="N", help="keep the strongest weights of each token, atom or node")
    add_molecule_limits(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace the output file")


def run(arguments: argparse.Namespace) -> int:
    """Explains, writes, and prints how faithful the explanations are."""
    if arguments.top is not None and arguments.top < 1:
        raise SettingError(f"--top is {arguments.top}; expected at least 1.")

    table = table_of(arguments)
    suffix = output_of(arguments, table)

    from edgewise.learn.tasks.explainer import Explainer

    limits = {"max_atoms": arguments.max_atoms, "molecule_timeout": arguments.molecule_timeout}
    explainer = Explainer.open(arguments.folder, **limits)
    chosen = {"target": arguments.target, "label": arguments.label, "top": arguments.top}
    if arguments.method is not None:
        chosen["methods"] = arguments.method

    limit = 1 if suffix in (".svg", ".png") else None
    if table is not None:
        explanations = of_table(explainer, table, arguments, chosen, limit)
    else:
        check_inputs(explainer, arguments.inputs, arguments.folder)
        rows = typed_rows(explainer, arguments.inputs, values_of(explainer, arguments.values))
        check_count(len(rows), limit)
        explanations = [explainer.explain(row, **chosen) for row in counted(rows, "explaining")]

    write(content_of(explanations, suffix, Path(arguments.folder).name), arguments.output, suffix)
    # Output on stdout is for programs; notes go to stderr.
    stream = sys.stderr if arguments.output == "-" else sys.stdout
    shared = shared_notes(explanations)
    for explanation in explanations:
        print("\n".join(lines_of(explanation, leave_out=shared)), file=stream)

    for note, count in shared.items():
        all_or_some = "all" if count == len(explanations) else f"{count:,} of"
        print(f"{all_or_some} {len(explanations):,} explanations: {note}", file=stream)
    if arguments.output != "-":
        many = "explanation" if len(explanations) == 1 else "explanations"
        print(f"{len(explanations)} {many}: {arguments.output}")

    return 0


def table_of(arguments: argparse.Namespace) -> str | None:
    """The path of the table to explain, by default that of the run's test rows; None for inputs typed as words."""
    if not arguments.inputs:
        from edgewise.learn.training.folder import RunFolder

        path = RunFolder.finished(arguments.folder).path / "test_predictions.csv"
        if not path.is_file():
            raise SettingError(
                f"{arguments.folder} has no table of test rows; name what to explain: an input in quotes, or a file of "
                f"rows ({', '.join(TABLES)}; for texts also {LINES[0]}, one a line)."
            )
        return str(path)

    is_table = len(arguments.inputs) == 1 and arguments.inputs[0].lower().endswith((*TABLES, *LINES))
    if arguments.rows and not is_table:
        raise SettingError("--rows is for tables, and the input is not one; drop --rows.")
    return arguments.inputs[0] if is_table else None


def check_inputs(explainer: "Explainer", inputs: "Sequence[str]", run: str) -> None:
    """Raise SettingError where what was typed is data of other kinds than a table of rows."""
    from edgewise.learn.readers.graphs.file import is_graph_file
    from edgewise.learn.readers.store.layout import is_store
    from edgewise.learn.tasks.scores import command
    from edgewise.learn.training.folder import RunFolder

    for word in filter(os.path.exists, inputs):
        kinds = {
            "a store": is_store(word),
            "a graph file": is_graph_file(word),
            "a run": RunFolder(Path(word)).is_started,
            "a file": explainer.kind == "text" and os.path.isfile(word) and bool(Path(word).suffix),
        }
        if kind := next((kind for kind, is_kind in kinds.items() if is_kind), None):
            names = [field["name"].upper() for field in explainer.fields if field["type"] != "number"]
            raise SettingError(
                f"{word} is {kind}, which explain cannot read as an input; name one, as in "
                f"{command('explain', run, *names)}, or a table of them ({', '.join(TABLES)}; of texts also "
                f"{LINES[0]}, one a line)."
            )


def output_of(arguments: argparse.Namespace, table: str | None) -> str:
    """The ending of the output file; without -o, the file gets a default name."""
    if arguments.output == "-":
        if arguments.format == "png":
            raise SettingError("--format png is binary and cannot be printed; name a file with -o.")
        return f".{arguments.format or 'json'}"
    if arguments.output is None:
        arguments.output = f"explanation.{arguments.format or 'html'}"
    arguments.data = table
    return check_output(arguments, FORMATS if arguments.format is None else (f".{arguments.format}",))


def values_of(explainer: "Explainer", assignments: "Sequence[str] | None") -> dict[str, str]:
    """The numbers that --values sets, by column."""
    number_names = [field["name"] for field in explainer.fields if field["type"] == "number"]
    values = {}
    for assignment in assignments or ():
        # The longest name that fits: a column may be called `a=b` beside another called `a`.
        name = max((name for name in number_names if assignment.startswith(f"{name}=")), key=len, default=None)
        if name is None:
            expected = ", ".join(f"{name}=…" for name in number_names) or "none: the model reads no numbers"
            raise SettingError(f"--values has {assignment!r}; expected {expected}.")
        if name in values:
            raise SettingError(f"--values sets {name} twice; set it once.")
        values[name] = assignment[len(name) + 1 :]
    return values


def typed_rows(explainer: "Explainer", words: "Sequence[str]", values: dict[str, str]) -> list[dict[str, Any]]:
    """Rows from words of the command line, one for each column that is not a number."""
    names = [field["name"] for field in explainer.fields if field["type"] != "number"]
    missing = [field["name"] for field in explainer.fields if field["type"] == "number" and field["name"] not in values]
    if not names or len(words) % len(names):
        raise SettingError(
            f"{plural(len(words), 'input')} given, but the model reads {len(names)} for each row: "
            f"{', '.join(names)}; put a text with "
            "spaces in quotes."
        )

    if missing:
        example = " ".join(f"{name}=…" for name in missing)
        raise SettingError(f"the model also reads {', '.join(missing)}; set it with --values {example}.")

    starts = range(0, len(words), len(names))
    return [{**dict(zip(names, words[start : start + len(names)])), **values} for start in starts]


def check_count(count: int, limit: int | None) -> None:
    """Raise SettingError if a picture, which shows one explanation, would have to show several."""
    if limit is not None and count > limit:
        raise SettingError(f"a picture shows one explanation, not {count}; name one row (--rows 0), or write .html.")


def of_table(
    explainer: "Explainer", path: str, arguments: argparse.Namespace, chosen: dict[str, Any], limit: int | None
) -> "list[Explanation]":
    """Explanations of rows of a table; by default of the first readable rows."""
    values = values_of(explainer, arguments.values)
    # A run writes its own tables in one format, whatever the format of its data.
    table_format = None if arguments.inputs else TableFormat()
    rows = rows_of(path, [field["name"] for field in explainer.fields], values, table_format)
    row_numbers = arguments.rows if arguments.rows is not None else list(range(min(len(rows), DEFAULT_ROWS)))
    check_count(len(row_numbers), limit)
    if len(row_numbers) < len(rows) and arguments.rows is None:
        print(f"the first {DEFAULT_ROWS} of {len(rows):,} rows are explained; --rows names others", file=sys.stderr)
    if beyond := [row_number for row_number in row_numbers if not 0 <= row_number < len(rows)]:
        raise SettingError(f"--rows has {beyond[0]}; {path} has the rows 0 to {len(rows) - 1}.")

    explanations = []
    for row_number in counted(row_numbers, "explaining"):
        try:
            explanations.append(explainer.explain(rows[row_number], **chosen))
        except DataError as error:
            if arguments.rows is not None or len(rows) == 1:
                raise DataError(f"{path}, row {row_number}: {error}") from error
            print(f"row {row_number} is skipped: {error}", file=sys.stderr)
    if not explanations:
        raise DataError(f"{path}: none of its first {len(row_numbers)} rows can be read; see --rows.")

    return explanations


def rows_of(
    path: str, names: "Sequence[str]", values: dict[str, str], table_format: "TableFormat | None" = None
) -> list[dict[str, Any]]:
    """The rows of a table, or the lines of a text, with the columns of the model."""
    from edgewise.learn.tables.read import check_columns_exist, read_cells

    columns = [name for name in names if name not in values]
    if path.lower().endswith(LINES):
        from edgewise.learn.readers.texts.tokenizer import read_text
        from edgewise.learn.tables.decode import lines_of

        if len(columns) != 1:
            raise SettingError(
                f"{path} has one text a line, but the model reads {', '.join(columns)}; give a table instead."
            )
        return [{columns[0]: line, **values} for line in lines_of(read_text(path)) if line.strip()]

    cells = read_cells(path, table_format)
    check_columns_exist(cells, tuple(columns))
    return [{**row, **values} for row in cells.frame[columns].to_dict("records")]


def content_of(explanations: "Sequence[Explanation]", suffix: str, name: str) -> str | bytes:
    """The content of the output file."""
    if suffix == ".json":
        return json.dumps([explanation.to_json() for explanation in explanations], ensure_ascii=False, indent=1) + "\n"
    if suffix == ".html":
        from edgewise.view.explanation import explanation_page

        title = f"{name}: {explanations[0].title}" if len(explanations) == 1 else f"{name} explained"
        return explanation_page(explanations, title=title)
    from edgewise.view.picture import explanation_png, explanation_svg

    return explanation_svg(explanations[0]) if suffix == ".svg" else explanation_png(explanations[0])


def shared_notes(explanations: "Sequence[Explanation]") -> dict[str, int]:
    """Notes that several explanations share, and how many."""
    counts = Counter(note for explanation in explanations for note in dict.fromkeys(explanation.notes))
    return {note: count for note, count in counts.items() if count > 1}


def lines_of(explanation: "Explanation", leave_out: "Collection[str]" = ()) -> list[str]:
    """The predictions, how faithful the attributions are, and the notes except those to leave out."""
    import numpy as np

    from edgewise.explain.faithfulness import reference_among
    from edgewise.explain.numbers import formatted

    title = " ".join(explanation.title.split())
    shown, num_more = explanation.predictions[:MAX_PREDICTIONS], len(explanation.predictions) - MAX_PREDICTIONS

    lines = [f"{title}: {'; '.join(map(prediction_words, shown))}{f'; and {num_more:,} more' if num_more > 0 else ''}"]
    for attribution in explanation.attributions:
        if not math.isnan(attribution.baseline):
            added = formatted(float(np.nansum(attribution.values)))
            baseline = explanation.in_words(attribution.baseline)
            lines.append(f"  {attribution.name}: baseline {baseline}, and {added} by all units")
    faithfulness = explanation.faithfulness
    if faithfulness is None:
        lines.append("  the faithfulness of the explanation was not computed")
    else:
        agreement = ", ".join(f"{name} {formatted(value)}" for name, value in faithfulness.agreement.items())
        reference = reference_among({attribution.name for attribution in explanation.attributions})
        lines.append(
            f"  agreement with {reference} in {explanation.explained} (1 is the same order): {agreement or 'none'}"
        )
        areas = ", ".join(f"{removal.method} {formatted(removal.area)}" for removal in faithfulness.removals)
        lines.append(f"  area between the most and the least important removed first (0 is chance): {areas or 'none'}")

    return [*lines, *(f"  {note}" for note in explanation.notes if note not in leave_out)]


def prediction_words(prediction: "TargetPrediction") -> str:
    """The prediction of a target, in words."""
    from edgewise.explain.numbers import formatted

    if prediction.label and not prediction.probabilities:
        return f"{prediction.name} is {prediction.label}"
    if prediction.label:
        share = prediction.probabilities.get(prediction.label, math.nan)
        return f"{prediction.name} is {prediction.label} ({formatted(share)})"
    words = f"{prediction.name} {prediction.in_words(prediction.value)}"
    if not math.isnan(prediction.std):
        words += f" ± {formatted(prediction.std)}"
    if not math.isnan(prediction.low):
        words += f" ({prediction.in_words(prediction.low)} to {prediction.in_words(prediction.high)})"
    return words
