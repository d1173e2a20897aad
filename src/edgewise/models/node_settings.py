"""What a model of the nodes of a graph is made of; free of torch so that the command line can show it."""

from dataclasses import dataclass
from typing import Literal, get_args

from edgewise.choices import NORMALIZERS, SCORES, NormalizerName, ScoreName
from edgewise.errors import SettingError

NodeModelName = Literal["hops", "attention", "gat", "gatv2", "gcn", "mean", "rgcn", "hgt"]
NODE_MODELS: tuple[str, ...] = get_args(NodeModelName)
OF_ALL = ("model", "model_dim", "dropout")
"""The choices that every model looks at."""
OF_SOME: dict[str, tuple[str, ...]] = {
    "hops": ("num_hops", "normalize"),
    "attention": ("score", "normalize", "num_layers", "num_heads", "attention_dropout"),
    "gat": ("num_layers", "num_heads", "attention_dropout"),
    "gatv2": ("num_layers", "num_heads", "attention_dropout"),
    "gcn": ("num_layers",),
    "mean": ("num_layers",),
    "rgcn": ("num_layers", "num_bases"),
    "hgt": ("num_layers", "num_heads", "attention_dropout"),
}
"""Those that some look at."""
OF_ONE_GRAPH: dict[str, tuple[str, ...]] = {
    "attention": ("expander_degree", "num_virtual_nodes", "laplacian_positions", "random_walk_positions")
}
"""Those that some look at where all nodes are those of one graph."""
RELATIONAL = ("rgcn", "hgt")
"""The models that look at kinds of nodes and edges, and need them."""


@dataclass(frozen=True)
class NodeSettings:
    """The layers over a graph, and their sizes."""

    model: NodeModelName = "hops"
    """hops, attention over distances; attention, blocks of attention with the chosen score; or a paper's layers."""
    score: ScoreName = "scaled_dot"
    """How well two nodes match, with model attention."""
    normalize: NormalizerName | None = None
    """From scores to weights, with models attention (softmax where it is None) and hops (sigmoid)."""
    num_layers: int = 2
    """Layers over the edges: as many hops as a node can see."""
    num_hops: int = 10
    """Steps over the graph that model hops looks back on."""
    num_heads: int = 8
    """Attentions side by side."""
    model_dim: int = 64
    """Size of a node's vector, all heads together."""
    dropout: float = 0.5
    """Of features, and between layers."""
    attention_dropout: float = 0.0
    """Of weights, with models gat, gatv2, attention and hgt."""
    expander_degree: int = 0
    """Neighbors that each node gets beside its own, drawn at random, with model attention; even, 0 for none."""
    num_virtual_nodes: int = 0
    """Nodes that are joined with all others, with model attention."""
    laplacian_positions: int = 0
    """Eigenvectors of the graph's Laplacian that say where a node stands, with model attention."""
    random_walk_positions: int = 0
    """Steps of random walks whose return says where a node stands, with model attention."""
    num_bases: int | None = None
    """Matrices that the relations of model rgcn share; None gives each its own."""

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("--model", self.model, NODE_MODELS),
            ("--score", self.score, SCORES),
            ("--normalize", self.normalize, (*NORMALIZERS, None)),
        ):
            if value not in choices:
                raise SettingError(f"{name} is {value!r}; for nodes expected one of {', '.join(map(str, choices))}.")
        for name in ("num_layers", "num_hops", "num_heads", "model_dim"):
            if getattr(self, name) < 1:
                raise SettingError(f"--{name.replace('_', '-')} is {getattr(self, name)}; expected at least 1.")
        for name in ("expander_degree", "num_virtual_nodes", "laplacian_positions", "random_walk_positions"):
            if getattr(self, name) < 0:
                raise SettingError(f"--{name.replace('_', '-')} is {getattr(self, name)}; expected 0 or more.")
        if self.expander_degree % 2 != 0:
            raise SettingError(f"--expander-degree is {self.expander_degree}; expected an even number, or 0 for none.")
        if self.num_bases is not None and self.num_bases < 1:
            raise SettingError(f"--num-bases is {self.num_bases}; expected at least 1.")
        if self.model in ("attention", "gat", "gatv2", "hgt") and self.model_dim % self.num_heads != 0:
            raise SettingError(f"--model-dim ({self.model_dim}) must be a multiple of --num-heads ({self.num_heads}).")
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingError(f"--{name.replace('_', '-')} is {getattr(self, name)}; expected 0 to below 1.")

    @property
    def has_loops(self) -> bool:
        """Whether the model wants every node among its own neighbors; convolutions add it themselves."""
        return self.model in ("attention", "gat", "gatv2")

    @property
    def is_extended(self) -> bool:
        """Whether edges are added that the graph does not have; each edge then tells where it comes from."""
        return self.expander_degree > 0 or self.num_virtual_nodes > 0

    @property
    def is_relational(self) -> bool:
        """Whether the model looks at kinds of nodes and edges."""
        return self.model in RELATIONAL


@dataclass(frozen=True)
class NodeSizes:
    """What a model of nodes must know of the data it is made for."""

    num_features: int
    """Features of a node."""
    num_edge_features: int
    """Features of an edge."""
    num_outputs: int
    """Numbers to tell of a node."""
    kind_features: tuple[int, ...] = ()
    """Features of each kind of nodes, with models that look at kinds."""
    num_relations: int = 0
    """Kinds of edges, likewise."""
