"""Normalizers by their names."""

from edgewise.choices import NormalizerName
from edgewise.normalize import Entmax15, Hardmax, Identity, Mean, Normalize, Sigmoid, Softmax, Sparsemax


def normalizer_of(name: NormalizerName, temperature: float = 1.0) -> Normalize:
    """The normalizer that a name of `choices.NORMALIZERS` stands for; the temperature is softmax's."""
    if name == "softmax":
        return Softmax(temperature)
    choices: dict[str, Normalize] = {
        "hardmax": Hardmax(straight_through=True),
        "sparsemax": Sparsemax(),
        "entmax15": Entmax15(),
        "sigmoid": Sigmoid(),
        "mean": Mean(),
        "identity": Identity(),
    }
    return choices[name]
