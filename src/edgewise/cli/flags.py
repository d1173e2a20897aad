"""Flags made from dataclasses of settings, and the parser that all verbs share."""

import argparse
import dataclasses
import difflib
import math
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from edgewise.errors import SettingError
from edgewise.learn.settings import choices_of, flag_of, helps, is_optional, kinds_of, spelled

METAVARS = {int: "N", float: "X", str: "NAME"}
NEGATIVE = r"-\.?\d"
"""How a negative number begins, which is a value and not a flag."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and which proposes the closest flag for an unknown one."""

    explain_unknown: Callable[[str], str] = staticmethod(lambda flag: "")
    """Returns a note on where a flag unknown to this parser belongs; empty if nowhere."""

    def __init__(self, **details: Any):
        super().__init__(**{"formatter_class": formatter, "allow_abbrev": False, **details})
        # Before Python 3.14 -1e-3 is a flag.
        self._negative_number_matcher = re.compile(NEGATIVE)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The flags and their values; exits with 2 and names all unknown flags if there are any."""
        words = sys.argv[1:] if args is None else list(args)
        # Unknown flags are reported before missing ones: a misspelled flag is often the required one.
        self.check_known(self.unknown_flags(words))
        parsed, unknown = self.parse_known_args(words, namespace)
        self.check_known(unknown[:1])
        return parsed

    def unknown_flags(self, words: Sequence[str]) -> list[str]:
        """The flags among the words that this parser does not have, without duplicates."""
        before_end = words[: words.index("--")] if "--" in words else words
        flags = [word.split("=")[0] for word in before_end if word.startswith("-") and " " not in word]
        spellings = {*self.spellings, "-"}
        unknown = [flag for flag in flags if flag not in spellings and not re.match(NEGATIVE, flag)]
        # -oFILE means -o FILE.
        return list(dict.fromkeys(flag for flag in unknown if flag.startswith("--") or flag[:2] not in spellings))

    def check_known(self, unknown: Sequence[str]) -> None:
        """Exits with 2 if there are unknown words."""
        if unknown:
            self.error(" ".join(map(self.unknown_flag_message, unknown)))

    def unknown_flag_message(self, flag: str) -> str:
        """The message about an unknown flag: where it belongs, or which flag is the closest."""
        if flag.replace("_", "-") not in self.spellings and (other := self.explain_unknown(flag)):
            return other
        if not flag.startswith("-"):
            return f"unexpected word {flag}, behind all that is expected."
        return f"unknown flag {flag}.{did_you_mean(flag, self.spellings)}"

    @property
    def spellings(self) -> list[str]:
        """All flags, including hidden ones."""
        return list(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        """Prints the line and exits with 2."""
        print(f"edgewise: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def formatter(**details: Any) -> Any:
    """The help formatter; imported when it is needed."""
    from rich_argparse import RichHelpFormatter

    RichHelpFormatter.group_name_formatter = lambda name: name[:1].upper() + name[1:]
    return RichHelpFormatter(**details)


def did_you_mean(flag: str, names: Collection[str]) -> str:
    """The closest name, as the end of a message; hyphens and underscores count as equal."""
    plain = flag.replace("_", "-")
    if plain != flag and plain in names:
        return f" Did you mean {plain}?"
    close = difflib.get_close_matches(flag, names, n=1, cutoff=0.75)
    return f" Did you mean {close[0]}?" if close else ""


def add_settings(
    group: Any,
    settings_type: type,
    *,
    defaults: Mapping[str, Any] | None = None,
    leave_out: Collection[str] = (),
    only: Collection[str] | None = None,
    choices: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Adds the flags of a dataclass of settings; a flag that is not typed sets nothing, so that a file can set it.

    Args:
        group: The parser or group to add to.
        settings_type: The dataclass of settings.
        defaults: The defaults that the help shows; None for those of the dataclass.
        leave_out: Fields without a flag.
        only: The fields that get a flag; None for all.
        choices: The choices of fields that have fewer here.
    """
    texts = helps(settings_type)
    for field in dataclasses.fields(settings_type):
        is_wanted = field.name not in leave_out and (only is None or field.name in only)
        if not is_wanted or field.metadata.get("hidden") or flag_of(field) in spellings_of(group):
            continue
        default = field.default if defaults is None else defaults.get(field.name)
        text = help_text(texts.get(field.name, ""), default, field.metadata.get("aliases", ()))
        add_field(group, field, text, choices.get(field.name) or choices_of(field))


def add_field(group: Any, field: "dataclasses.Field[Any]", text: str, choices: Sequence[str]) -> None:
    """Adds the flag of one field, and its aliases."""
    shared: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS}
    if field.type is bool:
        group.add_argument(flag_of(field), action=argparse.BooleanOptionalAction, help=text, **shared)
        return

    types = kinds_of(field.type)
    (value_type,) = {str if member is tuple else member for member in types}
    if tuple in types:
        value_type = next((number for number in (float, int) if number.__name__ in str(field.type)), str)
        shared["nargs"] = "+"

    metavar = (
        "{" + ",".join(map(str, choices)) + "}" if choices else field.metadata.get("metavar") or METAVARS[value_type]
    )
    shared |= {"type": value_type, "metavar": metavar}
    # A setting with one possible value names the task, which the title of the help shows already.
    is_task = len(choices) == 1 and not is_optional(field)
    group.add_argument(flag_of(field), help=argparse.SUPPRESS if is_task else text, **shared)

    if aliases := [
        spelled(name) for name in field.metadata.get("aliases", ()) if spelled(name) not in spellings_of(group)
    ]:
        group.add_argument(*aliases, help=argparse.SUPPRESS, **shared)


def add_molecule_limits(parser: argparse.ArgumentParser) -> None:
    """The flags that change the limits on molecules of a trained model."""
    from edgewise.learn.readers.molecules.limits import MoleculeLimits

    names = [field.name for field in dataclasses.fields(MoleculeLimits)]
    add_settings(parser, MoleculeLimits, defaults=dict.fromkeys(names, "as trained"))
    parser.set_defaults(**dict.fromkeys(names))


def spellings_of(group: Any) -> Collection[str]:
    """The flags that a parser or group has so far."""
    return group._option_string_actions


def help_text(text: str, default: Any, aliases: Sequence[str] = ()) -> str:
    """The docstring of a field as help text, with its default and aliases at the end."""
    if default not in (None, ()):  # then None cannot be meant on the command line
        text = re.sub(r"[;.] None \w+ ([^;.]|\.(?=\d))*", "", text)
    text = text.rstrip(".").replace(". None is ", ". By default ").replace("None is ", "by default ")
    text = text.replace(". None ", ". The default ").replace("None ", "the default ").replace("`", "")
    text = text.replace("%", "%%")
    notes = [] if default in (None, ()) or default is dataclasses.MISSING else [f"default: {shown(default)}"]
    notes += [f"also {', '.join(map(spelled, aliases))}"] if aliases else []
    return f"{text} ({'; '.join(notes)})" if notes else text


def shown(value: Any) -> str:
    """A default as it is typed on the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return " ".join(map(shown, value))
    return f"{value:g}" if isinstance(value, float) and not math.isnan(value) else str(value)


def add_engine_flags(group: Any) -> None:
    """Flags of the engine that runs the workers."""
    absent = {"default": argparse.SUPPRESS}
    group.add_argument(
        "--engine", choices=("local", "ray"), help="local, the default; ray replaces workers that are lost", **absent
    )
    group.add_argument("--num-workers", type=positive, metavar="N", help="workers of --engine ray", **absent)
    group.add_argument("--ray-address", metavar="HOST:PORT", help="a running cluster; else one starts here", **absent)


def require_engine(typed: Mapping[str, Any]) -> None:
    """Raise SettingError if flags of --engine ray are given without it."""
    if extra := [name for name in ("num_workers", "ray_address") if name in typed]:
        raise SettingError(f"{spelled(extra[0])} is a flag of --engine ray; add --engine ray, or drop it.")


def positive(text: str) -> int:
    """Parses a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)
