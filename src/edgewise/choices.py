"""Names of the choices of layers, models and the command line; without torch, so that --help is fast."""

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
"""The tokenizers that can be trained; WordPiece is only read from BERT checkpoints."""

Calibration = Literal["random", "group", "scaffold"]
"""How rows are drawn to calibrate intervals: single rows, groups, or scaffolds."""

Gaps = Literal["error", "mask", "interpolate"]
"""How missing and repeated times of a series are handled."""

CellName = Literal["lstm", "gru", "rnn"]
CELLS: tuple[str, ...] = get_args(CellName)

Aggregation = Literal["mean", "max", "sum"]

LookName = Literal["bahdanau", "dot", "general", "concat"]
LOOKS: tuple[str, ...] = get_args(LookName)

LocalName = Literal["monotonic", "predictive"]
LOCALS: tuple[str, ...] = get_args(LocalName)
