"""What models of nodes, graphs, links and molecules are made of; free of torch so that the command line can show it."""

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from edgewise.choices import COMBINES, NORMALIZERS, SCORES, Combine, NormalizerName, ScoreName
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


GraphReadoutName = Literal["attention_sum", "attention", "mean", "sum", "max", "root"]
GRAPH_READOUTS: tuple[str, ...] = get_args(GraphReadoutName)


@dataclass(frozen=True)
class GraphSettings:
    """What stands behind the layers over the edges."""

    readout: GraphReadoutName = "attention_sum"
    """What makes one vector of all nodes: attention and sum side by side, one of attention, mean, sum and max, or the
    root of a tree, which looks at all nodes that lead to it."""
    head_dim: int = 128
    """Size of a graph's vector, where it meets numbers of the graph."""
    num_head_layers: int = 2
    """Blocks that a graph's vector goes through."""
    num_variants: int | None = None
    """Variants of the head that share their matrices and are averaged; None is 8, or 4 where batches are large."""
    head_dropout: float = 0.05
    """In the blocks of the head."""

    def __post_init__(self) -> None:
        if self.readout not in GRAPH_READOUTS:
            raise SettingError(
                f"--readout is {self.readout!r}; for graphs expected one of {', '.join(GRAPH_READOUTS)}."
            )
        for name in ("head_dim", "num_head_layers", "num_variants"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"--{name.replace('_', '-')} is {value}; expected at least 1.")
        if not 0 <= self.head_dropout <= 0.5:
            raise SettingError(f"--head-dropout is {self.head_dropout}; expected 0 to 0.5.")

    @property
    def needs_roots(self) -> bool:
        """Whether every graph must have a root."""
        return self.readout == "root"

    def resolved(self, batch_size: int) -> "GraphSettings":
        """The same choices with a number of variants that fits the graphs of a step."""
        return replace(self, num_variants=self.num_variants or variants_for(batch_size))


@dataclass(frozen=True)
class GraphSizes:
    """What a model of graphs must know of the data it is made for."""

    num_features: int
    """Features of a node."""
    num_edge_features: int
    """Features of an edge."""
    num_conditions: int
    """Numbers of a graph as a whole."""
    num_outputs: int
    """Numbers to tell of a graph."""
    typical_nodes: float
    """Nodes of a typical training graph, the unit in which sums over nodes are taken."""

    def __post_init__(self) -> None:
        check_unit("typical_nodes", self.typical_nodes)


DecoderName = Literal["dot", "hadamard_mlp", "bilinear"]
DECODERS: tuple[str, ...] = get_args(DecoderName)


@dataclass(frozen=True)
class LinkSettings:
    """What is made of the vectors of two nodes."""

    decoder: DecoderName = "dot"
    """dot, their dot product; hadamard_mlp, a network on their product number by number; bilinear, a learned matrix
    between them."""

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            raise SettingError(f"--decoder is {self.decoder!r}; expected one of {', '.join(DECODERS)}.")


ModelName = Literal["attention", "gat", "gatv2", "gcn", "mean", "mat"]
MODELS: tuple[str, ...] = get_args(ModelName)
KernelName = Literal["softmax", "exponential"]
KERNELS: tuple[str, ...] = get_args(KernelName)
_WEIGHING = ("normalize", "temperature", "combine")
_MIXING = ("attention_share", "distance_share", "distance_kernel")
FOREIGN: dict[str, tuple[str, ...]] = {
    "attention": _MIXING,
    "gat": _MIXING,
    "gatv2": _MIXING,
    "gcn": (*_WEIGHING, *_MIXING),
    "mean": (*_WEIGHING, *_MIXING),
    "mat": _WEIGHING,
}
"""The choices that each model does not look at."""


@dataclass(frozen=True)
class PropertySettings:
    """The choices that the operator offers, and the sizes of a property model."""

    model: ModelName = "attention"
    """The layer: attention with the chosen score; gat or gatv2, attention with theirs; gcn or mean, a convolution; mat,
    attention between all atoms, mixed with distances and bonds."""
    score: ScoreName | None = None
    """How well a pair of atoms matches; None is what `model` says, scaled_dot for attention."""
    normalize: NormalizerName = "softmax"
    """From the scores of a neighborhood to its weights."""
    temperature: float = 1.0
    """Softmax's: 0 is hard, 1 soft, infinity uniform."""
    combine: Combine = "concatenate"
    """How the heads are joined."""
    attention_share: float = 0.33
    """Of attention in what an atom of mat looks at; bonds have what is left."""
    distance_share: float = 0.33
    """Of the distances."""
    distance_kernel: KernelName = "softmax"
    """From distances to weights: softmax(−D) over the molecule, or exponential, exp(−D)."""
    num_layers: int = 3
    """Layers over the bonds: as many hops as an atom can see."""
    num_heads: int = 4
    """Attentions side by side."""
    model_dim: int = 64
    """Size of an atom's vector."""
    head_dim: int = 128
    """Size of a row's vector, where molecules meet conditions."""
    num_head_layers: int = 2
    """Blocks that a row's vector goes through."""
    num_variants: int | None = None
    """Variants of the head that share their matrices and are averaged; None is 8, or 4 where batches are large."""
    encoder_dropout: float = 0.05
    """In the layers over the bonds."""
    molecule_dropout: float = 0.1
    """On the molecule's vector."""
    descriptor_dropout: float = 0.1
    """On the molecule's descriptors, before they are mixed; twice as much after."""
    head_dropout: float = 0.05
    """In the blocks of the head."""

    def __post_init__(self) -> None:
        _require_one_of("--model", self.model, MODELS)
        if self.score is not None:
            _require_one_of("--score", self.score, SCORES)
            if self.model != "attention":
                raise SettingError(f"--score goes with --model attention; --model {self.model} has its own.")
        for name in FOREIGN[self.model]:
            if getattr(self, name) != getattr(PropertySettings, name):
                flag = f"--{name.replace('_', '-')}"
                raise SettingError(f"{flag} does nothing with --model {self.model}; leave it out.")
        _require_one_of("--distance-kernel", self.distance_kernel, KERNELS)
        shares = self.attention_share, self.distance_share
        if not (min(shares) >= 0 and sum(shares) <= 1):
            raise SettingError(
                f"--attention-share is {shares[0]} and --distance-share {shares[1]}; expected at least 0, at most 1 "
                "together."
            )
        _require_one_of("--normalize", self.normalize, NORMALIZERS)
        _require_one_of("--combine", self.combine, COMBINES)
        if self.temperature != 1.0 and self.normalize != "softmax":
            raise SettingError(f"--temperature goes with --normalize softmax, not {self.normalize}.")
        if not self.temperature >= 0:
            raise SettingError(f"--temperature is {self.temperature}; expected at least 0.")
        for name in ("num_layers", "num_heads", "model_dim", "head_dim", "num_head_layers", "num_variants"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"--{name.replace('_', '-')} is {value}; expected at least 1.")
        if self.model_dim % self.num_heads != 0:
            raise SettingError(f"--model-dim ({self.model_dim}) must be a multiple of --num-heads ({self.num_heads}).")
        for name in ("encoder_dropout", "molecule_dropout", "descriptor_dropout", "head_dropout"):
            if not 0 <= getattr(self, name) <= 0.5:
                raise SettingError(f"--{name.replace('_', '-')} is {getattr(self, name)}; expected 0 to 0.5.")

    @property
    def score_name(self) -> ScoreName:
        """The score that the choices come to."""
        named: dict[ModelName, ScoreName] = {"gat": "gat", "gatv2": "gatv2"}
        return self.score or named.get(self.model, "scaled_dot")

    @property
    def needs_coordinates(self) -> bool:
        """Whether the model looks at where the atoms are."""
        return self.model == "mat"

    def resolved(self, batch_size: int) -> "PropertySettings":
        """The same choices with a number of variants that fits the rows of a step: few rows leave time for many."""
        return replace(self, num_variants=self.num_variants or variants_for(batch_size))


@dataclass(frozen=True)
class PropertySizes:
    """What a property model must know of the data it is made for."""

    num_node_features: int
    """Features of an atom."""
    num_edge_features: int
    """Features of a bond."""
    num_global_features: int
    """Descriptors of a molecule; 0 for none."""
    num_components: int
    """Molecules of a row: 1, or 2 for a cation and an anion."""
    num_conditions: int
    """Conditions of a row, such as temperature and pressure; 0 for none."""
    num_outputs: int
    """Numbers to predict."""
    typical_nodes: float = 16.0
    """Atoms of a typical training molecule, the unit in which sums over atoms are taken."""
    low: tuple[float, ...] | None = None
    """The least value of each output in model units, where all outputs are fractions; None where they are not."""
    high: tuple[float, ...] | None = None
    """The largest value of each output."""

    def __post_init__(self) -> None:
        check_unit("typical_nodes", self.typical_nodes)


def check_unit(name: str, value: float) -> None:
    """Raise SettingError unless a number can be divided by, as a unit of sums."""
    if not 0 < value < math.inf:
        raise SettingError(f"{name} is {value}; expected a number above 0.")


def variants_for(batch_size: int) -> int:
    """Variants of a head that fit the rows of a step."""
    return min(8, max(4, 1024 // batch_size))


def _require_one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SettingError(f"{name} is {value!r}; expected one of {', '.join(choices)}.")
