"""Checks of the arguments of layers: features of nodes that fit the weights."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from edgewise.backends.call import is_autocast, require_floating, require_tensors
from edgewise.errors import SettingError, ShapeError, UnsupportedError
from edgewise.graph import SparseFeatures
from edgewise.neighborhood.checks import can_be_read, count, joint_batch
from edgewise.neighborhood.index import integers

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def require_nodes(
    owner: str,
    nodes: Any,
    size: int | None = None,
    weight: Any = None,
    name: str = "nodes",
    *,
    takes_sparse: bool = False,
) -> None:
    """Raise a ShapeError unless they are features `(*batch, node, size)` of floating point.

    Args:
        owner: the layer, for messages.
        nodes: what came; sparse features have the axes (node, feature).
        size: how many features the layer was made for; any number where None.
        weight: what they are multiplied by: they must have its dtype, but under torch.autocast, which casts them.
        name: what the layer calls them.
        takes_sparse: whether the layer reads `SparseFeatures` too.

    Raises:
        UnsupportedError: they are sparse features, and the layer reads tables alone.
    """
    if isinstance(nodes, SparseFeatures) and not takes_sparse:
        raise UnsupportedError(
            f"{owner}: {name} came as sparse features, but the layer reads tables; pass {name}.to_dense(), or put "
            "MeanConvolution, GraphAttention or TypedLinear before it, which read them."
        )
    if not isinstance(nodes, SparseFeatures):
        require_tensors(owner, {name: nodes})
        require_floating(owner, name, nodes)
        if nodes.dim() < 2:
            raise ShapeError(f"{owner}: {name} must have the axes (…, node, feature), not shape {tuple(nodes.shape)}.")
    if size is not None and nodes.shape[-1] != size:
        raise ShapeError(f"{owner}: axis 'feature' is {nodes.shape[-1]} in {name}, but the layer was made for {size}.")
    if isinstance(nodes, SparseFeatures) or not isinstance(weight, Tensor) or weight.dtype not in FLOATS:
        return  # the values of sparse features are cast, and quantized weights know what they take
    if nodes.dtype != weight.dtype and not is_autocast(nodes.device):
        raise ShapeError(
            f"{owner}: {name} are {nodes.dtype}, but the layer's weights {weight.dtype}; convert one: {name}.to(dtype) "
            "or layer.to(dtype)."
        )


def weight_of(layer: nn.Module) -> Tensor | None:
    """A tensor whose dtype nodes must have to go through a layer, whatever a user put in its place; None where it has
    none. The attribute `weight` would compute a parametrization, and some of these change at each look."""
    weight = layer._parameters.get("weight")
    return weight if weight is not None else next(layer.parameters(), None)


def size_of(layer: nn.Module, side: str = "in_features") -> int | None:
    """How many features a linear layer takes or gives; None where what a user put in its place does not say."""
    size = getattr(layer, side, None)
    return size if isinstance(size, int) else None


def pair_of(
    owner: str, nodes: Any, sizes: tuple[int | None, int | None], weight: Any, *, takes_sparse: bool = False
) -> tuple[Any, Any]:
    """The nodes that send and those that receive: PyTorch Geometric's `(x_source, x_target)`, or the same twice.

    Raises:
        ShapeError: they are not two, or not features of these sizes; see `require_nodes`.
    """
    if not isinstance(nodes, tuple):
        for size in dict.fromkeys(sizes):
            require_nodes(owner, nodes, size, weight, takes_sparse=takes_sparse)
        return nodes, nodes
    if len(nodes) != 2:
        raise ShapeError(f"{owner}: nodes are a tuple of {len(nodes)}, expected (source, target).")
    for one, size, name in zip(nodes, sizes, ("source", "target"), strict=True):
        require_nodes(owner, one, size, weight, name, takes_sparse=takes_sparse)
    return nodes


def pair_beside(owner: str, name: str, features: Any, nodes: Any) -> tuple[Any, Any]:
    """What stands beside the nodes, such as coordinates: a pair where they are one, else the same twice.

    Raises:
        ShapeError: only one of the two is a pair, or it is not two.
    """
    if isinstance(nodes, tuple) != isinstance(features, tuple) or (isinstance(features, tuple) and len(features) != 2):
        expected = (
            "a pair (source, target), as nodes are" if isinstance(nodes, tuple) else "one, not a pair, as nodes are"
        )
        raise ShapeError(f"{owner}: expected {name} to be {expected}.")
    return features if isinstance(features, tuple) else (features, features)


def refuse_pair(owner: str, nodes: Any, reason: str) -> None:
    """Raise an UnsupportedError where the nodes are a pair and the layer cannot take one."""
    if isinstance(nodes, tuple):
        raise UnsupportedError(f"{owner}: nodes are a pair (source, target), but {reason}")


def two(owner: str, name: str, size: int | tuple[int, int]) -> tuple[int, int]:
    """A size for sources and one for targets, which may be 0; one number is both.

    Raises:
        SettingError: it is neither one size nor two.
    """
    sizes = size if isinstance(size, tuple) else (size, size)
    if len(sizes) != 2:
        raise SettingError(f"{owner}: {name} must be one size, or two of (source, target), not {size!r}.")
    source, target = (count(owner, name, one, 0) for one in sizes)
    return source, target


def require_function(owner: str, name: str, function: Any) -> None:
    """Raise a SettingError where what is to be called with a tensor is the name of it, or a class."""
    if isinstance(function, type) or not callable(function):
        called = f"the class {function.__name__}" if isinstance(function, type) else repr(function)
        raise SettingError(f"{owner}: {name} must be a function, such as torch.relu, not {called}.")


def require_places(
    owner: str,
    coordinates: Any,
    nodes: Tensor,
    weight: Any = None,
    *,
    name: str = "coordinates",
    space_dim: int | None = None,
) -> None:
    """Raise a ShapeError unless there are coordinates `(*batch, node, space_dim)` for each of the nodes.

    Args:
        owner, weight, name: as in `require_nodes`.
        coordinates: what came, such as the places or velocities of the nodes.
        nodes: whose they are.
        space_dim: how many axes the space has; any number where None.
    """
    require_nodes(owner, coordinates, None, weight, name)
    sizes = (("node", -2, nodes.shape[-2], "nodes"), ("space", -1, space_dim, "other coordinates"))
    for axis, number, size, other in sizes:
        if size is not None and coordinates.shape[number] != size:
            raise ShapeError(f"{owner}: axis '{axis}' is {size} in {other} but {coordinates.shape[number]} in {name}.")
    joint_batch(f"{owner}: nodes and {name}", [nodes.shape[:-2], coordinates.shape[:-2]])


def require_edges(owner: str, name: str, numbers: Tensor, num_edges: int) -> None:
    """Raise a ShapeError unless there is one number an edge, `(*batch, edge)`."""
    require_tensors(owner, {name: numbers})
    if numbers.shape[-1:] != (num_edges,):
        size = numbers.shape[-1] if numbers.dim() else "missing"
        raise ShapeError(f"{owner}: axis 'edge' is {size} in {name} but {num_edges} in edges.")


def offsets_of(owner: str, offsets: Any, nodes: Tensor, name: str = "offsets") -> Tensor:
    """Boundaries of graphs, a list or an array too, as whole numbers, on the device of the nodes."""
    boundaries = integers(owner, name, offsets)
    return boundaries if isinstance(offsets, Tensor) else boundaries.to(nodes.device)


def require_sequences(owner: str, nodes: Any, size: int | None, weight: Any, name: str = "nodes") -> None:
    """Raise a ShapeError unless they are features `(graph, node, size)`; the arguments are those of `require_nodes`."""
    require_nodes(owner, nodes, size, weight, name)
    if nodes.dim() != 3:
        raise ShapeError(
            f"{owner}: {name} must have the axes (graph, node, feature), not shape {tuple(nodes.shape)}; "
            f"{name}[None] is one graph."
        )


def require_lengths(owner: str, lengths: Any, nodes: Tensor, least: int = 0) -> None:
    """Raise a ShapeError unless there is one whole number for each member of `nodes`, `(graph, node, feature)`.

    Args:
        least: the smallest number; checked on a CPU only, as a device would have to be waited for.
    """
    is_whole = isinstance(lengths, Tensor) and not (lengths.is_floating_point() or lengths.dtype == torch.bool)
    if not is_whole or lengths.shape != nodes.shape[:1]:
        came = f"{lengths.dtype} {tuple(lengths.shape)}" if isinstance(lengths, Tensor) else type(lengths).__name__
        raise ShapeError(
            f"{owner}: lengths must be whole numbers ({nodes.shape[0]},), one for each member, not {came}."
        )

    if can_be_read(lengths) and lengths.numel() > 0:
        low, high = map(int, lengths.aminmax())
        if low < least or high > nodes.shape[-2]:
            wrong = low if low < least else high
            raise ShapeError(f"{owner}: lengths must lie in {least} … {nodes.shape[-2]}; found {wrong}.")


def require_positions(
    owner: str,
    name: str,
    positions: Any,
    num_nodes: int,
    batch_shapes: Sequence[torch.Size],
    num_positions: int | None = None,
) -> None:
    """Raise a ShapeError unless there is a whole number for each node, `(*batch, node)`, with batch axes that fit.

    Args:
        num_positions: how many positions there are; checked on a CPU only, as a device would have to be waited for.
    """
    require_tensors(owner, {name: positions})
    is_whole = not (positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool)
    if positions.dim() == 0 or positions.shape[-1] != num_nodes or not is_whole:
        raise ShapeError(
            f"{owner}: {name} must be whole numbers (*batch, {num_nodes}), one for each node, not {positions.dtype} "
            f"{tuple(positions.shape)}."
        )
    if num_positions is not None and can_be_read(positions) and positions.numel() > 0:
        low, high = map(int, positions.aminmax())
        if low < 0 or high >= num_positions:
            wrong = low if low < 0 else high
            raise ShapeError(f"{owner}: {name} must lie in 0 … {num_positions - 1}; found {wrong}.")
    if positions.dim() > 1:
        joint_batch(f"{owner}: {name}", [*batch_shapes, positions.shape[:-1]])
