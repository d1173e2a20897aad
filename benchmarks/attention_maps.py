"""What it costs to see whom every token of a long text attends to: the strongest eight weights, or all of them.

    python benchmarks/attention_maps.py

A model of texts (2 layers of 4 heads, model_dim 64, untrained: weights cost the same whatever they are) reads one text
of growing length, with nothing recorded, and with `Trace(top=8)`. Beside it stand the same two layers of plain PyTorch,
`nn.MultiheadAttention` with `need_weights`, which gives all weights of every head as a table.

Each case runs in a process of its own, under a limit of memory. Memory is what its peak rises above where it was after
a run over 64 tokens, which loads and compiles all that is needed. Seconds are medians of three runs.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
LENGTHS = (1024, 2048, 4096, 8192, 16384)
LAYERS, HEADS, MODEL_DIM, TOP = 2, 4, 64, 8
ROUNDS = 3
GIB = 2**30
TITLE = (
    f"# The strongest weights of long texts\n\n{LAYERS} layers of {HEADS} heads, model_dim {MODEL_DIM}. Memory beyond "
    "the model. `python benchmarks/attention_maps.py`"
)
LIMIT = 8
"""GiB that a process may have; a case that needs more does not run."""
KINDS = {"nothing": "nothing recorded", "top": f"top={TOP}", "plain": "all, plain PyTorch"}


def runner(kind: str) -> Callable[[int], object]:
    """A function that reads a text of so many tokens, and returns what was recorded."""
    import torch

    torch.manual_seed(0)
    if kind == "plain":
        layers = torch.nn.ModuleList(
            torch.nn.MultiheadAttention(MODEL_DIM, HEADS, batch_first=True) for _ in range(LAYERS)
        ).eval()

        def all_weights(length: int) -> object:
            nodes, found = torch.randn(1, length, MODEL_DIM), []
            with torch.no_grad():
                for layer in layers:
                    nodes, weights = layer(nodes, nodes, nodes, need_weights=True, average_attn_weights=False)
                    found.append(weights)
            return found

        return all_weights

    from edgewise.graph import Trace
    from edgewise.learn.batches.tokens import TextRowBatch
    from edgewise.learn.networks.text import TextModel
    from edgewise.learn.networks.text_settings import TextSettings, TransformerSettings

    settings = TransformerSettings(LAYERS, HEADS, model_dim=MODEL_DIM, context=max(LENGTHS))
    model = TextModel(1000, None, 2, TextSettings(), settings).eval()

    def strongest(length: int) -> object:
        trace = Trace(top=TOP) if kind == "top" else None
        with torch.no_grad():
            model(TextRowBatch(torch.randint(1000, (length,)), torch.tensor([0, length])), trace)
        return trace

    return strongest


def memory(name: str) -> int:
    """Bytes that this process has (VmRSS), or had at most (VmHWM), as Linux counts them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {name}")


def child(kind: str, length: int) -> None:
    """Measure one case, and print it as JSON."""
    import torch

    run = runner(kind)
    run(64)
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT * GIB, LIMIT * GIB))
    # Forgets the peak so far, so that the next one is that of the case.
    Path("/proc/self/clear_refs").write_text("5")
    before, times, peak = memory("VmRSS"), [], 0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        try:
            kept = run(length)
        except RuntimeError as error:
            if "allocate memory" not in str(error):
                raise
            print(json.dumps({"kind": kind, "tokens": length, "mib": None, "seconds": None}))
            return
        times.append(time.perf_counter() - began)
        peak = peak or memory("VmHWM")
        del kept
    found = {"mib": round((peak - before) / 2**20, 1), "seconds": round(statistics.median(times), 3)}
    print(json.dumps({"kind": kind, "tokens": length, **found, "threads": torch.get_num_threads()}))


def measured(kind: str, length: int) -> dict:
    """One case in a process of its own."""
    command = [sys.executable, __file__, "--child", kind, str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{kind}, {length} tokens: the process ended with {done.returncode}. {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def table(cases: list[dict]) -> str:
    """The cases as Markdown, a line a length."""
    lines = [
        "| tokens | nothing recorded, s | top=8, s | top=8, MiB | all, plain PyTorch, s | all, plain PyTorch, MiB |",
        "|---|---|---|---|---|---|",
    ]
    for length in dict.fromkeys(case["tokens"] for case in cases):
        of = {case["kind"]: case for case in cases if case["tokens"] == length}
        cells = [f"{length:,}", of["nothing"]["seconds"], of["top"]["seconds"], of["top"]["mib"]]
        for name in ("seconds", "mib"):
            value = of["plain"][name]
            cells.append(f"over {LIMIT} GiB" if value is None else value)
        lines.append(f"| {' | '.join(f'{cell:,}' if isinstance(cell, float) else str(cell) for cell in cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", nargs=2, metavar=("KIND", "TOKENS"), help=argparse.SUPPRESS)
    parser.add_argument("--lengths", nargs="+", type=int, default=list(LENGTHS), help="of the texts, in tokens")
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], int(arguments.child[1]))
        return
    import torch

    cases = [measured(kind, length) for length in arguments.lengths for kind in KINDS]
    machine = {"cpu": platform.processor() or platform.machine(), "threads": cases[0]["threads"]}
    result = {"machine": machine, "torch": torch.__version__, "limit_gib": LIMIT, "cases": cases}
    print(table(cases))
    if arguments.lengths == list(LENGTHS):
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "attention_maps.json").write_text(json.dumps(result, indent=2) + "\n")
        (RESULTS / "attention_maps.md").write_text(f"{TITLE}\n\n{table(cases)}\n")


if __name__ == "__main__":
    main()
