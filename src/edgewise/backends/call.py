"""One call of the operator, checked, as the backends receive it."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from edgewise.errors import SettingError, ShapeError
from edgewise.neighborhood import (
    EdgeRows,
    Edges,
    GivenNeighborhood,
    Neighborhood,
    is_edge_index,
    neighborhood_of,
    require_device,
)
from edgewise.neighborhood.checks import broadcast_shape, require_rate
from edgewise.neighborhood.index import require_dense
from edgewise.normalize import Normalize, Softmax
from edgewise.score import GAT, Additive, Bilinear, Constant, Cosine, Distance, Dot, GATv2, ScaledDot, Score

NO_TENSORS = (Dot, ScaledDot, Cosine)
"""Scores that hold no tensor, whose shape would have to fit."""
SAME_KEY_DIM = (Dot, ScaledDot, Cosine, Additive, GATv2, Distance)


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of `attend`, with query, key and value of rank two or more and the shapes known to fit."""

    query: Tensor
    """`(*batch, query, key_dim)`."""
    key: Tensor
    """`(*batch, key, key_dim)`."""
    value: Tensor | None
    """`(*batch, key, value_dim)`; None where only the weights are computed. It has the batch axes that no other tensor
    has, those of a neighborhood, score or normalizer, so that the output has all of them whatever is computed."""
    neighborhood: Neighborhood
    """Who attends to whom."""
    score: Score
    """How well a pair matches; never a `Constant` with a tensor, which is a bias."""
    normalize: Normalize
    """From scores to weights."""
    bias: Tensor | None
    """`(*batch, edge)` for `Edges`, else `(*batch, query, key)`."""
    edge_key: Tensor | None
    """`(*batch, edge, key_dim)`."""
    edge_value: Tensor | None
    """`(*batch, edge, value_dim)`."""
    dropout: float
    """The probability that a weight is set to zero."""
    edge_rows: EdgeRows | None = None
    """The rows of bias, edge_key and edge_value that belong to each edge; None where each edge has its own."""

    @property
    def num_queries(self) -> int:
        """How many queries there are."""
        return self.query.shape[-2]

    @property
    def num_keys(self) -> int:
        """How many keys there are."""
        return self.key.shape[-2]

    @property
    def tensors(self) -> dict[str, Any]:
        """The tensors that are there, by name."""
        names = ("query", "key", "value", "bias", "edge_key", "edge_value")
        by_name = {name: getattr(self, name) for name in names}
        return {name: tensor for name, tensor in by_name.items() if tensor is not None}

    @property
    def held(self) -> list[Tensor]:
        """All tensors, those in the fields of the score and the normalizer among them."""
        arguments = [x for x in self.tensors.values() if isinstance(x, Tensor)]
        return [*arguments, *tensors_of(self.score), *tensors_of(self.normalize)]

    @property
    def batch_shapes(self) -> dict[str, torch.Size]:
        """The batch axes of everything that has some, by name: tensors, neighborhood, score, normalizer."""
        shapes = {name: x.shape[: max(x.dim() - _node_axes(name, self), 0)] for name, x in self.tensors.items()}
        shapes[type(self.neighborhood).__name__] = self.neighborhood.batch_shape
        if (weight := _edge_weight(self.score)) is not None:
            shapes["Constant.edge_weight"] = weight.shape[: max(weight.dim() - _node_axes("bias", self), 0)]
        for part in (self.score, self.normalize):
            for name, (field, axes) in _fields(part).items():
                shapes[f"{type(part).__name__}.{name}"] = field.shape[: field.dim() - axes]
        return shapes

    @property
    def batch_size(self) -> int:
        """How many members all batch axes make together."""
        return 1 if self.query.dim() == 2 else broadcast_shape(*self.batch_shapes.values()).numel()

    @property
    def num_edge_rows(self) -> int:
        """How many rows bias, edge_key and edge_value have."""
        assert isinstance(self.neighborhood, Edges)
        return self.neighborhood.num_edges if self.edge_rows is None else self.edge_rows.num_rows

    def with_rows_of_edges(self) -> "Call":
        """The same call, each edge with rows of its own in bias, edge_key and edge_value."""
        if self.edge_rows is None:
            return self
        axes = {"bias": -1, "edge_key": -2, "edge_value": -2}
        edge_parts: dict[str, Any] = {
            name: self.edge_rows.spread(x, axes[name]) for name, x in self.tensors.items() if name in axes
        }
        return replace(self, **edge_parts, edge_rows=None)

    def in_float32(self, but: tuple[str, ...] = ()) -> "Call":
        """The same call with half-precision tensors as float32, for the arithmetic, but for some that stay."""
        half = (torch.bfloat16, torch.float16)
        floats: dict[str, Any] = {
            name: x.float() for name, x in self.tensors.items() if x.dtype in half and name not in but
        }
        return replace(self, **floats) if floats else self

    def negated(self) -> "Call":
        """The same call with the opposite values."""
        return replace(self, **{name: -x for name, x in self.tensors.items() if name in ("value", "edge_value")})


def checked_call(
    verb: str,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    neighborhood: GivenNeighborhood,
    score: Score,
    normalize: Normalize,
    bias: Tensor | None,
    edge_key: Tensor | None,
    edge_value: Tensor | None,
    dropout: float,
    follows_autocast: bool = True,
    has_value: bool = True,
    edge_rows: EdgeRows | None = None,
) -> Call:
    """Check every shape once, where the values enter, and put a single query and a constant score into the common form.

    Under torch.autocast tensors are cast as for `F.scaled_dot_product_attention`, where the verb `follows_autocast`.

    Raises:
        ShapeError: an axis, dtype or device does not fit; the message names it, the arguments and both sizes.
        SettingError: dropout is not a probability, or an argument is of the wrong type.
    """
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        require_tensors(verb, {"query": query, "key": key} | ({"value": value} if has_value else {}))
    if not (bias is None and edge_key is None and edge_value is None):
        beside = {"bias": bias, "edge_key": edge_key, "edge_value": edge_value}
        require_tensors(verb, {name: x for name, x in beside.items() if x is not None})
    _require_part(verb, "score", score, "ScaledDot()")
    _require_part(verb, "normalize", normalize, "Softmax()")
    require_rate(verb, dropout=dropout)

    if query.dim() == 1:
        query = query.unsqueeze(0)
    if not isinstance(neighborhood, Neighborhood):
        sizes = (x.shape[-2] if x.dim() > 1 else 0 for x in (query, key))
        neighborhood = neighborhood_of(verb, neighborhood, *sizes)
    require_device(verb, neighborhood, query.device)
    call = Call(query, key, value, neighborhood, score, normalize, bias, edge_key, edge_value, dropout, edge_rows)
    if edge_rows is not None:
        _check_rows(verb, call)
    if follows_autocast and is_autocast(query.device):
        call = _autocast(call)
    if not torch.compiler.is_compiling() and _is_plain(call):
        return call

    _check_kinds(verb, call)
    _check_nodes(verb, call)
    _check_pairs(verb, call)
    shapes = call.batch_shapes
    _check_batch(verb, shapes)
    if (weight := _edge_weight(score)) is not None:
        weight = weight.to(call.query)
        call = replace(call, score=Constant(0.0), bias=weight if call.bias is None else weight + call.bias)
    if call.bias is not None and call.bias.dtype != call.query.dtype:  # it may be more exact than half precision
        precise = torch.promote_types(call.query.dtype, torch.float32)
        call = replace(call, bias=call.bias.to(precise))
    call = _with_rank(call, max(len(shape) for shape in shapes.values()))

    return _with_every_batch_axis(call, broadcast_shape(*shapes.values()))


def _require_part(verb: str, name: str, part: Any, example: str) -> None:
    """Raise a SettingError where a score or normalizer is a class, a name or something else that cannot be called."""
    if isinstance(part, type) or not callable(part):
        called = f"the class {part.__name__}; write {part.__name__}(…)" if isinstance(part, type) else repr(part)
        raise SettingError(f"{verb}: {name} must be an object, such as {example}, or a function, not {called}.")


def require_tensors(verb: str, tensors: dict[str, Any]) -> None:
    """Raise a ShapeError where an argument is not a dense tensor."""
    for name, x in tensors.items():
        if isinstance(x, Tensor):
            require_dense(verb, name, x)
            continue
        remedy = f"torch.as_tensor({name}) makes one of it"
        if isinstance(x, Neighborhood):
            remedy = "it goes to neighborhood="
        elif x is None:
            remedy = "without values there are weights alone: attention_weights" if name == "value" else "it is needed"
        raise ShapeError(f"{verb}: {name} must be a tensor, not {type(x).__name__}; {remedy}.")


def require_floating(verb: str, name: str, x: Tensor) -> None:
    """Raise a ShapeError where a tensor is not of floating point."""
    if x.dtype.is_floating_point:
        return
    remedy = ""
    if x.dtype == torch.bool:
        remedy = " Pass a boolean mask as neighborhood=Mask(mask)."
    elif is_edge_index(x):
        remedy = " Pass an edge_index as neighborhood=edge_index."
    elif not x.is_complex():
        remedy = f" {name}.float() makes it so."
    raise ShapeError(f"{verb}: {name} must be floating point, not {x.dtype}.{remedy}")


def is_autocast(device: torch.device) -> bool:
    """Whether torch.autocast is on for a device."""
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def outside_autocast(device: torch.device) -> AbstractContextManager:
    """torch.autocast switched off, where it is on: not every device has it."""
    return torch.autocast(device.type, enabled=False) if is_autocast(device) else nullcontext()


def _autocast(call: Call) -> Call:
    """The tensors of a call as torch.autocast casts those of a matrix product: all that float, but for float64."""
    device = call.query.device.type
    cast = {
        name: x.to(torch.get_autocast_dtype(device))
        for name, x in call.tensors.items()
        if x.is_floating_point() and x.dtype != torch.float64 and x.device.type == device
    }
    return replace(call, **cast)


def _is_plain(call: Call) -> bool:
    """Whether a few comparisons tell that all fits: tensors of one batch and kind, nothing beside them. Most calls are
    so, and the checks below, cold among the work of others, take as long as a small graph."""
    query, key, neighborhood = call.query, call.key, call.neighborhood
    value = key if call.value is None else call.value
    if call.bias is not None or call.edge_key is not None or call.edge_value is not None:
        return False
    if not isinstance(call.score, NO_TENSORS) and not (
        isinstance(call.score, Constant) and _edge_weight(call.score) is None
    ):
        return False
    if isinstance(getattr(call.normalize, "temperature", None), Tensor):
        return False

    query_shape, key_shape, value_shape = query.shape, key.shape, value.shape
    num_queries, num_keys = neighborhood.fixed_sizes
    return (
        len(query_shape) >= 2
        and len(query_shape) == len(key_shape)
        and (query_shape == key_shape or (query_shape[:-2] == key_shape[:-2] and query_shape[-1] == key_shape[-1]))
        and (key_shape == value_shape or key_shape[:-1] == value_shape[:-1])
        and query.dtype == key.dtype == value.dtype
        and query.layout == key.layout == value.layout == torch.strided
        and query.is_floating_point()
        and query.device == key.device == value.device
        and num_queries in (None, query_shape[-2])
        and num_keys in (None, key_shape[-2])
        and not neighborhood.batch_shape
    )


def _check_kinds(verb: str, call: Call) -> None:
    require_tensors(verb, call.tensors)
    for name, tensor in call.tensors.items():
        if tensor.dim() < (1 if name == "bias" else 2):
            axes = "node, feature" if name != "bias" else "edge" if _node_axes(name, call) == 1 else "query, key"
            raise ShapeError(f"{verb}: {name} must have the axes (…, {axes}), not shape {tuple(tensor.shape)}.")
        require_floating(verb, name, tensor)
        if tensor.dtype != call.query.dtype and name != "bias":
            raise ShapeError(f"{verb}: dtype is {call.query.dtype} in query but {tensor.dtype} in {name}.")
        if tensor.device != call.query.device:
            raise ShapeError(f"{verb}: query is on {call.query.device} but {name} is on {tensor.device}.")


def _check_nodes(verb: str, call: Call) -> None:
    if call.value is not None:
        _same(verb, "key", ("key", call.num_keys), ("value", call.value.shape[-2]))
    if isinstance(call.score, SAME_KEY_DIM):
        _same(verb, "key_dim", ("query", call.query.shape[-1]), ("key", call.key.shape[-1]))
    for part in (call.score, call.normalize):
        for name, (field, _) in _fields(part).items():
            _check_field(verb, call, f"{type(part).__name__}.{name}", field)
    own_queries, own_keys = call.neighborhood.fixed_sizes
    owner = type(call.neighborhood).__name__
    if own_queries is not None:
        _same(verb, "query", ("query", call.num_queries), (owner, own_queries))
    if own_keys is not None:
        _same(verb, "key", ("key", call.num_keys), (owner, own_keys))


def _check_field(verb: str, call: Call, owner: str, field: Tensor) -> None:
    """The features of a field of the score are those of the query, the key, or (a matrix) of both."""
    require_dense(verb, owner, field)
    device, name = call.query.device, owner.partition(".")[2]
    if field.device != device and field.dim() > 0:  # torch takes a single number from the CPU
        raise ShapeError(f"{verb}: query is on {device} but {owner} is on {field.device}.")
    if name in ("query_vector", "weight"):
        _same(verb, "query_dim", ("query", call.query.shape[-1]), (owner, field.shape[-2 if name == "weight" else -1]))
    if name in ("vector", "key_vector", "weight"):
        _same(verb, "key_dim", ("key", call.key.shape[-1]), (owner, field.shape[-1]))


def _check_pairs(verb: str, call: Call) -> None:
    for name, tensor, node in (("edge_key", call.edge_key, "key"), ("edge_value", call.edge_value, "value")):
        if tensor is None:
            continue
        if not isinstance(call.neighborhood, Edges):
            raise ShapeError(
                f"{verb}: {name} needs Edges, not {type(call.neighborhood).__name__}; to_edges() makes them."
            )
        _same(verb, "edge", (_edge_owner(call), call.num_edge_rows), (name, tensor.shape[-2]))
        carrier = call.tensors.get(node)
        if carrier is not None:
            _same(verb, f"{node}_dim", (node, carrier.shape[-1]), (name, tensor.shape[-1]))
    for name, tensor in (("bias", call.bias), ("Constant.edge_weight", _edge_weight(call.score))):
        if tensor is not None:
            _check_bias(verb, call, name, tensor)


def _check_rows(verb: str, call: Call) -> None:
    """Raise where `edge_rows` does not name one row for each edge."""
    rows, edges = call.edge_rows, call.neighborhood
    if not isinstance(rows, EdgeRows):
        raise SettingError(f"{verb}: edge_rows must be EdgeRows(rows, num_rows), not {type(rows).__name__}.")
    if not isinstance(edges, Edges):
        raise ShapeError(f"{verb}: edge_rows needs Edges, not {type(edges).__name__}; to_edges() makes them.")
    _same(verb, "edge", ("the neighborhood", edges.num_edges), ("edge_rows", rows.rows.shape[0]))
    if rows.rows.device != call.query.device:
        raise ShapeError(
            f"{verb}: query is on {call.query.device} but edge_rows is on {rows.rows.device}; "
            f"edge_rows.to({str(call.query.device)!r}) moves it."
        )


def _edge_owner(call: Call) -> str:
    return "the neighborhood" if call.edge_rows is None else "edge_rows"


def _check_bias(verb: str, call: Call, name: str, bias: Tensor) -> None:
    """One number an edge, or one a cell of the table, where an axis of size 1 serves all."""
    require_dense(verb, name, bias)
    if isinstance(call.neighborhood, Edges):
        edges = bias.shape[-1] if bias.dim() > 0 else 0
        return _same(verb, "edge", (_edge_owner(call), call.num_edge_rows), (name, edges))
    for axis, number, bias_axis in (("key", call.num_keys, -1), ("query", call.num_queries, -2)):
        if bias.dim() >= -bias_axis and bias.shape[bias_axis] != 1:
            _same(verb, axis, (axis, number), (name, bias.shape[bias_axis]))


def _check_batch(verb: str, shapes: dict[str, torch.Size]) -> None:
    sizes: dict[int, tuple[str, Any]] = {}
    for name, shape in shapes.items():
        for axis in range(-1, -len(shape) - 1, -1):
            if shape[axis] == 1:
                continue
            first, size = sizes.setdefault(axis, (name, shape[axis]))
            _same(verb, f"batch {axis}", (first, size), (name, shape[axis]))


def _with_rank(call: Call, rank: int) -> Call:
    """Every tensor with as many batch axes as the one that has most, so that the pairs may stand before them."""
    missing = {name: rank + _node_axes(name, call) - x.dim() for name, x in call.tensors.items()}
    lifted: dict[str, Any] = {name: getattr(call, name)[(None,) * axes] for name, axes in missing.items() if axes > 0}
    return replace(call, **lifted) if lifted else call


def _with_every_batch_axis(call: Call, batch: torch.Size) -> Call:
    """The value with the whole batch, where the tensors of the call do not make it together."""
    batch_shapes = [x.shape[: x.dim() - _node_axes(name, call)] for name, x in call.tensors.items()]
    if call.value is None or broadcast_shape(*batch_shapes) == batch:
        return call
    return replace(call, value=call.value.expand(*batch, *call.value.shape[-2:]))


def _node_axes(name: str, call: Call) -> int:
    """How many axes a tensor of the call has after its batch axes."""
    return 1 if name == "bias" and isinstance(call.neighborhood, Edges) else 2


def _edge_weight(score: Score) -> Tensor | None:
    """What a `Constant` holds for each pair, which is a bias by another name."""
    return score.edge_weight if isinstance(score, Constant) and isinstance(score.edge_weight, Tensor) else None


def tensors_of(part: Any) -> list[Tensor]:
    """The tensors of a score, a normalizer or a neighborhood and its parts; of a module the parameters, as it may
    change its buffers itself."""
    if isinstance(part, torch.nn.Module):
        return list(part.parameters())
    values = [
        x for value in getattr(part, "__dict__", {}).values() for x in (value if type(value) is tuple else [value])
    ]
    inner = [x for value in values if isinstance(value, Neighborhood) for x in tensors_of(value)]
    return [x for x in values if isinstance(x, Tensor)] + inner


def _fields(part: Score | Normalize) -> dict[str, tuple[Tensor, int]]:
    """The tensors of a score or normalizer, and how many axes each has after its batch axes."""
    match part:
        case Additive(vector=vector) | GATv2(vector=vector):
            return {"vector": (vector, 1)}
        case GAT(query_vector=query_vector, key_vector=key_vector):
            return {"query_vector": (query_vector, 1), "key_vector": (key_vector, 1)}
        case Bilinear(weight=weight):
            return {"weight": (weight, 2)}
        case Distance(length=Tensor() as length):
            return {"length": (length, 0)}
        case Softmax(temperature=Tensor() as temperature):
            return {"temperature": (temperature, 0)}
    return {}


def _same(verb: str, axis: str, first: tuple[str, Any], second: tuple[str, Any]) -> None:
    if first[1] != second[1]:
        raise ShapeError(f"{verb}: axis '{axis}' is {first[1]} in {first[0]} but {second[1]} in {second[0]}.")
