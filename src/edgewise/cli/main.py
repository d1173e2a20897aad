"""`edgewise VERB ...`: finds the verb, runs it, and turns every error on purpose into one line."""

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
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
    "serve": "answer requests: a page to type into, and an interface for programs",
    "report": "write the page about a run, and its pictures",
    "fingerprint": "write the learned vector of each row",
    "generate": "continue a text with a language model",
    "simulate": "simulate bodies under gravity, springs or charges, or the solar system",
    "convert": "turn a Hugging Face checkpoint into a run folder, or the other way round",
    "demo": "build molecules, train on them for about a minute, and show the result",
    "defaults": "print the default settings of a task as a configuration file",
}
"""All verbs; each is a module that is imported when it is called."""
MODULES = {"report": "pictures"}
"""Verbs whose module has another name."""
INTERACTIVE = ("serve", "generate")
"""Verbs that write to the screen as they go, and show no progress beside it."""
READING = ("train", "prepare", "predict", "explain", "serve", "fingerprint", "report")
"""Verbs that read tables."""
OBJECTS_UNSEARCHED = 10_000
"""New objects after which Python looks for those that nothing reaches any more."""


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
    verb: Any = import_module(f"edgewise.cli.{MODULES.get(name, name)}")
    if hasattr(verb, "parser_of"):
        parser = verb.parser_of(words)
    else:
        parser = Parser(prog=f"edgewise {name}", description=verb.DESCRIPTION)
        verb.add_arguments(parser)
    if name in READING:
        from edgewise.learn.tables.options import ReadLimits, TableFormat

        if name != "train":  # which has the format among its settings
            usual = "" if name == "prepare" else " (default: as trained)"
            group = parser.add_argument_group(f"format of tables and texts{usual}")
            add_settings(group, TableFormat, defaults={})
        add_settings(parser.add_argument_group("limits on tables"), ReadLimits)
    parser.set_defaults(run=verb.run if name in INTERACTIVE else watched(verb.run))
    parser.explain_unknown = lambda flag: of_others(flag, name)  # type: ignore[method-assign]
    return parser


def of_others(flag: str, verb: str) -> str:
    """Which tasks, or else which verbs, have a flag that a verb does not have; empty where none has."""
    from edgewise.cli.training import elsewhere
    from edgewise.formatting import listed

    if verb == "train" and (tasks := elsewhere(flag)):
        return tasks
    others = [f"edgewise {name}" for name in VERBS if name != verb and flag in parser_of(name, ()).spellings]
    return f"{flag} belongs to {listed(others)}." if others else ""


def watched(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """A verb whose long stages are shown."""

    def watching(arguments: argparse.Namespace) -> int:
        from edgewise.cli.progress import shown

        with shown():
            return run(arguments)

    return watching


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: The words after `edgewise`; those of the process where it is None.

    Returns:
        The exit code: 0 done, 2 an error that the message explains, 130 stopped by Ctrl-C.
    """
    try:
        return parsed_and_run(sys.argv[1:] if argv is None else list(argv))
    except EdgewiseError as error:
        return fail(str(error))
    except BrokenPipeError:  # whoever read the output went away, as `head` does
        forget_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            return fail(f"{error.filename}: {error.strerror or error}.")
        forget_output()
        return fail(f"the output cannot be written: {error.strerror or error}.")
    except KeyboardInterrupt:
        print("edgewise: interrupted.", file=sys.stderr)
        return 130


def program() -> int:
    """The command line as a process of its own.

    Python looks for cycles that nothing reaches after every 700 new objects, and through all objects once more when it
    ends. Imports make many objects and few such cycles.
    """
    gc.set_threshold(OBJECTS_UNSEARCHED)
    code = main()
    gc.freeze()
    return code


def parsed_and_run(words: Sequence[str]) -> int:
    """Runs the verb that the words name; errors pass through."""
    if not words or words[0].startswith("-"):
        parser = build_parser()
        parser.explain_unknown = lambda flag: of_others(flag, "")  # type: ignore[method-assign]
        if parser.parse_args(words).version:
            from importlib.metadata import version

            print(f"edgewise {version('edgewise')}")
            return 0
        parser.print_help()
        return 2
    name, *rest = words
    if name not in VERBS:
        build_parser().error(f"there is no verb {name}.{did_you_mean(name, VERBS)}")
    arguments = parser_of(name, rest).parse_args(rest)
    with reading(name, vars(arguments)) if name in READING else contextlib.nullcontext():
        code = arguments.run(arguments)
    sys.stdout.flush()  # a full disk is an error of the verb, not of Python while it exits
    return code


@contextlib.contextmanager
def reading(verb: str, given: dict[str, Any]) -> Iterator[None]:
    """The limits on tables and, where a trained model reads them, their format: as typed, else as trained."""
    from edgewise.learn.tables.options import ReadLimits, TableFormat, read_limits, table_format
    from edgewise.learn.training.folder import RunFolder

    limits = {name: given.pop(name) for name in vars(ReadLimits()) if name in given}
    typed = {} if verb == "train" else {name: given.pop(name) for name in vars(TableFormat()) if name in given}
    folder = RunFolder(Path(given.get("folder", "")))
    if "folder" in given and not (folder.is_started or (folder.path / "model.json").is_file()):
        check_order(verb, given["folder"], given.get("data") or next(iter(given.get("inputs", ())), ""))
    known = folder.read_config() if "folder" in given and folder.is_started else {}
    form = {**{name: known[name] for name in vars(TableFormat()) if name in known}, **typed}
    with read_limits(**limits), table_format(TableFormat(**form)):
        yield


def check_order(verb: str, first: str, second: str) -> None:
    """Raise RunFolderError where the run was typed behind the data."""
    from edgewise.errors import RunFolderError
    from edgewise.learn.training.folder import RunFolder

    if second and RunFolder(Path(second)).is_started:
        raise RunFolderError(f"the run comes first, then the data; expected: edgewise {verb} {second} {first}")


def forget_output() -> None:
    """Drops what could not be written: Python would try again, and complain, while it exits."""
    with contextlib.suppress(OSError, ValueError):  # in tests the output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str) -> int:
    """Prints in one line what is wrong; the exit code of an error."""
    print(f"edgewise: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(program())
