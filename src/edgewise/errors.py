"""Every error that Edgewise raises on purpose, and words of messages: counts and lists of names.

EdgewiseError
├── ShapeError(ValueError)               an axis has the wrong size, or a tensor the wrong rank or dtype
├── UnsupportedError(NotImplementedError) a backend, layer or model does not support a call; the message says why
├── DataError(ValueError)                a file, row or column cannot be used; the message names the place
│   └── CellTypeError(TypeError)         a value is neither a number nor text
├── SettingError(ValueError)             an option has a value it cannot have
├── RunFolderError(RuntimeError)         a run folder is missing, incomplete, newer, or would be overwritten
├── WriteError(OSError)                  a file cannot be written: a full disk, no permission
├── ProcessGroupError(RuntimeError)      another process of a training over several ended or failed
└── MissingExtraError(ImportError)       an optional package is not installed; the message says which extra
"""

import contextlib
import errno
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set


class EdgewiseError(Exception):
    """The base class: `except EdgewiseError` catches every error that Edgewise raises on purpose."""


class ShapeError(EdgewiseError, ValueError):
    """An axis has the wrong size, or a tensor the wrong rank or dtype."""


class UnsupportedError(EdgewiseError, NotImplementedError):
    """A backend that was chosen by name, a layer or a model does not support a call; the message says why."""


class DataError(EdgewiseError, ValueError):
    """A file, row or column cannot be used; the message names the place and the remedy."""


class CellTypeError(DataError, TypeError):
    """A value is neither a number nor text; scikit-learn expects a TypeError for it."""


class SettingError(EdgewiseError, ValueError):
    """An option has a value it cannot have; the message lists the values it can."""


class RunFolderError(EdgewiseError, RuntimeError):
    """A run folder is missing, incomplete, of a newer format, or would be overwritten."""


class WriteError(EdgewiseError, OSError):
    """A file cannot be written: a full disk, no permission; what was there before is unchanged.

    Args:
        path: The file.
        error: The error of the operating system; its `errno` is kept.
    """

    def __init__(self, path: str | os.PathLike[str], error: OSError):
        reason = (error.strerror or str(error)).rstrip(".")
        remedy = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            remedy = "; free some space, or write to another disk"
        super().__init__(f"{os.fspath(path)} cannot be written: {reason}{remedy}.")
        self.errno = error.errno


class ProcessGroupError(EdgewiseError, RuntimeError):
    """Another process of a training over several processes ended or failed; the checkpoints are intact."""


class MissingExtraError(EdgewiseError, ImportError):
    """An optional package is not installed; the message names the extra that installs it."""

    def __init__(self, package: str, extra: str):
        super().__init__(f"{package} is not installed: pip install 'edgewise[{extra}]'.")


@contextlib.contextmanager
def warned_once() -> Iterator[None]:
    """Issues each distinct warning of its block once, after the block."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text, category in dict.fromkeys((str(warning.message), warning.category) for warning in caught):
        warnings.warn(text, category, stacklevel=3)


def refuse_single_text(what: str, values: object) -> None:
    """Raise where one text, another single value or an unordered set is given for several texts: Python would take the
    characters of the text, the keys of a dictionary, or a set in any order.

    Args:
        what: The argument, for the message.
        values: What should be a sequence of texts.

    Raises:
        DataError: It is something else.
    """
    if getattr(values, "ndim", None) == 0 and hasattr(values, "item"):  # an array without axes holds one value
        values = values.item()
        if not isinstance(values, str | bytes):
            raise DataError(f"{what} is one value, {values!r}, where several are expected; put it into a list.")
    if isinstance(values, str | bytes):
        shown = repr(values) if len(values) <= 40 else f"{values[:37]!r}…"
        raise DataError(f"{what} is one text, {shown}, where several are expected; put it into a list.")
    if isinstance(values, Iterator):
        raise DataError(f"{what} is a {type(values).__name__}, which can be read only once; put it into a list.")
    is_single = values is not None and not any(hasattr(values, name) for name in ("__iter__", "__len__", "__array__"))
    if is_single or isinstance(values, Mapping | Set):
        raise DataError(
            f"{what} is a {type(values).__name__}, where a sequence is expected; give a list, an array or a DataFrame."
        )


def half_character(text: str) -> str:
    """Why a text cannot be used that holds half a character, as UTF-16 writes some in two; empty for other texts."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"holds half a character, {text[error.start]!r} at position {error.start}, a lone surrogate"
    return ""


def refuse_half_characters(what: str, text: str) -> None:
    """Raise a DataError where a text holds half a character: no file can hold it."""
    if reason := half_character(text):
        raise DataError(f"{what} {reason}; leave it out.")


def refuse_table(what: str, values: object) -> None:
    """Raise DataError where a DataFrame is given for one column: Python would take the names of its columns."""
    if hasattr(values, "columns"):
        raise DataError(f"{what} is a {type(values).__name__}; give the one of its columns that is meant.")


def plural(number: int, one: str, many: str | None = None) -> str:
    """A number and what it counts.

    Args:
        number: the count.
        one: the singular, for 1.
        many: the plural; by default `one` and an s.

    >>> plural(1, "node"), plural(1200, "node"), plural(0, "trajectory", "trajectories")
    ('1 node', '1,200 nodes', '0 trajectories')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["texts"]), listed(["texts", "nodes", "graphs"])
    ('texts', 'texts, nodes and graphs')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
