"""`edgewise VERB ...`: finds the verb, runs it, and turns every error on purpose into one line."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from rich_argparse import RichHelpFormatter

from edgewise.cli import convert, demo, explain, fingerprint, generate, pictures, predict, serve, simulate, train
from edgewise.data.tables.options import ReadLimits, flag, read_limits
from edgewise.errors import EdgewiseError

VERBS = {
    "train": train,
    "predict": predict,
    "explain": explain,
    "serve": serve,
    "report": pictures,
    "fingerprint": fingerprint,
    "generate": generate,
    "simulate": simulate,
    "convert": convert,
    "demo": demo,
}
TALKING = ("serve", "generate")
"""Verbs that write to the screen as they go, and show no progress beside it."""


READING = ("train", "predict", "explain", "serve", "fingerprint", "report")
"""Verbs that read tables."""
LIMITS = {
    "max_columns": f"columns of a table (default: {ReadLimits().max_columns:,})",
    "max_row_bytes": f"bytes of a row (default: {ReadLimits().max_row_bytes:,})",
    "max_unpack_ratio": f"bytes that a byte of a packed file becomes (default: {ReadLimits().max_unpack_ratio})",
    "max_unpacked_gb": "GB that an .npz unpacks to (default: half of the free memory)",
}
"""What a table may have at most; more is refused before it fills the memory."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose help may have something more at its end."""

    more: Callable[[], str] | None = None
    """What stands there, made when it is asked for."""

    def format_help(self) -> str:
        """The help, and what more there is."""
        return super().format_help() + ("" if self.more is None else f"\n{self.more()}\n")

    def error(self, message: str) -> NoReturn:
        """Prints the line and exits with 2."""
        print(f"edgewise: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all verbs."""
    parser = Parser(
        prog="edgewise",
        description="Attention over words and edges: from a file to a trained model in one command.",
        epilog="Example: edgewise train data.csv --smiles-columns smiles --target-columns y -o runs/first",
        formatter_class=RichHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", parser_class=Parser)
    for name, verb in VERBS.items():
        added = verbs.add_parser(
            name,
            help=verb.SUMMARY,
            description=verb.DESCRIPTION,
            formatter_class=RichHelpFormatter,
            allow_abbrev=False,
        )
        verb.add_arguments(added)
        if name in READING:
            add_limits(added)
        added.set_defaults(run=verb.run if name in TALKING else watched(verb.run))
    return parser


def add_limits(parser: argparse.ArgumentParser) -> None:
    """The flags that let larger tables in; one that is not typed leaves no trace."""
    group = parser.add_argument_group("limits on tables")
    for name, what in LIMITS.items():
        group.add_argument(flag(name), dest=name, type=int, metavar="N", default=argparse.SUPPRESS, help=what)


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
        return parsed_and_run(argv)
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


def parsed_and_run(argv: Sequence[str] | None) -> int:
    """Runs the verb that the words name; errors pass through."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if arguments.version:
        from importlib.metadata import version

        print(f"edgewise {version('edgewise')}")
        return 0
    if not hasattr(arguments, "run"):
        parser.print_help()
        return 2
    limits = {name: vars(arguments).pop(name) for name in LIMITS if name in vars(arguments)}
    with read_limits(**limits):
        code = arguments.run(arguments)
    sys.stdout.flush()  # a full disk is an error of the verb, not of Python while it exits
    return code


def forget_output() -> None:
    """Drops what could not be written: Python would try again, and complain, while it exits."""
    with contextlib.suppress(OSError, ValueError):  # in tests the output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str) -> int:
    """Says in one line what is wrong; the exit code of an error."""
    print(f"edgewise: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
