"""The checker of types and shapes that runs on every annotated function; a whole number is a float, too.

jaxtyping's import hook decorates the functions. Its own decorator makes two more functions of each, checks arguments
twice, and binds them by their signature: about half of the time that small models take. This one asks beartype once,
when a function is first called, in a context of jaxtyping's, where the sizes of named axes are remembered.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import jaxtyping
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
    checked: list[Callable] = []
    has_axes = names_axes(function)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        if not checked:
            checked.append(typed(function))
        if not has_axes:
            return checked[0](*args, **kwargs)
        with jaxtyped("context"):
            return checked[0](*args, **kwargs)

    wrapped.is_checked = True  # type: ignore[attr-defined]
    return wrapped


def names_axes(function: Callable) -> bool:
    """Whether an annotation is one of jaxtyping's, or holds one, as a piece of text may."""
    return any(
        "jaxtyping" in repr(annotation) or (isinstance(annotation, str) and "[" in annotation)
        for annotation in function.__annotations__.values()
    )


def decorator(*, typechecker: Callable) -> Callable:
    """What stands in for `jaxtyping.jaxtyped` in the code that the hook writes."""
    return typechecker
