"""A function of plain tensors as an operator of torch: one node for torch.compile and torch.export.

`torch.library.custom_op` does the same and imports the whole compiler for it, a second in every process.
"""

from collections.abc import Callable
from typing import Any

import torch

LIBRARY = torch.library.Library("edgewise", "FRAGMENT")


def define(name: str, function: Callable, shapes: Callable, gradient: tuple[Callable, Callable] | None = None) -> Any:
    """Register `function` as `torch.ops.edgewise.<name>` and give back the operator.

    Args:
        function: what it does; its annotations become the schema. It changes none of its arguments.
        shapes: the same call on tensors that hold nothing, for tracing.
        gradient: what to keep of a call, and the gradient, as `torch.library.register_autograd` takes them.

    Where the module is loaded again the operator stays that of the first time: to register it anew would free the old
    one under whoever still holds it.
    """
    operators = torch.ops.edgewise
    if not hasattr(operators, name):
        LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=()))
        LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"edgewise::{name}", shapes, lib=LIBRARY)
        if gradient is not None:
            keep, differentiate = gradient
            torch.library.register_autograd(f"edgewise::{name}", differentiate, setup_context=keep, lib=LIBRARY)
    return getattr(operators, name)
