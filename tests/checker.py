"""The checker of types and shapes that runs on every annotated function; a whole number is a float, too.

jaxtyping's import hook decorates the functions. Its own decorator makes two more functions of each, checks arguments
twice, and binds them by their signature: about half of the time that small models take. This one asks beartype once,
in a context of jaxtyping's, where the sizes of named axes are remembered. beartype writes a checker for a function in
two milliseconds: it is written when the function is first called, once for all that one `def` makes within another
function. And it is asked once for each kind of call: annotations speak of types, dtypes and shapes alone, so that what
was once as annotated is so again. An epoch calls a function a thousand times with two kinds of batches: of the calls
that follow the first ones in a test, only some are looked at.
"""

import dataclasses
import functools
import inspect
import itertools
import threading
import types
from collections.abc import Callable, Hashable
from typing import Any

import jaxtyping
import numpy as np
import torch
from beartype import BeartypeConf, beartype

typed: Any = beartype(conf=BeartypeConf(is_pep484_tower=True))
jaxtyped = jaxtyping.jaxtyped


def check(thing: Any) -> Any:
    """What the hook finds, checked: a function, one behind a property or of a class, what makes a dataclass."""
    if inspect.isclass(thing):
        if dataclasses.is_dataclass(thing) and "__init__" in vars(thing):
            thing.__init__ = check_function(thing.__init__)
        return thing
    if isinstance(thing, classmethod | staticmethod):
        return type(thing)(check_function(thing.__func__))
    if isinstance(thing, property):
        return property(*(part and check_function(part) for part in (thing.fget, thing.fset, thing.fdel)))
    return check_function(thing)


def check_function(function: Callable) -> Callable:
    """The function with its arguments and what it returns checked, an axis being of one size in all of them."""
    if not getattr(function, "__annotations__", None) or getattr(function, "is_checked", False):
        return function
    if inspect.isgeneratorfunction(function):  # beartype would look at its arguments when the context has gone
        return jaxtyped(function, typechecker=typed)
    checks = checks_of(function)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        checks.num_calls += 1
        is_repetition = checks.num_calls > FIRST_CALLS and checks.num_calls % EVERY_FURTHER
        if is_repetition or jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)

        kind = tuple([kind_of(x) for x in args]), tuple([(name, kind_of(x)) for name, x in kwargs.items()])
        if not has_hash(kind):
            return checks.call(function, args, kwargs)
        results = checks.passed.get(kind)
        if results is None:
            result = checks.call(function, args, kwargs)
            if has_hash(kind_of(result)):
                checks.passed.setdefault(kind, set()).add(kind_of(result))
            return result

        result = function(*args, **kwargs)
        if not has_hash(kind_of(result)) or kind_of(result) not in results:
            checks.call(lambda *args, **kwargs: result, args, kwargs)
            if has_hash(kind_of(result)):
                results.add(kind_of(result))
        return result

    wrapped.is_checked = True  # type: ignore[attr-defined]
    return wrapped


def has_hash(kind: Hashable) -> bool:
    """Whether a kind can be remembered; sizes of a program that is traced are symbols, which have no hash."""
    try:
        hash(kind)
    except TypeError:
        return False
    return True


class Checks:
    """The checker of one `def`, and what it has been asked of."""

    def __init__(self, function: Callable):
        self.declared = declared(function)
        self.has_axes = names_axes(function)
        self.checker: Callable | None = None
        self.passed: dict[Hashable, set[Hashable]] = {}
        """Kinds of arguments, with the kinds of results that they had."""
        self.num_calls = 0
        """Calls in the test that runs."""

    def call(self, function: Callable, args: tuple, kwargs: dict) -> Any:
        """Call a function of this `def`, or what stands in for it, between the checks of arguments and result."""
        __tracebackhide__ = True
        if self.checker is None:
            self.checker = typed(functools.wraps(self.declared)(lambda *args, **kwargs: _next.taken()(*args, **kwargs)))
        # Looking at arguments may call functions that are checked, too, as the items of a sequence of our own do.
        before, _next.function = _next.function, function
        try:
            if not self.has_axes:
                return self.checker(*args, **kwargs)
            with jaxtyped("context"):
                return self.checker(*args, **kwargs)
        finally:
            _next.function = before


FIRST_CALLS, EVERY_FURTHER = 4, 64
"""Calls of a `def` that are looked at in each test, and which of those after them are."""


def begin_test() -> None:
    """Look at the first calls of every function again."""
    for checks in _checks.values():
        checks.num_calls = 0


class Next(threading.local):
    """What a checker calls once it has seen the arguments."""

    function: Callable | None = None

    def taken(self) -> Any:
        """The function: those that it calls itself have checkers of their own."""
        function, self.function = self.function, None
        return function


_next = Next()
_checks: dict[Hashable, Checks] = {}


def checks_of(function: Callable) -> Checks:
    """Those of all functions of the same `def` with the same annotations."""
    where = function.__code__, function.__module__, function.__qualname__, tuple(function.__annotations__.items())
    try:
        return _checks.setdefault(where, _checks.get(where) or Checks(function))
    except TypeError:  # an annotation that has no hash
        return Checks(function)


def declared(function: Callable) -> Callable:
    """The function as it was declared, without the variables around it: they may hold large tensors."""
    code = function.__code__
    if not code.co_freevars:
        return function
    empty = tuple([types.CellType() for _ in code.co_freevars])
    bare = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, empty)
    bare.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(bare, function, updated=())
    del bare.__wrapped__
    return bare


MAX_ITEMS, MAX_LETTERS = 16, 32
"""Items of a container that its kind is made of, where beartype looks at one; letters of a choice's name."""


def kind_of(value: Any) -> Hashable:
    """What annotations can say of a value: its type, and dtype and shape, letters, or the kinds of its items."""
    describe = _DESCRIPTIONS.get(type(value))
    if describe is None:
        describe = _DESCRIPTIONS[type(value)] = _description(type(value))
    return describe(value)


def _description(value_type: type) -> Callable[[Any], Hashable]:
    if issubclass(value_type, torch.Tensor | np.ndarray):
        return lambda x: (value_type, x.dtype, x.shape)
    if issubclass(value_type, type):
        return lambda x: x
    if issubclass(value_type, str):
        return lambda x: x if len(x) <= MAX_LETTERS else value_type
    if issubclass(value_type, tuple | list):
        return lambda x: (value_type, len(x), *[kind_of(item) for item in x[:MAX_ITEMS]])
    if issubclass(value_type, dict):
        return lambda x: (
            value_type,
            len(x),
            *[(kind_of(name), kind_of(item)) for name, item in itertools.islice(x.items(), MAX_ITEMS)],
        )
    return lambda x: value_type


_DESCRIPTIONS: dict[type, Callable[[Any], Hashable]] = {}


def names_axes(function: Callable) -> bool:
    """Whether an annotation is one of jaxtyping's, or holds one, as a piece of text may."""
    return any(
        "jaxtyping" in repr(annotation) or (isinstance(annotation, str) and "[" in annotation)
        for annotation in function.__annotations__.values()
    )


def decorator(*, typechecker: Callable) -> Callable:
    """What stands in for `jaxtyping.jaxtyped` in the code that the hook writes."""
    return typechecker
