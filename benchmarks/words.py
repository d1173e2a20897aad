"""Words on a CPU: training beside a plain PyTorch model, decoding with and without a cache, packed beside padded.

    python benchmarks/words.py            everything, about five minutes on two cores
    python benchmarks/words.py --quick    tiny sizes, nothing written: does everything run?

Peers run in one process, in turn; times are medians, ± is the interquartile range. A busy machine is refused: close
what else runs, or give --force, which marks the report. Written are benchmarks/results/words.json (every single time)
and words.md (the tables).
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))

from cpu_attention import machine
from cpu_attention.measure import in_turn, spread_too_widely
from cpu_attention.options import NUM_THREADS
from cpu_attention.process import memory, reset_peak

from edgewise import Lengths, Segments
from edgewise.layers import Cache
from edgewise.learn.batches.tokens import TokenBatch, TranslationBatch
from edgewise.learn.networks.language import NextTokenModel
from edgewise.learn.networks.text_settings import RecurrentSettings, TransformerSettings
from edgewise.learn.networks.transformer import TransformerBlocks
from edgewise.learn.networks.translation import RecurrentTranslationModel, TranslationModel
from edgewise.learn.training.loss import TokenLoss

RESULTS = Path(__file__).parent / "results"
OURS, PLAIN = "edgewise", "nn.TransformerEncoder with a causal mask"
GPT2_SMALL = TransformerSettings(context=64, position="learned", activation="gelu", dropout=0.0)
"""nanoGPT's small setting for CPUs: 4 layers, 4 heads, width 128, context 64, in batches of 12."""
BATCH, VOCABULARY = 12, 65
SPREAD = 0.15


class PlainModel(nn.Module):
    """The same model of torch's own layers."""

    def __init__(self, settings: TransformerSettings, vocabulary: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, settings.model_dim)
        self.position = nn.Embedding(settings.context, settings.model_dim)
        layer = nn.TransformerEncoderLayer(
            settings.model_dim, settings.num_heads, 4 * settings.model_dim, settings.dropout, nn.functional.gelu,
            batch_first=True, norm_first=True,
        )  # fmt: skip
        norm = nn.LayerNorm(settings.model_dim)
        self.stack = nn.TransformerEncoder(layer, settings.num_layers, norm, enable_nested_tensor=False)
        self.mask = nn.Transformer.generate_square_subsequent_mask(settings.context)

    def forward(self, batch: TokenBatch) -> Tensor:
        """The scores of the next token."""
        nodes = self.embedding(batch.tokens) + self.position.weight[: batch.tokens.shape[1]]
        return nn.functional.linear(self.stack(nodes, self.mask, is_causal=True), self.embedding.weight)

    @torch.no_grad()
    def take(self, model: NextTokenModel) -> None:
        """The same weights."""
        assert model.position is not None
        self.embedding.weight.copy_(model.embedding.weight)
        self.position.weight.copy_(model.position.table.weight)
        for own, other in zip(self.stack.layers, model.stack.blocks, strict=True):
            attention = other.attention
            parts = (attention.query, attention.key, attention.value)
            own.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
            own.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
            pairs = [(own.self_attn.out_proj, attention.output), (own.norm1, other.attention_norm)]
            pairs += [(own.norm2, other.feed_forward_norm), (own.linear1, other.feed_forward[0])]
            pairs += [(own.linear2, other.feed_forward[3])]
            for mine, theirs in pairs:
                mine.weight.copy_(theirs.weight)
                mine.bias.copy_(theirs.bias)


def step_of(model: nn.Module, batch: TokenBatch | TranslationBatch) -> Callable[[], float]:
    """One step of training: forward, backward, clip, AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    loss = TokenLoss()

    def step() -> float:
        assert batch.targets is not None
        total, count = loss(model(batch), batch.targets)
        optimizer.zero_grad()
        (total / count).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(total.detach() / count)

    return step


def training(quick: bool) -> dict[str, Any]:
    """Steps of training on windows of a text, after both models gave the same loss with the same weights."""
    torch.manual_seed(0)
    windows = torch.randint(VOCABULARY, (BATCH, GPT2_SMALL.context + 1))
    batch = TokenBatch(windows[:, :-1], targets=windows[:, 1:])
    ours, plain = NextTokenModel(VOCABULARY, GPT2_SMALL), PlainModel(GPT2_SMALL, VOCABULARY)
    plain.take(ours)
    torch.testing.assert_close(ours(batch), plain(batch), rtol=1e-4, atol=1e-4)
    steps = {OURS: step_of(ours, batch), PLAIN: step_of(plain, batch)}
    peers = in_turn(steps, 0.1 if quick else 20, 3)
    for name in steps:
        peers[name]["tokens_a_second"] = round(BATCH * GPT2_SMALL.context / (peers[name]["median_ms"] / 1000))
        command = [sys.executable, __file__, "--peak", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peers[name]["peak_mib"] = float(done.stdout)
    return {"peers": peers, "ratio": round(peers[PLAIN]["median_ms"] / peers[OURS]["median_ms"], 3)}


def peak_of(name: str) -> float:
    """MiB that the model, its optimizer and three steps take at their peak, in a process of its own."""
    torch.manual_seed(0)
    before = reset_peak()
    kind = {OURS: lambda: NextTokenModel(VOCABULARY, GPT2_SMALL), PLAIN: lambda: PlainModel(GPT2_SMALL, VOCABULARY)}
    windows = torch.randint(VOCABULARY, (BATCH, GPT2_SMALL.context + 1))
    step = step_of(kind[name](), TokenBatch(windows[:, :-1], targets=windows[:, 1:]))
    for _ in range(3):
        step()
    return round((memory("VmHWM") - before) / 2**20, 1)


@torch.no_grad()
def decoding(quick: bool) -> dict[str, Any]:
    """The time of one more token after so many, with the keys and values of the others kept and without.

    All lengths in turn, once with and once without: a writer keeps its keys and values at hand from token to token,
    where passes over everything between two of them would drive them out of the machine's caches.
    """
    settings = TransformerSettings(context=4096, position="rotary")
    model = NextTokenModel(VOCABULARY, settings).eval()
    cached: dict[str, Callable[[], Any]] = {}
    whole: dict[str, Callable[[], Any]] = {}
    for length in (16, 32) if quick else (128, 256, 512, 1024, 2048):
        tokens, cache = torch.randint(VOCABULARY, (1, length)), Cache()
        model.nodes(tokens[:, :-1], cache=cache)

        def step(tokens: Tensor = tokens, cache: Cache = cache) -> None:
            for layer in cache.layers:
                layer.length = tokens.shape[1] - 1  # the same step again
            model.scores(model.nodes(tokens[:, -1:], cache=cache))

        cached[str(length)] = step
        whole[str(length)] = lambda tokens=tokens: model.scores(model.nodes(tokens)[:, -1:])
    times = {name: in_turn(calls, 0.1 if quick else 3, 3) for name, calls in (("cached", cached), ("uncached", whole))}
    return {"lengths": {length: {name: found[length] for name, found in times.items()} for length in cached}}


def packing(quick: bool) -> dict[str, Any]:
    """64 sentences of very different lengths through a stack, forward and backward: packed, and padded."""
    settings = TransformerSettings(position="none")
    torch.manual_seed(0)
    stack = TransformerBlocks(settings)
    number, longest = (4, 16) if quick else (64, 512)
    lengths = (torch.rand(number) ** 3 * (longest - 4) + 4).long()
    lengths[0] = longest
    sentences = [torch.randn(int(length), settings.model_dim) for length in lengths]
    packed, padded = torch.cat(sentences), nn.utils.rnn.pad_sequence(sentences, batch_first=True)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    ways = {
        "packed (Segments)": lambda: stack(packed, Segments(offsets)),
        "padded (Lengths)": lambda: stack(padded, Lengths(lengths)),
    }
    whole, rows = (way() for way in ways.values())
    for row, part in enumerate(whole.split(lengths.tolist())):
        torch.testing.assert_close(rows[row, : part.shape[0]], part, rtol=1e-3, atol=1e-4)
    calls = {name: lambda way=way: way().sum().backward() for name, way in ways.items()}
    peers = in_turn(calls, 0.1 if quick else 10, 3)
    own, other = (peers[name]["median_ms"] for name in ways)
    return {
        "peers": peers,
        "lengths": {"sentences": number, "mean": float(lengths.float().mean()), "longest": longest},
        "ratio": round(other / own, 2),
    }


def translating(quick: bool) -> dict[str, Any]:
    """A step of training of the two models of `docs/results.md` that translate, on about 2,048 tokens, with one thread
    and with two."""
    torch.manual_seed(0)
    rows, length = (8, 6) if quick else (120, 17)
    tokens = torch.randint(8192, (3, rows, length))
    batch = TranslationBatch(tokens[0], torch.full((rows,), length), tokens[1], targets=tokens[2])
    sizes = TransformerSettings(num_layers=4, model_dim=128, hidden_dim=256, context=256, dropout=0.3)
    models: dict[str, nn.Module] = {
        "transformer": TranslationModel(8192, sizes),
        "LSTM with Luong's attention": RecurrentTranslationModel(8192, RecurrentSettings(model_dim=180)),
    }
    steps = {name: step_of(model, batch) for name, model in models.items()}
    found: dict[str, Any] = {}
    for threads in (1, NUM_THREADS):
        torch.set_num_threads(threads)
        found[str(threads)] = in_turn(steps, 0.1 if quick else 15, 3)
    parameters = {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()}
    return {"lengths": found, "parameters": parameters}


def table(data: dict[str, Any]) -> str:
    """The tables of words.md."""
    problems = [f"- {name}: {problem}" for name, part in data["parts"].items() for problem in part["problems"]]
    facts = data["machine"]
    lines = [
        "# Words on a CPU",
        "",
        "Written by `python benchmarks/words.py`; every single time is in `words.json`. Peers run in one process, in "
        "turn; times are medians, ± is the interquartile range.",
        "",
        *(["**Not all of this was measured on a quiet machine:**", "", *problems, ""] if problems else []),
        f"{facts['cores']} cores of {facts['processor']}, Python {facts['python']}, "
        f"torch {facts['versions']['torch']}; {NUM_THREADS} threads; commit `{data['commit']['commit'][:9]}`.",
        "",
        "## Training",
        "",
        f"One step of a GPT-2 of {GPT2_SMALL.num_layers} layers, {GPT2_SMALL.num_heads} heads, width "
        f"{GPT2_SMALL.model_dim}, context {GPT2_SMALL.context}, batch {BATCH}, float32, AdamW; both gave the same "
        "scores with the same weights before.",
        "",
        "| | step, ms | tokens a second | memory of model, optimizer and steps at the peak, MiB |",
        "|---|---:|---:|---:|",
    ]
    training = data["parts"]["training"]
    for name, peer in training["peers"].items():
        lines.append(f"| {name} | {shown(peer)} | {peer['tokens_a_second']:,} | {peer['peak_mib']:,} |")
    lines += ["", f"edgewise runs at {training['ratio']:.2f}× the speed.", "", "## Decoding", ""]
    lines += [
        "Time for one more token, 4 layers of width 128, rotary positions.",
        "",
        "| after so many tokens | keys and values kept, ms | everything again, ms | ratio |",
        "|---:|---:|---:|---:|",
    ]
    for length, peers in data["parts"]["decoding"]["lengths"].items():
        ratio = peers["uncached"]["median_ms"] / peers["cached"]["median_ms"]
        lines.append(f"| {int(length):,} | {shown(peers['cached'])} | {shown(peers['uncached'])} | {ratio:.1f}× |")
    packing, sizes = data["parts"]["packing"], data["parts"]["packing"]["lengths"]
    lines += [
        "",
        "## Packed and padded",
        "",
        f"{sizes['sentences']} sentences of {sizes['mean']:.0f} tokens on average, the longest {sizes['longest']}, "
        "forward and backward through 4 layers of width 128; both gave the same vectors before.",
        "",
        "| | ms |",
        "|---|---:|",
        *(f"| {name} | {shown(peer)} |" for name, peer in packing["peers"].items()),
        "",
        f"Packed takes 1/{packing['ratio']:.2f} of the time.",
        "",
        "## Learning to translate",
        "",
        "One step on 120 pairs of 17 tokens, a vocabulary of 8,192.",
        "",
        "| threads | transformer, ms | LSTM with Luong's attention, ms |",
        "|---:|---:|---:|",
        *(
            f"| {threads} | {' | '.join(shown(peer) for peer in peers.values())} |"
            for threads, peers in data["parts"]["translating"]["lengths"].items()
        ),
    ]
    return "\n".join(lines) + "\n"


def shown(peer: dict[str, Any]) -> str:
    """A median and its spread."""
    return f"{peer['median_ms']:.3g} ± {peer['spread_ms']:.2g}"


def problems_of(part: dict[str, Any]) -> list[str]:
    """Times of a part that are spread too widely."""
    groups = part["lengths"] if "peers" not in part else {"": part["peers"]}
    return [
        f"{name + ': ' if name else ''}{problem}"
        for name, peers in groups.items()
        for problem in spread_too_widely({peer: {"time": found} for peer, found in peers.items()}, SPREAD)
    ]


PARTS = {"training": training, "decoding": decoding, "packing": packing, "translating": translating}


def main() -> int:
    """Measure and write; whether the numbers can be believed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes; nothing is written")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine too, and mark the report")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(NUM_THREADS)
    if asked.peak:
        print(peak_of(asked.peak))
        return 0
    data: dict[str, Any] = {"machine": machine.facts(), "commit": machine.commit(), "parts": {}}
    try:
        for name, part in PARTS.items():
            machine.wait_until_quiet(check_load=not data["parts"], force=asked.quick or asked.force)
            data["parts"][name] = found = part(asked.quick)
            found["problems"] = problems_of(found) + machine.look().reasons(machine.cores())
    except machine.BusyMachineError as error:
        print(error, file=sys.stderr)
        return 1
    page = table(data)
    print(page)
    if not asked.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "words.json").write_text(json.dumps(data, indent=1) + "\n")
        (RESULTS / "words.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
