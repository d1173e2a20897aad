"""Where a training step of a network of molecules spends its time, at another revision and in this checkout.

    python benchmarks/step_profile.py b9e2816

The step of revisions.py (forward, backward, AdamW; 64 molecules of Lipophilicity, size 256, one thread) under
torch.profiler: milliseconds a step by kinds of torch's operators, the mean of 16 batches; the rest are our kernels and
Python. Printed is a table, and written benchmarks/results/step_profile.md. EDGEWISE_DATA names the folder of data sets.
"""

import argparse
import json
import os

from revisions import HERE, MODEL, RESULTS, checkout, run

KINDS = {
    "products of matrices": ("aten::mm", "aten::addmm", "aten::linear", "aten::bmm", "aten::matmul"),
    "rows taken, scattered and joined": ("aten::index", "aten::gather", "aten::scatter", "aten::cat", "aten::_index"),
    "optimizer": ("aten::_foreach", "Optimizer", "aten::_fused"),
    "autograd": ("autograd::", "AccumulateGrad"),
    "numbers one by one: sums, products, relu, dropout, norms": ("aten::",),
}
"""Operators by the beginnings of their names; the first that fits counts."""
OUTSIDE = "our kernels, and Python"
PROFILE = f"""{MODEL}
import json
from torch.profiler import ProfilerActivity, profile
began = time.perf_counter()
with profile(activities=[ProfilerActivity.CPU]) as found:
    for batch in batches:
        step(batch)
seconds = time.perf_counter() - began
times = {{event.key: event.self_cpu_time_total / 1e3 / len(batches) for event in found.key_averages()}}
print(json.dumps([seconds * 1e3 / len(batches), times]))
"""


def by_kind(total: float, times: dict[str, float]) -> dict[str, float]:
    """Milliseconds of each kind of operator."""
    found = dict.fromkeys((*KINDS, OUTSIDE), 0.0)
    for name, milliseconds in times.items():
        kind = next((kind for kind, starts in KINDS.items() if name.startswith(starts)), OUTSIDE)
        found[kind] += milliseconds
    found[OUTSIDE] += total - sum(times.values())
    return found


def main() -> None:
    """Profile, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the other one")
    revision = parser.parse_args().revision
    os.environ["OMP_NUM_THREADS"] = "1"
    with checkout(revision) as before:
        columns = {
            f"{name}, {model}": by_kind(*json.loads(run(tree, ["-c", PROFILE, model]).last_line))
            for tree, name, model in (
                (before, revision, "dmpnn"),
                (HERE.parent, "later", "dmpnn"),
                (HERE.parent, "later", "edge_attention"),
            )
        }
    lines = [
        "# A training step of a network of molecules",
        "",
        f"Milliseconds a step of 64 molecules, one thread. `python benchmarks/step_profile.py {revision}`",
        "",
        f"| | {' | '.join(columns)} |",
        f"|---|{'---|' * len(columns)}",
        *(
            f"| {kind} | {' | '.join(f'{milliseconds[kind]:.1f}' for milliseconds in columns.values())} |"
            for kind in (*KINDS, OUTSIDE)
        ),
        f"| **all** | {' | '.join(f'**{sum(milliseconds.values()):.1f}**' for milliseconds in columns.values())} |",
    ]
    page = "\n".join(lines) + "\n"
    (RESULTS / "step_profile.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
