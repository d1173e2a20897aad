"""Compiles the kernels of some calls for sm_90, without a device, and prints what became of them as JSON.

    python compiled.py '[{"over": "edges", "score": "gatv2", …}, {"over": "ranges", …}]'

Run in a process of its own: where the interpreter is asked for, nothing is compiled. The calls are made on a CPU, and
each launch compiles what it would have started.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import create_function_from_signature
from triton_cases import NORMALIZERS, SCORES, problem, solve

import edgewise.backends.triton as backend
import triton
from edgewise import Causal, Edges, Full, Window, attend, attention_weights
from edgewise.backends.triton import launch
from edgewise.backends.triton.edges import layout, work
from edgewise.backends.triton.graphs import launch as graph_launch
from edgewise.backends.triton.ranges import layout as range_layout

TARGET = GPUTarget("cuda", 90, 32)
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
NEIGHBORHOODS = {"full": Full(), "causal": Causal(), "window": Window(63, 0)}
SIZES = (2, 3, 256, 256)
"""Outer and inner members, queries and keys of a call over ranges."""


def compiled(kernel: Any, arguments: tuple, constants: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """One kernel as the compiler leaves it: its form, registers, spills, wide loads and loops."""
    maker = make_backend(TARGET)
    bind = create_function_from_signature(kernel.signature, kernel.params, maker)
    given = {**constants, **options}
    bound, specialization, options = bind(*arguments, **given, debug=False)
    options, signature, fixed, attributes = kernel._pack_args(maker, given, bound, specialization, options)
    made = triton.compile(ASTSource(kernel, signature, fixed, attributes), target=TARGET, options=options.__dict__)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(made.asm["cubin"])
        used = _said(TOOLS / "cuobjdump", "-res-usage", file.name)
        code = _said(TOOLS / "nvdisasm", "-c", file.name)
    registers, stack, local = (int(re.search(rf"{name}:(\d+)", used)[1]) for name in ("REG", "STACK", "LOCAL"))
    return {
        "kernel": kernel.__name__,
        "form": (constants["FORMS"][0] if "FORMS" in constants else constants["F"])._asdict(),
        "levels": len(constants.get("FORMS", "F")),
        "warps": given["num_warps"],
        "registers": registers,
        "registers_asked": given.get("maxnreg"),
        "spills": stack + local + len(re.findall(r"\bSTL\b", code)),
        "shared": made.metadata.shared,
        "wide_loads": len(re.findall(r"\bLDG(?:STS)?\.E\.(?:\w+\.)*128\b", code)),
        "loops": loops_of(code),
    }


def loops_of(code: str) -> list[dict[str, Any]]:
    """The stretches between a label and the last jump back to it: how many instructions, and how many of which kind."""
    labels: dict[str, int] = {}
    ends: dict[int, int] = {}
    words: list[str] = []
    for line in code.splitlines():
        text = re.sub(r"/\*.*?\*/", "", line).strip()
        if label := re.match(r"\.(L_x_\d+):", text):
            labels[label[1]] = len(words)
        elif word := re.match(r"(?:@!?U?P\w+ +)?([A-Z]\S*)", text):
            words.append(word[1].rstrip(";"))
            back = re.search(r"BRA\S* .*?\.(L_x_\d+)", text)
            if back and back[1] in labels:
                ends[labels[back[1]]] = len(words)
    return [
        {
            "instructions": end - start,
            "reciprocals": words[start:end].count("MUFU.RCP"),
            "fused": words[start:end].count("FFMA"),
            "has_none_inside": not any(start < other < end for other in ends),
        }
        for start, end in ends.items()
        if end - start > 1  # behind the last instruction of a program stands a jump to itself
    ]


def _said(*command: Any) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def over_edges(
    score: str, normalizer: str, dtype: str, heads: int, dim: int, carries: bool, shared: bool = False,
    dropout: float = 0.0, weights: bool = False, needs: list[str] | None = None,
) -> None:  # fmt: skip
    """A call over edges and its gradient, toward all that has one or toward what is named; or the weights."""
    work.CHUNK = 16
    given = problem(shared, heads, dim, dim)
    if weights:
        at = {name: x.to(getattr(torch, dtype)) for name, x in (given.tensors | given.parts).items()}
        carried = {name: at[name] for name in ("bias", "edge_key")} if carries else {}
        parts = {"score": SCORES[score](at), "normalize": NORMALIZERS[normalizer](at)}
        attention_weights(at["query"], at["key"], given.edges, **parts, **carried)
    else:
        solve(given, score, normalizer, carries, "triton", getattr(torch, dtype), dropout=dropout, needs=needs)


def over_ranges(
    score: str, normalizer: str, dtype: str, dim: int, neighborhood: str, bias: bool | list[int] = False,
    dropout: float = 0.0, top: int = 0, sizes: tuple[int, ...] = SIZES, needs: list[str] | None = None,
) -> None:  # fmt: skip
    """A call over ranges and its gradient, toward all that has one or toward what is named; or the strongest weights.

    A bias is one of each pair of each member, or of the shape that is named.
    """
    *members, queries, keys = sizes
    at = _of_nodes((*members, keys), (members[1],), dim, dtype)
    shapes = {"query": (*members, queries, dim), "bias": sizes if bias is True else bias or ()}
    at |= {name: torch.rand(shape, dtype=getattr(torch, dtype)) for name, shape in shapes.items()}
    for name, x in at.items():
        x.requires_grad_(top == 0 and (needs is None or name in needs))
    parts = {"score": SCORES[score](at), "normalize": NORMALIZERS[normalizer](at)}
    if bias:
        parts["bias"] = at["bias"]
    if top > 0:
        with torch.no_grad():  # else they would not come from the kernels
            attention_weights(at["query"], at["key"], NEIGHBORHOODS[neighborhood], top=top, **parts)
    else:
        nodes = (at["query"], at["key"], at["value"])
        attend(*nodes, NEIGHBORHOODS[neighborhood], backend="triton", dropout=dropout, **parts).sum().backward()


def over_graphs(
    normalizer: str, dtype: str, heads: int, dim: int, nodes: int, bias: bool, score: str = "scaled",
    dropout: float = 0.0, needs: list[str] | None = None,
) -> None:  # fmt: skip
    """A call over the pairs of one small graph and its gradient, toward all that has one or toward what is named."""
    node = torch.arange(nodes)
    edges = Edges(node.repeat(nodes), node.repeat_interleave(nodes), nodes, nodes)
    at = _of_nodes((nodes, heads), (heads,), dim, dtype)
    at["bias"] = torch.rand(nodes**2, heads, dtype=getattr(torch, dtype))
    for name, x in at.items():
        x.requires_grad_(needs is None or name in needs)
    of_nodes = [at[name].transpose(0, 1) for name in ("query", "key", "value")]
    of_edges = at["bias"].t() if bias else None
    parts = {"score": SCORES[score](at), "normalize": NORMALIZERS[normalizer](at)}
    attend(*of_nodes, edges, bias=of_edges, backend="triton", dropout=dropout, **parts).sum().backward()


def _of_nodes(places: tuple[int, ...], heads: tuple[int, ...], dim: int, dtype: str) -> dict[str, torch.Tensor]:
    """Queries, keys, values, and the parameters of every score and normalizer."""
    of_nodes = {name: (*places, dim) for name in ("query", "key", "value")}
    of_heads = {"vector": (dim,), "other": (dim,), "matrix": (dim, dim), "positive": ()}
    shapes = of_nodes | {name: (*heads, *shape) for name, shape in of_heads.items()}
    return {name: torch.rand(shape, dtype=getattr(torch, dtype)) for name, shape in shapes.items()}


CALLS = {"edges": over_edges, "graphs": over_graphs, "ranges": over_ranges}


def main() -> None:
    """Everything that these calls and their gradients start."""
    found = []

    def start(kernel, grid, arguments, constants, options):
        apart = [x.arguments if isinstance(x, launch.Common) else x for x in arguments]
        found[-1].append(compiled(kernel, apart, constants, options) | {"again": constants.get("AGAIN", False)})

    backend.DEVICES = ("cpu",)
    layout.start = graph_launch.start = range_layout.start = start
    for call in json.loads(sys.argv[1]):
        found.append([])
        CALLS[call.pop("over")](**call)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
