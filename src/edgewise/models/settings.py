"""What a property model is made of: one dataclass of choices, free of torch so that the command line can show them."""

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from edgewise.choices import COMBINES, NORMALIZERS, SCORES, Combine, NormalizerName, ScoreName
from edgewise.errors import SettingError

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
