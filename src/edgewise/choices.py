"""The names of the choices that layers, models and the command line offer; free of torch, so that help is quick."""

from typing import Literal, get_args

ScoreName = Literal["scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"]
SCORES: tuple[str, ...] = get_args(ScoreName)

NormalizerName = Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"]
NORMALIZERS: tuple[str, ...] = get_args(NormalizerName)

Combine = Literal["concatenate", "weights", "tensor", "mean", "max"]
COMBINES: tuple[str, ...] = get_args(Combine)

Activation = Literal["gelu", "gelu_tanh", "relu"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)

PositionName = Literal["rotary", "learned", "sinusoidal", "alibi", "t5", "shaw", "none"]
POSITIONS: tuple[str, ...] = get_args(PositionName)

TokenKind = Literal["characters", "words", "bpe", "wordpiece"]
TOKEN_KINDS = ("characters", "words", "bpe")
"""Those that can be learned; the pieces of words of BERT's checkpoints are only read."""

Calibration = Literal["random", "group", "scaffold"]
"""How the rows that calibrate intervals are drawn: single rows, whole groups, or whole scaffolds."""

Gaps = Literal["error", "mask", "interpolate"]
"""What happens to missing and repeated times of a series."""

CellName = Literal["lstm", "gru", "rnn"]
CELLS: tuple[str, ...] = get_args(CellName)

Aggregation = Literal["mean", "max", "sum"]

LookName = Literal["bahdanau", "dot", "general", "concat"]
LOOKS: tuple[str, ...] = get_args(LookName)

LocalName = Literal["monotonic", "predictive"]
LOCALS: tuple[str, ...] = get_args(LocalName)
