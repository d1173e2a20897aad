"""The registry of graph layers: one `LayerSpec` per name, for nodes, graphs, links and molecules.

It is free of torch, so that the command line can show names and recipes; layers are imported where they are built. A
new layer is one more entry here, and a line in docs/nodes.md; or an entry point of another package, see docs/extend.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from edgewise.choices import Registry
from edgewise.errors import SettingError

Nodes = TypeVar("Nodes")
Task = Literal["nodes", "graphs", "links", "molecules"]
ALWAYS_READ = ("model", "model_dim", "dropout")
"""The settings that every layer reads."""
NONE: Mapping[str, object] = MappingProxyType({})
EVERYWHERE: Mapping[Task, Mapping[str, object]] = MappingProxyType(
    {"nodes": NONE, "graphs": NONE, "links": NONE, "molecules": NONE}
)


@dataclass(frozen=True)
class LayerSpec:
    """A graph layer: its description, its constructor, its settings, and its recipe in each task."""

    name: str
    """The value of `--model`."""
    about: str
    """A description in one line."""
    source: str
    """The paper."""
    reads: tuple[str, ...] = ("num_layers",)
    """The settings that it reads, beside those that every layer reads."""
    recipes: Mapping[Task, Mapping[str, object]] = field(default_factory=lambda: EVERYWHERE)
    """The tasks that offer it, and the settings in which its recipe differs from that of the task."""
    reads_in: Mapping[Task, tuple[str, ...]] = field(default_factory=dict)
    """Settings that it reads in one task only."""
    build: Callable[[int, int, Any, int, bool], Any] | None = None
    """Makes one layer, a module, from (input_dim, output_dim, settings, edge_dim, is_last). Nodes, graphs and links
    stack them as the papers do, molecules in residual blocks. None where networks/node.py has a network of its own."""
    score: str | None = None
    """For molecules, the score of the multi-head attention that implements the layer."""
    needs_loops: bool = False
    """Whether a node must be among its own neighbors; convolutions add it themselves."""
    attends: bool = False
    """Whether its weights depend on the content, and are recorded in a trace."""
    has_edge_features: bool = False
    """Whether it reads features of edges."""
    reads_edge_weights: bool = False
    """Whether it reads one number an edge, zero or more, by which the message is multiplied."""
    adds_edge_features: bool = False
    """Whether it adds them to the features of senders, which must have the size of the layer then."""
    has_residual: bool = False
    """Whether nodes also pass it unchanged."""
    is_relational: bool = False
    """Whether it needs types of nodes and edges."""
    reads_sender_degrees: bool = False
    """Whether a message is divided by the in-degree of its sender."""
    over_distances: bool = False
    """Whether it attends over hop distances, `num_hops` far in one layer, instead of over neighbors."""
    needs_coordinates: bool = False
    """Whether it reads coordinates of atoms."""
    over_edges: bool = False
    """Whether edges carry the state, not nodes; one module then holds all layers."""

    def ignores_edges(self, num_features: int | None) -> bool:
        """Whether it reads none of these edge features."""
        return not self.has_edge_features and not (self.reads_edge_weights and num_features == 1)

    def check_edge_features(self, given: str, num_features: int | None, remedy: str = "leave it out") -> None:
        """Raise SettingError where edge features are given that the layer does not read.

        Args:
            given: how messages call them.
            num_features: the number of features; None for any.
            remedy: what else to do.
        """
        if not self.ignores_edges(num_features):
            return
        if self.reads_edge_weights:
            raise SettingError(
                f"{given}: --model {self.name} reads one number an edge, its weight; name one column, or take --model "
                f"{_listed(lambda spec: spec.has_edge_features)}, which reads all of them."
            )

        raise SettingError(
            f"{given} does nothing with --model {self.name}; only "
            f"{_listed(lambda spec: spec.has_edge_features)} reads edge features. Take one of these, or {remedy}."
        )

    def readable(self, task: Task) -> tuple[str, ...]:
        """The settings that it reads in a task."""
        return (*ALWAYS_READ, *self.reads, *self.reads_in.get(task, ()))


def _gat(input_dim: int, output_dim: int, settings: Any, edge_dim: int, is_last: bool) -> Any:
    from edgewise.layers.graph_attention import GraphAttention

    return GraphAttention(
        input_dim,
        output_dim,
        1 if is_last else settings.num_heads,
        score="gat" if settings.model == "gat" else "gatv2",
        edge_dim=edge_dim,
        dropout=settings.attention_dropout,
        value_dropout=settings.dropout,
    )


def _gcn(input_dim: int, output_dim: int, settings: Any, edge_dim: int, is_last: bool) -> Any:
    from edgewise.layers.convolution import SymmetricConvolution

    return SymmetricConvolution(input_dim, output_dim, activation=unchanged)


def _sage(input_dim: int, output_dim: int, settings: Any, edge_dim: int, is_last: bool) -> Any:
    from edgewise.layers.convolution import NeighborConvolution

    return NeighborConvolution(input_dim, output_dim, settings.aggregation, activation=unchanged)


def _gin(input_dim: int, output_dim: int, settings: Any, edge_dim: int, is_last: bool) -> Any:
    from edgewise.layers.convolution import IsomorphismConvolution

    return IsomorphismConvolution(input_dim, output_dim, settings.model_dim, edge_dim=edge_dim)


def unchanged(nodes: Nodes) -> Nodes:
    """σ of a layer whose caller applies one."""
    return nodes


_PAPER_OF_GAT = {
    "dropout": 0.6, "attention_dropout": 0.6, "learning_rate": 5e-3, "final_learning_rate": 5e-3, "epochs": 1000,
    "patience": 100,
}  # fmt: skip
_SPECS = (
    LayerSpec(
        "hop_attention",
        "a network on each node's own features, spread 1, 2, … `--num-hops` steps over the graph; each node attends "
        "over its hop distances",
        "Liu et al. 2020 (DAGNN)",
        reads=("num_hops", "normalize"),
        recipes={"nodes": {"weight_decay": 5e-3, "epochs": 1000, "patience": 100}, "graphs": NONE, "links": NONE},
        attends=True,
        reads_sender_degrees=True,
        over_distances=True,
    ),
    LayerSpec(
        "attention",
        "residual blocks of multi-head attention with `--score`, `--normalize`, and edge features in keys, values and "
        "scores",
        "Vaswani et al. 2017, Shirzad et al. 2023",
        reads=("num_layers", "num_heads", "score", "normalize", "attention_dropout"),
        recipes={
            "nodes": {"attention_dropout": 0.5},
            "graphs": NONE,
            "links": {"attention_dropout": 0.1},
            "molecules": NONE,
        },
        reads_in={
            "nodes": ("expander_degree", "num_virtual_nodes", "laplacian_positions", "random_walk_positions"),
            "graphs": ("laplacian_positions", "random_walk_positions"),
            "molecules": ("temperature", "combine"),
        },
        score="scaled_dot",
        needs_loops=True,
        attends=True,
        has_edge_features=True,
        has_residual=True,
    ),
    LayerSpec(
        "gat",
        "attention with one matrix and one vector a head, and edge features in the scores",
        "Veličković et al. 2018",
        reads=("num_layers", "num_heads", "attention_dropout"),
        recipes={"nodes": _PAPER_OF_GAT, "graphs": NONE, "links": NONE, "molecules": NONE},
        reads_in={"molecules": ("normalize", "temperature", "combine")},
        build=_gat,
        score="gat",
        needs_loops=True,
        attends=True,
        has_edge_features=True,
    ),
    LayerSpec(
        "gatv2",
        "the same with two matrices, one for each end of an edge, and the vector after the nonlinearity",
        "Brody et al. 2022",
        reads=("num_layers", "num_heads", "attention_dropout"),
        recipes={"nodes": _PAPER_OF_GAT, "graphs": NONE, "links": NONE, "molecules": NONE},
        reads_in={"molecules": ("normalize", "temperature", "combine")},
        build=_gat,
        score="gatv2",
        needs_loops=True,
        attends=True,
        has_edge_features=True,
    ),
    LayerSpec(
        "gcn",
        "the symmetric convolution; one edge feature is the weight of the edge",
        "Kipf & Welling 2017",
        recipes={"nodes": {"model_dim": 16}, "graphs": NONE, "links": {"model_dim": 128}, "molecules": NONE},
        build=_gcn,
        reads_sender_degrees=True,
        reads_edge_weights=True,
    ),
    LayerSpec(
        "sage",
        "the node itself and the `--aggregation` of its neighbors (mean, max or sum), each with a matrix; "
        "one edge feature is the weight of the edge",
        "Hamilton et al. 2017 (GraphSAGE)",
        reads=("num_layers", "aggregation"),
        recipes={"nodes": NONE, "graphs": NONE, "links": {"model_dim": 128}, "molecules": NONE},
        build=_sage,
        reads_edge_weights=True,
    ),
    LayerSpec(
        "gin",
        "a network of two matrices on (1 + ε) times the node and the sum of its neighbors, with edge features in what "
        "is summed",
        "Xu et al. 2019, Hu et al. 2020 (GINE)",
        build=_gin,
        has_edge_features=True,
        adds_edge_features=True,
    ),
    LayerSpec(
        "dmpnn",
        "messages that edges carry and that do not turn back; each step adds what arrives where an edge leaves",
        "Yang et al. 2019 (D-MPNN, chemprop)",
        recipes={"molecules": NONE},
        has_edge_features=True,
        over_edges=True,
    ),
    LayerSpec(
        "edge_attention",
        "the same with attention: each edge attends over the edges that arrive where it leaves, a gate for each",
        "Yang et al. 2019 with the attention of Vaswani et al. 2017",
        reads=("num_layers", "num_heads"),
        reads_in=dict.fromkeys(("nodes", "graphs", "links"), ("normalize",)),
        attends=True,
        has_edge_features=True,
        over_edges=True,
    ),
    LayerSpec(
        "rgcn",
        "the mean of the neighbors in each relation, through a matrix of its own",
        "Schlichtkrull et al. 2018",
        reads=("num_layers", "num_bases"),
        recipes={"nodes": NONE},
        is_relational=True,
    ),
    LayerSpec(
        "hgt",
        "attention over the neighbors in all relations, with matrices by type of node and by relation",
        "Hu et al. 2020",
        reads=("num_layers", "num_heads", "attention_dropout"),
        recipes={
            "nodes": {
                "dropout": 0.2, "optimizer": "adamw", "learning_rate": 5e-3, "final_learning_rate": 1e-6,
            }
        },
        attends=True,
        has_residual=True,
        is_relational=True,
    ),
    LayerSpec(
        "mat",
        "attention between all atoms of a molecule, mixed with distances and bonds",
        "Maziarka et al. 2020",
        reads=("num_layers", "num_heads", "attention_share", "distance_share", "distance_kernel"),
        recipes={"molecules": NONE},
        attends=True,
        has_residual=True,
        needs_coordinates=True,
    ),
)  # fmt: skip
LAYERS: Registry[LayerSpec] = Registry("layer", {spec.name: spec for spec in _SPECS}, LayerSpec)
"""All layers by name."""


def _listed(has: Callable[[LayerSpec], bool]) -> str:
    """The names of some layers, those for molecules alone left out: they always have features of bonds."""
    *others, last = (name for name, spec in LAYERS.items() if has(spec) and set(spec.recipes) != {"molecules"})
    return f"{', '.join(others)} or {last}"


def with_recipe(task: Task, name: str, *settings: Any) -> tuple[Any, ...]:
    """The settings of a task, those of the model first, with what the recipe of a layer changes in them."""
    changes = {"model": name, **LAYERS[name].recipes[task]}
    return tuple(
        replace(
            group,
            **{
                setting_field.name: changes[setting_field.name]
                for setting_field in fields(group)
                if setting_field.name in changes
            },
        )
        for group in settings
    )


def layers_for(*tasks: Task) -> tuple[str, ...]:
    """The names of the layers that some of these tasks have."""
    return tuple(name for name, spec in LAYERS.items() if any(task in spec.recipes for task in tasks))
