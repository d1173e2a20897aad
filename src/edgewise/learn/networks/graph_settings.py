"""The settings of models of nodes, graphs, links and molecules; without torch, so that the command line starts fast."""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from edgewise.choices import SCORES, Aggregation, Combine, NormalizerName
from edgewise.errors import SettingError
from edgewise.learn.networks.graph_layers import LAYERS, LayerSpec, layers_for
from edgewise.learn.settings import (
    MAX_DIM,
    MAX_LAYERS,
    MODEL_DIM_ALIASES,
    NUM_HEADS_ALIASES,
    NUM_LAYERS_ALIASES,
    Values,
    check,
    check_heads,
    setting,
    spelled,
)

RELATIONAL = f"take --model {' or '.join(name for name, spec in LAYERS.items() if spec.is_relational)}"
"""The remedy where a model ignores types of nodes and edges."""


@dataclass(frozen=True)
class NodeSettings:
    """The layers over a graph, and their sizes."""

    model: str = setting("hop_attention", choices=layers_for("nodes", "graphs", "links"))
    """The graph layer: hop_attention, attention over hop distances; attention, blocks of attention with the chosen
    score; edge_attention, attention among edges; or the layer of a paper."""
    score: str = setting("scaled_dot", choices=tuple(SCORES))
    """The score of two nodes, with model attention."""
    normalize: NormalizerName | None = setting(None)
    """The normalization of scores, with models attention (softmax by default), hop_attention and edge_attention
    (sigmoid)."""
    num_layers: int = setting(2, at_least=1, at_most=MAX_LAYERS, aliases=NUM_LAYERS_ALIASES)
    """Layers over the edges: as many hops as a node can see."""
    num_hops: int = setting(10, at_least=1, at_most=MAX_LAYERS)
    """Largest distance that model hop_attention attends to."""
    num_heads: int = setting(8, at_least=1, at_most=MAX_DIM, aliases=NUM_HEADS_ALIASES)
    """Attention heads."""
    model_dim: int = setting(64, at_least=1, at_most=MAX_DIM, aliases=MODEL_DIM_ALIASES)
    """Size of a node's vector, all heads together."""
    dropout: float = setting(0.5, at_least=0, below=1)
    """Dropout of features, and between layers."""
    attention_dropout: float = setting(0.0, at_least=0, below=1)
    """Dropout of attention weights, with models gat, gatv2, attention and hgt."""
    expander_degree: int = setting(0, at_least=0, at_most=1024, even=True)
    """Random neighbors that each node gets beside its own, with model attention; 0 for none."""
    num_virtual_nodes: int = setting(0, at_least=0, at_most=1024)
    """Nodes that are joined with all others, with model attention."""
    laplacian_positions: int = setting(0, at_least=0, at_most=MAX_DIM)
    """Eigenvectors of the graph's Laplacian as positions of nodes, with model attention."""
    random_walk_positions: int = setting(0, at_least=0, at_most=MAX_DIM)
    """Steps of random walks, whose return probabilities are positions of nodes, with model attention."""
    num_bases: int | None = setting(None, at_least=1, at_most=MAX_DIM)
    """Matrices that the relations of model rgcn share; None gives each its own."""
    aggregation: Aggregation = setting("mean")
    """How model sage joins the neighbors of a node."""

    def __post_init__(self) -> None:
        check(self)
        if "num_heads" in self.spec.reads:
            check_heads(self)

    @property
    def spec(self) -> LayerSpec:
        """The layer."""
        return LAYERS[self.model]

    @property
    def has_loops(self) -> bool:
        """Whether every node must be among its own neighbors; convolutions add it themselves."""
        return self.spec.needs_loops

    @property
    def reach(self) -> int:
        """How many hops away the nodes are that an output depends on."""
        return self.num_hops if self.spec.over_distances else self.num_layers

    @property
    def has_positions(self) -> bool:
        """Whether nodes have positions in their graph."""
        return self.laplacian_positions > 0 or self.random_walk_positions > 0

    @property
    def is_extended(self) -> bool:
        """Whether edges are added that the graph does not have; each edge then has a feature with its origin."""
        return self.expander_degree > 0 or self.num_virtual_nodes > 0

    @property
    def is_relational(self) -> bool:
        """Whether the layer reads types of nodes and edges."""
        return self.spec.is_relational


def num_edge_inputs(num_columns: int, settings: NodeSettings, num_added: int = 0) -> int:
    """How many features of an edge a model reads.

    Args:
        num_columns: features of an edge in the data.
        settings: the layers; those that need loops get a feature that marks them.
        num_added: features that the model adds.
    """
    return (num_columns + settings.has_loops if num_columns else 0) + num_added


@dataclass(frozen=True)
class NodeSizes:
    """The sizes of the data that a model of nodes is made for."""

    num_features: int
    """Features of a node."""
    num_edge_features: int
    """Features of an edge."""
    num_outputs: int
    """Outputs for a node."""
    type_features: tuple[int, ...] = ()
    """Features of each type of nodes, with layers that read types."""
    num_relations: int = 0
    """Types of edges, likewise."""


GraphReadoutName = Literal["attention_sum", "attention", "mean", "sum", "max", "root"]
GRAPH_READOUTS: tuple[str, ...] = get_args(GraphReadoutName)


@dataclass(frozen=True)
class GraphSettings:
    """The readout and the head after the layers over the edges."""

    readout: GraphReadoutName = setting("attention_sum")
    """How node vectors become one vector of the graph: attention and sum side by side, one of attention, mean, sum and
    max, or the vector of a tree's root, which depends on all nodes that lead to it."""
    head_dim: int = setting(128, at_least=1, at_most=MAX_DIM, aliases=("ffn-hidden-dim",))
    """Size of a graph's vector, which is combined with numbers of the graph."""
    num_head_layers: int = setting(2, at_least=1, at_most=MAX_LAYERS, aliases=("ffn-num-layers",))
    """Blocks of the head."""
    num_variants: int | None = setting(None, at_least=1, at_most=MAX_DIM)
    """Variants of the head that share their matrices and are averaged; None is 8, or 4 where batches are large."""
    head_dropout: float = setting(0.05, at_least=0, at_most=0.5)
    """In the blocks of the head."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def needs_roots(self) -> bool:
        """Whether every graph must have a root."""
        return self.readout == "root"

    def resolved(self, batch_size: int) -> "GraphSettings":
        """The same choices with a number of variants that fits the graphs of a step."""
        return replace(self, num_variants=self.num_variants or variants_for(batch_size))


@dataclass(frozen=True)
class GraphSizes:
    """The sizes of the data that a model of graphs is made for."""

    num_features: int
    """Features of a node."""
    num_edge_features: int
    """Features of an edge."""
    num_conditions: int
    """Numbers of a graph as a whole."""
    num_outputs: int
    """Outputs for a graph."""
    typical_nodes: float
    """Nodes of a typical training graph, the unit in which sums over nodes are taken."""

    def __post_init__(self) -> None:
        check_unit("typical_nodes", self.typical_nodes)


DecoderName = Literal["dot", "hadamard_mlp", "bilinear"]
DECODERS: tuple[str, ...] = get_args(DecoderName)


@dataclass(frozen=True)
class LinkSettings:
    """How the vectors of two nodes become a score."""

    decoder: DecoderName = setting("dot")
    """dot, their dot product; hadamard_mlp, a network on their elementwise product; bilinear, a learned matrix
    between them."""

    def __post_init__(self) -> None:
        check(self)


KernelName = Literal["softmax", "exponential"]
MANY_MOLECULES = 1000
"""Distinct training molecules from which on attention among bonds learns more than attention among atoms; learned
from validation rows, see docs/experiments/molecule_networks.md."""


class PropertyNumbers(NamedTuple):
    """The values of None in the settings of a model of molecules, by their names."""

    model_dim: int = 64
    head_dim: int = 128
    encoder_dropout: float = 0.05
    molecule_dropout: float = 0.1
    descriptor_dropout: float = 0.1
    head_dropout: float = 0.05


DEFAULT_NUMBERS = PropertyNumbers()
WIDE = {"model_dim": 256, "head_dim": 256}
OF_LAYERS = {"dmpnn": WIDE, "edge_attention": WIDE}
"""For layers that learn more with other sizes."""
CLASSIFICATION_DROPOUTS = {
    "encoder_dropout": 0.1,
    "molecule_dropout": 0.3,
    "descriptor_dropout": 0.3,
    "head_dropout": 0.3,
}
"""For classification, which overfits sooner."""
KNOWN_MOLECULE_DROPOUTS = {"molecule_dropout": 0.05, "descriptor_dropout": 0.05, "head_dropout": 0.0}
"""For regression with many rows per molecule: the model learns how molecules respond to conditions."""


@dataclass(frozen=True)
class PropertySettings:
    """The choices that the operator offers, and the sizes of a property model."""

    model: str | None = setting(None, choices=layers_for("molecules"))
    """The layer: attention with the chosen score; gat or gatv2, attention with theirs; gcn, sage or gin, a convolution;
    dmpnn, messages along bonds that do not turn back; edge_attention, bonds that attend over the bonds before them;
    mat (Molecule Attention Transformer), attention between all atoms, mixed with distances and bonds. None is
    edge_attention where 1,000 molecules or more are learned from and no setting of attention among atoms is given,
    else attention."""
    score: str | None = setting(None, choices=tuple(SCORES))
    """The score of a pair of atoms; None is that of `model`, scaled_dot for attention."""
    normalize: NormalizerName = setting("softmax")
    """The normalization of the scores of a neighborhood."""
    temperature: float = setting(1.0, at_least=0)
    """Temperature of softmax: 0 is hard, 1 soft, inf uniform."""
    combine: Combine = setting("concatenate")
    """How the heads are joined."""
    attention_share: float = setting(0.33)
    """With mat: the share of attention in the weights; bonds get the remainder."""
    distance_share: float = setting(0.33)
    """With mat: the share of distances."""
    distance_kernel: KernelName = setting("softmax")
    """With mat, from distances to weights: softmax(−D) over the molecule, or exponential, exp(−D)."""
    aggregation: Aggregation = setting("mean")
    """How sage joins the neighbors of an atom."""
    num_layers: int = setting(3, at_least=1, at_most=MAX_LAYERS, aliases=NUM_LAYERS_ALIASES)
    """Layers over the bonds: as many hops as an atom can see."""
    num_heads: int = setting(4, at_least=1, at_most=MAX_DIM, aliases=NUM_HEADS_ALIASES)
    """Attention heads."""
    model_dim: int | None = setting(None, at_least=1, at_most=MAX_DIM, aliases=MODEL_DIM_ALIASES)
    """Size of an atom's vector. None is 256 with dmpnn and edge_attention, 64 with the others."""
    head_dim: int | None = setting(None, at_least=1, at_most=MAX_DIM, aliases=("ffn-hidden-dim",))
    """Size of a row's vector, where molecules are combined with descriptors. None is 256 with dmpnn and edge_attention,
    128 with the others."""
    num_head_layers: int = setting(2, at_least=1, at_most=MAX_LAYERS, aliases=("ffn-num-layers",))
    """Blocks of the head."""
    num_variants: int | None = setting(None, at_least=1, at_most=MAX_DIM)
    """Variants of the head that share their matrices and are averaged; None is 8, or 4 where batches are large."""
    encoder_dropout: float | None = setting(None, at_least=0, at_most=0.5)
    """Dropout in the layers over the bonds. None is 0.05, for classes 0.1."""
    molecule_dropout: float | None = setting(None, at_least=0, at_most=0.5)
    """Dropout of the molecule's vector. None is 0.1, for classes 0.3."""
    descriptor_dropout: float | None = setting(None, at_least=0, at_most=0.5)
    """Dropout of the molecule's descriptors before they are mixed; after, twice as much, at most 0.9. None is 0.1, for
    classes 0.3."""
    head_dropout: float | None = setting(None, at_least=0, at_most=0.5)
    """Dropout in the blocks of the head. None is 0.05, for classes 0.3."""

    def __post_init__(self) -> None:
        check(self)
        if self.score is not None and self.model not in (None, "attention"):
            raise SettingError(f"--score goes with --model attention; --model {self.model} has its own.")
        for name in () if self.model is None else self._given_beyond(self.spec):
            raise SettingError(f"{spelled(name)} does nothing with --model {self.model}; leave it out.")
        shares = self.attention_share, self.distance_share
        if not (min(shares) >= 0 and sum(shares) <= 1):
            raise SettingError(
                f"--attention-share is {shares[0]} and --distance-share {shares[1]}; expected at least 0, at most 1 "
                "together."
            )
        if self.temperature != 1.0 and self.normalize != "softmax":
            raise SettingError(f"--temperature goes with --normalize softmax, not {self.normalize}.")

        # The readout has heads, too, but after layers over edges.
        has_heads = "num_heads" in self.spec.reads or not self.spec.over_edges
        if self.model_dim is not None and has_heads:
            check_heads(self)

    def _given_beyond(self, spec: LayerSpec) -> list[str]:
        """The settings that were changed but that the layer does not read."""
        layers = [LAYERS[name] for name in layers_for("molecules")]
        read = {name for layer in layers for name in layer.readable("molecules")} - {"model", "num_heads", "score"}
        changed = [name for name in sorted(read) if getattr(self, name, None) != getattr(PropertySettings, name, None)]
        return [name for name in changed if name not in spec.readable("molecules")]

    @property
    def spec(self) -> LayerSpec:
        """The layer."""
        return LAYERS[self.model or "attention"]

    @property
    def score_name(self) -> str:
        """The score that the settings choose."""
        return self.score or self.spec.score or "scaled_dot"

    @property
    def needs_coordinates(self) -> bool:
        """Whether the layer reads coordinates of atoms."""
        return self.spec.needs_coordinates

    def resolved(
        self,
        batch_size: int,
        num_molecules: int = 0,
        *,
        is_classification: bool = False,
        known_molecules: bool = False,
    ) -> "PropertySettings":
        """The same settings with every None replaced.

        Args:
            batch_size: rows of a step; few of them leave time for many variants.
            num_molecules: distinct molecules in the training rows.
            is_classification: whether classes are predicted.
            known_molecules: whether the rows to predict are of molecules that have many training rows.
        """
        among_atoms = self.score is not None or self._given_beyond(LAYERS["edge_attention"])
        among_bonds = num_molecules >= MANY_MOLECULES and not among_atoms
        model = self.model or ("edge_attention" if among_bonds else "attention")
        chosen = replace(self, model=model, num_variants=self.num_variants or variants_for(batch_size))
        dropouts = CLASSIFICATION_DROPOUTS if is_classification else KNOWN_MOLECULE_DROPOUTS if known_molecules else {}

        return replace(chosen, **chosen._numbers(dropouts)._asdict())

    @property
    def numbers(self) -> PropertyNumbers:
        """The sizes and dropouts, those of the layer where none are given."""
        return self._numbers({})

    def _numbers(self, dropouts: Values) -> PropertyNumbers:
        chosen = {name: getattr(self, name) for name in PropertyNumbers._fields if getattr(self, name) is not None}
        return DEFAULT_NUMBERS._replace(**OF_LAYERS.get(self.spec.name, {}), **dropouts)._replace(**chosen)


@dataclass(frozen=True)
class PropertySizes:
    """The sizes of the data that a property model is made for."""

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
    """The smallest value of each output in model units, where all outputs are fractions; None where they are not."""
    high: tuple[float, ...] | None = None
    """The largest value of each output."""

    def __post_init__(self) -> None:
        check_unit("typical_nodes", self.typical_nodes)


def check_unit(name: str, value: float) -> None:
    """Raise SettingError unless a number is a valid divisor of sums."""
    if not 0 < value < math.inf:
        raise SettingError(f"{name} is {value}; expected a number above 0.")


def variants_for(batch_size: int) -> int:
    """Variants of a head that fit the rows of a step."""
    return min(8, max(4, 1024 // batch_size))
