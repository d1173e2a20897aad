"""Text generation: draw the next token, append it, predict again."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.layers.cache import Cache
from edgewise.learn.networks.language import NextTokenModel
from edgewise.learn.networks.text_settings import SamplingSettings


@torch.no_grad()
def generate(
    model: NextTokenModel,
    prompt: Int64[Tensor, " token"],
    settings: SamplingSettings,
    *,
    end_token: int | None = None,
    forbidden: Sequence[int] = (),
) -> Iterator[int]:
    """The tokens that follow a prompt, one at a time.

    A model with learned positions reads at most `context` tokens: when the text grows longer, generation continues from
    the last half of them.

    Args:
        model: in evaluation mode.
        prompt: at least one token; the model reads the last `context` of them.
        settings: how tokens are drawn.
        end_token: the token that ends a text; it is not yielded. None generates `settings.num_tokens` tokens.
        forbidden: tokens that are never drawn, such as <unk>.

    Cost: one step of the model for each token, its keys and values cached.
    """
    device = prompt.device
    generator = torch.Generator(device).manual_seed(settings.seed)
    limit = model.settings.context if model.settings.position == "learned" else None
    tokens, cache = prompt, Cache()

    unread = tokens if limit is None else tokens[-limit:]
    for _ in range(settings.num_tokens):
        if limit is not None and cache.length + unread.shape[0] > limit:
            cache, unread = Cache(), tokens[-max(1, limit // 2) :]
        scores = model.scores(model.nodes(unread[None], cache=cache)[0, -1])
        scores[list(forbidden)] = -torch.inf
        unread = next_token(scores, tokens, settings, generator)
        if end_token is not None and int(unread) == end_token:
            return
        tokens = torch.cat([tokens, unread])
        yield int(unread)


def next_token(
    scores: Float[Tensor, " vocabulary"],
    tokens: Int64[Tensor, " token"],
    settings: SamplingSettings,
    generator: torch.Generator,
) -> Int64[Tensor, " one"]:
    """One token, drawn from the scores after the repetition penalty, temperature, top k and top p."""
    scores = scores.float()
    if settings.repetition_penalty != 1:
        seen_tokens = tokens.unique()
        repeated_scores = scores[seen_tokens]
        penalty = settings.repetition_penalty
        scores = scores.index_put(
            (seen_tokens,), torch.where(repeated_scores > 0, repeated_scores / penalty, repeated_scores * penalty)
        )

    if settings.temperature == 0:
        return scores.argmax(keepdim=True)
    ordered, order = scores.sort(descending=True, stable=True)
    if settings.top_k is not None and settings.top_k < scores.shape[0]:
        scores = scores.masked_fill(scores < ordered[settings.top_k - 1], -torch.inf)

    # In float64, and with the largest score subtracted: no temperature leads to 0 / 0 or ∞ / ∞.
    scaled = ((scores.double() - ordered[0]) / settings.temperature).masked_fill(scores == -torch.inf, -torch.inf)
    if settings.top_p < 1:
        probabilities = scaled[order].softmax(-1)
        probability_before = probabilities.cumsum(-1) - probabilities
        scaled = scaled.index_fill(0, order[probability_before >= settings.top_p], -torch.inf)

    return torch.multinomial(scaled.softmax(-1).float(), 1, generator=generator)
