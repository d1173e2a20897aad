"""What models of tokens share: their vocabulary in a run folder, and how well they predict tokens."""

import math
from dataclasses import dataclass

import torch

from edgewise.choices import TokenKind
from edgewise.errors import DataError, RunFolderError
from edgewise.learn.fitted import Fitted
from edgewise.learn.progress import counted
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Idle, Loader
from edgewise.learn.training.loss import TokenLoss

MAX_EXPONENT = 700.0
"""Beyond it e^x overflows float64."""


def load_tokenizer(folder: RunFolder, kind: TokenKind, num_tokens: int | None = None) -> Tokenizer:
    """The vocabulary in tokenizer.json.

    Args:
        folder: where it is.
        kind: what a text is cut into.
        num_tokens: the tokens that the model knows; as many as the vocabulary has where it is None.

    Raises:
        RunFolderError: it is damaged, or has more tokens than the model.
    """
    path = folder.path / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_json(path.read_text("utf-8"), kind)
    except (DataError, OSError, ValueError) as error:
        raise RunFolderError(f"{path} is damaged: {error}") from error

    num_tokens = len(tokenizer) if num_tokens is None else num_tokens
    if tokenizer.largest >= num_tokens:
        largest = f"the token number {tokenizer.largest}"
        raise RunFolderError(f"{path} has {largest}, but the model knows {num_tokens} tokens.")
    return tokenizer


def save_tokenizer(folder: RunFolder, tokenizer: Tokenizer) -> None:
    """Writes tokenizer.json."""
    folder.write("tokenizer.json", tokenizer.to_json().encode())


TOKENIZER = {
    "saved": False,
    "write": save_tokenizer,
    "read": lambda folder, values: load_tokenizer(folder, values.get("tokens", "bpe"), values.get("num_tokens")),
}
"""The metadata of a field of an encoder that is a vocabulary in tokenizer.json."""


@dataclass(frozen=True)
class TokenScores:
    """How well tokens are predicted."""

    loss: float
    """The mean of −ln p."""
    accuracy: float
    """The fraction of the targets that get the highest score."""


def perplexity(loss: float) -> float:
    """e^loss, of a mean of −ln p."""
    return math.exp(min(loss, MAX_EXPONENT))


def token_scores(fitted: Fitted, loader: Loader) -> TokenScores:
    """The scores over the targets of some batches."""
    token_loss, total, num_right, count = TokenLoss(), 0.0, 0, 0
    with torch.no_grad(), cpu_threads(fitted.threads):
        for batch in counted(loader, "scoring tokens"):
            assert not isinstance(batch, Idle) and batch.targets is not None
            scores = fitted.model(batch)
            loss_sum, num_targets = token_loss(scores, batch.targets)[:2]
            total, count = total + float(loss_sum), count + int(num_targets)
            num_right += int((scores.argmax(-1) == batch.targets).sum())

    return TokenScores(total / max(count, 1), num_right / max(count, 1))
