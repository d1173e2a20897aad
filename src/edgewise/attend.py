"""A query attends over its neighborhood: score each pair, normalize over the neighborhood, sum the values.

    o_i = Σ_{j∈N(i)} α_ij (v_j + v^e_ij)      α_i· = normalize_{j∈N(i)} ( s(q_i, k_j + k^e_ij) + b_ij )

A causal sentence is N(i) = {j ≤ i}; a molecule is N(i) = bonded atoms; a batch is the disjoint union of its members.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from edgewise.backends import RUNS, choose, largest, reads_edge_rows, refused, remember, without_autocast
from edgewise.backends.call import checked_call, require_tensors
from edgewise.backends.form import form_of
from edgewise.backends.weigh import weigh
from edgewise.errors import SettingError, ShapeError
from edgewise.graph import Weights
from edgewise.neighborhood import EdgeRows, Full, GivenNeighborhood, neighborhood_of
from edgewise.normalize import Identity, Mean, Normalize, Softmax
from edgewise.score import Constant, ScaledDot, Score

How = Literal["sum", "mean", "max", "min"]


def attend(
    query: Float[Tensor, " *query_batch query query_dim"] | Float[Tensor, " query_dim"],
    key: Float[Tensor, " *key_batch key key_dim"],
    value: Float[Tensor, " *value_batch key value_dim"],
    neighborhood: GivenNeighborhood = Full(),
    *,
    score: Score = ScaledDot(),
    normalize: Normalize = Softmax(),
    bias: Float[Tensor, " ..."] | None = None,
    edge_key: Float[Tensor, " ... edge key_dim"] | None = None,
    edge_value: Float[Tensor, " ... edge value_dim"] | None = None,
    edge_rows: EdgeRows | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
) -> Float[Tensor, " *batch query value_dim"] | Float[Tensor, " *batch value_dim"]:
    """The weighted mean of the values in each query's neighborhood.

        o_i = Σ_{j∈N(i)} α_ij (v_j + v^e_ij)      α_i· = normalize_{j∈N(i)} ( s(q_i, k_j + k^e_ij) + b_ij )

    The last two axes are (node, feature); all before them are batch and broadcast, heads among them, so that
    `attend(query, key, value)` takes the place of `F.scaled_dot_product_attention` on the same tensors.

    Args:
        query: `(*batch, query, key_dim)`, or `(key_dim)` for one query.
        key: `(*batch, key, key_dim)`.
        value: `(*batch, key, value_dim)`.
        neighborhood: which keys each query may attend to; or PyTorch Geometric's `edge_index`, `(2, edge)` from source
            to target, of which every call makes `Edges` anew.
        score: s(q, k), how well a pair matches.
        normalize: from the scores of a row to its weights.
        bias: b, added to the score; `(*batch, edge)` for `Edges`, in their order, else `(*batch, query, key)`.
        edge_key: k^e, `(*batch, edge, key_dim)`; `Edges` only.
        edge_value: v^e, `(*batch, edge, value_dim)`; `Edges` only.
        edge_rows: where many edges carry the same, the row of each edge in bias, edge_key and edge_value, which then
            have one row for each of the few that differ.
        dropout: the probability that a weight is set to zero, the others growing by 1/(1 − dropout). It is applied
            whenever it is not 0: pass 0 for inference.
        backend: "auto", or the name of one that must run; `why()` says which would and why.

    Returns:
        `(*batch, query, value_dim)`, or `(*batch, value_dim)` for one query.

    Raises:
        ShapeError: an axis, dtype or device does not fit.
        UnsupportedError: the backend that was named refuses the call.

    Empty: a query with no neighbor gets zero, with finite gradients.
    Autocast: query, key, value and what stands beside them are cast, as for `F.scaled_dot_product_attention`; the
    output has that dtype over every neighborhood and on every backend.
    Cost: O(pairs · key_dim) time; memory depends on the backend, O(query + key) for the fused ones.
    Source: Vaswani et al. 2017, eq. 1, is `ScaledDot` with `Softmax` over `Full`; Veličković et al. 2018 is `GAT` over
    `Edges`.

    >>> import torch
    >>> query = torch.tensor([1.0, 2.0, 3.0, 4.0])
    >>> keys = torch.tensor([[1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 9.0, 1.0], [6.0, 2.0, 1.0, 4.0]])
    >>> [round(x, 4) for x in attend(query, keys, keys).tolist()]
    [3.999, 4.9973, 8.994, 1.0027]
    """
    tensors = query, key, value, bias, edge_key, edge_value
    form = None if edge_rows is not None else form_of(neighborhood, score, normalize, tensors, dropout, backend)
    if form is not None and (run := RUNS.get(form)) is not None:
        return run(neighborhood, score, normalize, tensors, dropout)  # type: ignore[arg-type]  # it is `Edges`

    call = checked_call(
        "attend", query, key, value, neighborhood, score, normalize, bias, edge_key, edge_value, dropout,
        edge_rows=edge_rows,
    )  # fmt: skip
    with without_autocast(call):
        chosen = choose(call, backend)
        if edge_rows is not None and not reads_edge_rows(chosen, call):
            call = call.with_rows_of_edges()
        out = chosen.run(call)
    if form is not None:
        remember(form, call, chosen, tensors)

    return out.squeeze(-2) if query.dim() == 1 else out


def attention_weights(
    query: Float[Tensor, " *query_batch query query_dim"] | Float[Tensor, " query_dim"],
    key: Float[Tensor, " *key_batch key key_dim"],
    neighborhood: GivenNeighborhood = Full(),
    *,
    score: Score = ScaledDot(),
    normalize: Normalize = Softmax(),
    bias: Float[Tensor, " ..."] | None = None,
    edge_key: Float[Tensor, " ... edge key_dim"] | None = None,
    edge_rows: EdgeRows | None = None,
    top: int | None = None,
    queries: Int64[Tensor, " chosen"] | Bool[Tensor, " chosen"] | list[int] | None = None,
) -> Weights:
    """The weights α that `attend` sums with, as a list of weighted edges, computed block by block.

    Args:
        query, key, neighborhood, score, normalize, bias, edge_key, edge_rows: as in `attend`.
        top: keep only this many of the strongest neighbors of every query; memory O(queries · top).
        queries: positions of the queries wanted, or a mask `(query)`, True where one is; all of them where None.

    Returns:
        `Weights` with `senders`, `receivers` and `values (*batch, edge)`: for `Edges` in the caller's order, else by
        receiver, then sender; with `top`, strongest first within each receiver.

    Raises:
        ShapeError: an axis does not fit, or a chosen query does not exist.

    >>> import torch
    >>> weights = attention_weights(torch.eye(3), torch.eye(3), top=1)
    >>> weights.senders.tolist()
    [0, 1, 2]
    """
    call = checked_call(
        "attention_weights", query, key, None, neighborhood, score, normalize, bias, edge_key, None, 0.0,
        has_value=False, edge_rows=edge_rows,
    )  # fmt: skip
    with without_autocast(call):
        return weigh(call.with_rows_of_edges(), top, queries)


def aggregate(
    value: Float[Tensor, " *batch key value_dim"],
    neighborhood: GivenNeighborhood = Full(),
    how: How = "sum",
    *,
    edge_value: Float[Tensor, " ... edge value_dim"] | None = None,
    num_queries: int | None = None,
    backend: str = "auto",
) -> Float[Tensor, " *out_batch query value_dim"]:
    """The reduction without weights: o_i = ⊕_{j∈N(i)} (v_j + v^e_ij), ⊕ the sum, mean, max or min.

    Args:
        value: `(*batch, key, value_dim)`.
        neighborhood: which values each output takes in.
        how: "sum", "mean", "max" or "min".
        edge_value: `(*batch, edge, value_dim)`; `Edges` only.
        num_queries: how many outputs, where the neighborhood does not know; as many as there are values by default.
        backend: as in `attend`.

    Raises:
        SettingError: `how` is none of the four.
        ShapeError: an axis does not fit.

    Empty: zero.
    Autocast: the dtype stays.

    >>> import torch
    >>> from edgewise import Edges
    >>> aggregate(torch.tensor([[1.0], [2.0], [4.0]]), Edges([0, 1, 2], [0, 0, 1], 3, 2), "max").tolist()
    [[2.0], [4.0]]
    """
    if how not in ("sum", "mean", "max", "min"):
        raise SettingError(f"aggregate: how must be 'sum', 'mean', 'max' or 'min', not {how!r}.")

    require_tensors("aggregate", {"value": value})
    if value.dim() < 2:
        raise ShapeError(f"aggregate: value must have the axes (…, node, feature), not shape {tuple(value.shape)}.")

    num_keys = value.shape[-2]
    neighborhood = neighborhood_of(
        "aggregate", neighborhood, num_keys if num_queries is None else num_queries, num_keys
    )
    if num_queries is None:
        num_queries = num_keys if neighborhood.sizes[0] is None else neighborhood.sizes[0]
    elif not torch.compiler.is_compiling() and num_queries < 0:
        raise ShapeError(f"aggregate: num_queries must not be negative, not {num_queries}.")

    key = value.new_empty(num_keys, 0)  # every score is the same
    query = key if num_queries == num_keys else value.new_empty(num_queries, 0)

    call = checked_call(
        "aggregate", query, key, value, neighborhood, _ALIKE, _MEAN if how == "mean" else _SUM, None, None, edge_value,
        0.0, follows_autocast=False,
    )  # fmt: skip
    with without_autocast(call):
        chosen = choose(call, backend)
        if how in ("sum", "mean"):
            return chosen.run(call)
        return largest(chosen, call) if how == "max" else -largest(chosen, call.negated())


_ALIKE, _MEAN, _SUM = Constant(), Mean(), Identity()


def why(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    neighborhood: GivenNeighborhood = Full(),
    *,
    score: Score = ScaledDot(),
    normalize: Normalize = Softmax(),
    bias: Tensor | None = None,
    edge_key: Tensor | None = None,
    edge_value: Tensor | None = None,
    edge_rows: EdgeRows | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
) -> str:
    """Which backend would run this call of `attend`, and why none of the faster ones does, as a text to print.

    >>> import torch
    >>> from edgewise import Edges
    >>> x = torch.randn(5, 8)
    >>> print(why(x, x, x, Edges([0, 1], [1, 0], 5, 5)))
    numba runs.
      sdpa refuses: the neighborhood is a list of edges.
      varlen refuses: the tensors are on cpu.
      flex refuses: the tensors are on cpu.
      uniform refuses: the neighborhood is Edges, not ranges; the weights of a row are not all the same.
      triton refuses: the tensors are on cpu.
    """
    call = checked_call(
        "why", query, key, value, neighborhood, score, normalize, bias, edge_key, edge_value, dropout,
        edge_rows=edge_rows,
    )  # fmt: skip
    chosen = choose(call, backend)
    passed_over = refused(call) if backend == "auto" else {}
    lines = [f"  {name} refuses: {'; '.join(reasons)}." for name, reasons in passed_over.items()]

    return "\n".join([f"{chosen.NAME} runs.", *lines])
