"""A language model of characters in plain torch, trained as nanoGPT trains its small one: the peer of a whole run.

    python benchmarks/plain_language.py FILE STEPS

Model and loop are those of nanoGPT (Karpathy 2022) at its settings for CPUs: 4 layers, 4 heads, width 128, context 64,
batches of 12 random windows, no dropout, no biases, one projection for queries, keys and values, GELU, tied weights;
AdamW, clipping, a cosine schedule, and the loss of 20 batches of each part every 250 steps.
"""

import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 128, 64, 12
EVERY, BATCHES = 250, 20


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(row, token, feature)."""
        rows, tokens, _ = x.shape
        parts = self.into(self.norms[0](x)).split(WIDTH, dim=2)
        query, key, value = (part.view(rows, tokens, HEADS, -1).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).contiguous().view(rows, tokens, WIDTH))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Model(nn.Module):
    """Tokens to the scores of the next ones."""

    def __init__(self, vocabulary: int):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH, bias=False), nn.Linear(WIDTH, vocabulary, bias=False)
        self.tokens.weight = self.head.weight
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * LAYERS) if last else 0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return F.cross_entropy(self.head(self.norm(self.blocks(x))).flatten(0, 1), targets.flatten())


def main(path: str, steps: int) -> None:
    """Trains, and prints the losses."""
    torch.manual_seed(1337)
    text = Path(path).read_text()
    letters = sorted(set(text))
    numbers = torch.tensor([letters.index(letter) for letter in text])
    parts = numbers[: int(0.9 * len(numbers))], numbers[int(0.9 * len(numbers)) :]

    def batch(part: Tensor) -> tuple[Tensor, Tensor]:
        starts = torch.randint(len(part) - CONTEXT, (BATCH,)).tolist()
        return tuple(torch.stack([part[i + ahead : i + ahead + CONTEXT] for i in starts]) for ahead in (0, 1))  # type: ignore

    model = Model(len(letters))
    matrices, vectors = ([w for w in model.parameters() if (w.ndim >= 2) is two] for two in (True, False))
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))
    for step in range(steps + 1):
        done = (step - 100) / max(steps - 100, 1)
        rate = 1e-3 * (step + 1) / 101 if step < 100 else 1e-4 + 0.45e-3 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = rate
        if step % EVERY == 0:
            model.eval()
            with torch.no_grad():
                losses = [sum(float(model(*batch(part))) for _ in range(BATCHES)) / BATCHES for part in parts]
            model.train()
            print(f"step {step}: {losses}", flush=True)
        if step == steps:
            return
        model(*batch(parts[0])).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
