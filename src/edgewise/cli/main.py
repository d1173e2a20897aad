"""`edgewise VERB ...`: finds the verb, runs it, and turns every error on purpose into one line."""

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from edgewise.cli.flags import Parser, add_settings, did_you_mean
from edgewise.errors import EdgewiseError

VERBS = {
    "train": "train a model on molecules, texts, graphs, series or motion",
    "prepare": "put a graph of any size into a store that is mapped into memory",
    "verify": "check the files of such a store",
    "predict": "predict the rows of a new table",
    "explain": "show what a model attends to, and what really changes its prediction",
    "serve": "serve predictions: a web page, and an HTTP API for programs",
    "report": "write the page about a run, and its pictures",
    "fingerprint": "write the learned vector of each row",
    "generate": "continue a text with a language model",
    "simulate": "simulate bodies under gravity, springs or charges, or the solar system",
    "convert": "turn a Hugging Face checkpoint into a run folder, or the other way round",
    "demo": "build molecules, train on them for about a minute, and show the result",
    "defaults": "print the default settings of a task as a configuration file",
}
"""All verbs; each is a module that is imported when it is called."""
INTERACTIVE = ("serve", "generate")
"""Verbs that print as they go, and show no progress bars."""
TABLE_VERBS = ("train", "prepare", "predict", "explain", "serve", "fingerprint", "report")
"""Verbs that read tables."""
GC_THRESHOLD = 10_000
"""New objects after which Python runs the garbage collector."""


def build_parser() -> Parser:
    """The parser of `edgewise` itself, which lists the verbs."""
    parser = Parser(
        prog="edgewise",
        usage="edgewise [--version] VERB ...",
        description="Attention over words and edges: from a file to a trained model in one command.",
        epilog="Example: edgewise train molecules data.csv --smiles-columns smiles --target-columns y -o runs/first",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    verbs = parser.add_argument_group("verbs (edgewise VERB --help shows the flags of one)")
    for name, summary in VERBS.items():
        verbs.add_argument(name, nargs="?", metavar=name, help=summary)
    return parser


def parser_of(name: str, words: Sequence[str]) -> Parser:
    """The parser of a verb; `train` has one for each task."""
    verb: Any = import_module(f"edgewise.cli.{name}")
    if hasattr(verb, "parser_of"):
        parser = verb.parser_of(words)
    else:
        parser = Parser(prog=f"edgewise {name}", description=verb.DESCRIPTION)
        verb.add_arguments(parser)

    if name in TABLE_VERBS:
        from edgewise.learn.tables.options import ReadLimits, TableFormat

        if name != "train":  # whose settings include the format
            usual = "" if name == "prepare" else " (default: as trained)"
            group = parser.add_argument_group(f"format of tables and texts{usual}")
            add_settings(group, TableFormat, defaults={})
        add_settings(parser.add_argument_group("limits on tables"), ReadLimits)

    parser.set_defaults(run=verb.run if name in INTERACTIVE else watched(verb.run))
    parser.explain_unknown = lambda flag: flag_owners(flag, name)  # type: ignore[method-assign]
    return parser


def flag_owners(flag: str, verb: str) -> str:
    """A note on the tasks, or else the verbs, that have a flag; empty if there are none."""
    from edgewise.cli.training import tasks_note
    from edgewise.errors import listed

    if verb == "train" and (tasks := tasks_note(flag)):
        return tasks
    others = [f"edgewise {name}" for name in VERBS if name != verb and flag in parser_of(name, ()).spellings]
    return f"{flag} is a flag of {listed(others)}." if others else ""


def watched(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Wraps a verb so that its long stages are shown."""

    def run_watched(arguments: argparse.Namespace) -> int:
        from edgewise.cli.progress import shown

        with shown():
            return run(arguments)

    return run_watched


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: The words after `edgewise`; None for those of the process.

    Returns:
        The exit code: 0 done, 2 an error that the message explains, 130 stopped by Ctrl-C, 141 stopped because the
        reader of the output has closed it, as `head` does.
    """
    try:
        return parsed_and_run(sys.argv[1:] if argv is None else list(argv))
    except EdgewiseError as error:
        return fail(str(error))
    except BrokenPipeError:
        # What the shell reports of a program that SIGPIPE ends. A script must not take a run for finished.
        forget_output()
        return 141
    except OSError as error:
        if error.filename is not None:
            return fail(f"{error.filename}: {error.strerror or error}.")
        forget_output()
        return fail(f"the output cannot be written: {error.strerror or error}.")
    except KeyboardInterrupt:
        print("edgewise: interrupted.", file=sys.stderr)
        return 130


def program() -> int:
    """The command line as a separate process.

    By default Python collects garbage after every 700 new objects, and once more when it exits. Imports create many
    objects and little garbage, so it runs less often here.
    """
    gc.set_threshold(GC_THRESHOLD)
    code = main()
    gc.freeze()
    return code


def parsed_and_run(words: Sequence[str]) -> int:
    """Runs the verb that the words name; errors pass through."""
    if not words or words[0].startswith("-"):
        parser = build_parser()
        parser.explain_unknown = lambda flag: flag_owners(flag, "")  # type: ignore[method-assign]
        if parser.parse_args(words).version:
            from importlib.metadata import version

            print(f"edgewise {version('edgewise')}")
            return 0
        parser.print_help()
        return 2

    name, *verb_words = words
    if name not in VERBS:
        build_parser().error(f"unknown verb {name}.{did_you_mean(name, VERBS)}")
    arguments = parser_of(name, verb_words).parse_args(verb_words)
    with reading(name, vars(arguments)) if name in TABLE_VERBS else contextlib.nullcontext():
        code = arguments.run(arguments)
    try:
        sys.stdout.flush()  # so that a full disk is an error of the verb, not of Python while it exits
    except BrokenPipeError:  # all is done, and the reader has seen enough
        forget_output()
    return code


@contextlib.contextmanager
def reading(verb: str, flags: dict[str, Any]) -> Iterator[None]:
    """Applies the limits on tables and, for a trained model, their format: as typed, else as trained."""
    from edgewise.learn.settings import to_field_type
    from edgewise.learn.tables.options import ReadLimits, TableFormat, read_limits, table_format
    from edgewise.learn.training.document import invalid_as_run_error
    from edgewise.learn.training.folder import RunFolder

    limits = {name: flags.pop(name) for name in vars(ReadLimits()) if name in flags}
    typed = {} if verb == "train" else {name: flags.pop(name) for name in vars(TableFormat()) if name in flags}
    folder = RunFolder(Path(flags.get("folder", "")))
    if "folder" in flags and not (folder.is_started or (folder.path / "model.json").is_file()):
        check_order(verb, flags["folder"], flags.get("data") or next(iter(flags.get("inputs", ())), ""))
    config = folder.read_config() if "folder" in flags and folder.is_started else {}
    with invalid_as_run_error(folder.path / "config.toml"):
        format_fields = [field for field in fields(TableFormat) if field.name in config]
        options = {field.name: to_field_type("config.toml", field, config[field.name]) for field in format_fields}
        as_trained = TableFormat(**options)
    with read_limits(**limits), table_format(replace(as_trained, **typed)):
        yield


def check_order(verb: str, first: str, second: str) -> None:
    """Raise RunFolderError if the run was typed after the data."""
    from edgewise.errors import RunFolderError
    from edgewise.learn.training.folder import RunFolder

    if second and RunFolder(Path(second)).is_started:
        raise RunFolderError(f"the run comes first, then the data; expected: edgewise {verb} {second} {first}")


def forget_output() -> None:
    """Discards what could not be written: Python would try again, and print an error, while it exits."""
    with contextlib.suppress(OSError, ValueError):  # in tests the output is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str) -> int:
    """Prints the error in one line; returns the exit code of an error."""
    print(f"edgewise: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(program())
