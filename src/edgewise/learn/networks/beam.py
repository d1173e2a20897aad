"""Beam search: keeps the most probable partial texts at each step."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.learn.networks.text_settings import BeamSettings
from edgewise.learn.networks.translation import Writer

Step = Callable[[Int64[Tensor, " beam"], Int64[Tensor, " beam"] | None], Float[Tensor, " beam vocabulary"]]
"""Called with the last token of every beam and the number of the beam that it continues; returns ln p of every next
token."""


def beam_search(step: Step, num_members: int, begin: int, end: int, settings: BeamSettings) -> list[list[int]]:
    """The best text found for every member of a batch, without its beginning and its end.

    Args:
        step: the model.
        num_members: how many texts are looked for; beams of member m are m · beam_size and those after it.
        begin, end: the tokens that every text begins and ends with.
        settings: how far to look.
    """
    width = settings.beam_size
    texts: list[list[list[int]]] = [[[] for _ in range(width)] for _ in range(num_members)]
    texts_of_member: list[list[tuple[float, list[int]]]] = [[] for _ in range(num_members)]
    tokens, order = torch.full((num_members * width,), begin), None
    scores = torch.full((num_members, width), -torch.inf)
    scores[:, 0] = 0.0  # all beams are the same at first

    for length in range(1, settings.max_length + 1):
        after = step(tokens, order).cpu().float()
        totals = (scores.reshape(-1, 1) + after).reshape(num_members, -1)
        best, indices = totals.topk(min(2 * width, totals.shape[1]), dim=1)
        chosen, following = torch.zeros(num_members, width, dtype=torch.int64), torch.full((num_members, width), end)

        scores = torch.full((num_members, width), -torch.inf)
        for member in range(num_members):
            if _is_done(texts_of_member[member], float(best[member, 0]), settings):
                continue
            grown: list[list[int]] = []
            for total, index in zip(best[member].tolist(), indices[member].tolist()):
                beam, token = divmod(index, after.shape[1])
                text = texts[member][beam]
                if total == -torch.inf or len(grown) == width:
                    break
                if token == end or length == settings.max_length:
                    extended = text if token == end else [*text, token]
                    texts_of_member[member].append((settings.score(total, length), extended))
                else:
                    chosen[member, len(grown)], following[member, len(grown)] = beam, token
                    scores[member, len(grown)] = total
                    grown.append([*text, token])

            texts[member] = grown + [[] for _ in range(width - len(grown))]

        if bool((scores == -torch.inf).all()):
            break
        order = (chosen + torch.arange(num_members)[:, None] * width).flatten()
        tokens = following.flatten()

    return [max(texts, key=lambda scored_text: scored_text[0])[1] for texts in texts_of_member]


def _is_done(finished: list[tuple[float, list[int]]], best: float, settings: BeamSettings) -> bool:
    """Whether no unfinished text can score higher than the finished ones: ln p only falls, and the penalty is
    bounded."""
    if len(finished) < settings.beam_size:
        return False
    return max(score for score, _ in finished) >= settings.score(best, settings.max_length)


@torch.no_grad()
def translate(
    model: Writer,
    source: Int64[Tensor, " graph key"],
    lengths: Int64[Tensor, " graph"],
    begin: int,
    end: int,
    settings: BeamSettings = BeamSettings(),
) -> list[list[int]]:
    """The tokens of the translation of every source.

    Cost: each step reads one token a beam; what the model knows of source and target is cached.
    """
    progress = model.begin(source, lengths, settings.beam_size)

    def step(tokens: Tensor, order: Tensor | None) -> Tensor:
        if order is not None:
            progress.reorder(order.to(source.device))
        return model.next(tokens.to(source.device), progress).log_softmax(-1)

    return beam_search(step, source.shape[0], begin, end, settings)
