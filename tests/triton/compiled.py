"""Compiles the kernels of one call for sm_90, without a device, and prints what became of them as JSON.

    python compiled.py SCORE NORMALIZER DTYPE HEADS DIM CARRIES

Run in a process of its own: where the interpreter is asked for, nothing is compiled. The call is made on a CPU, and
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
from triton_cases import problem, solve

import edgewise.backends.triton as backend
import triton
from edgewise.backends.triton import edge_operators, work
from edgewise.backends.triton.launch import options_of

TARGET = GPUTarget("cuda", 90, 32)
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


def compiled(kernel: Any, arguments: tuple, constants: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """One kernel as the compiler leaves it: registers, spills, and the widest loads of its largest loop."""
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
    form, loop = constants["F"], largest_loop(code)
    return {
        "kernel": kernel.__name__,
        "rows": form.rows,
        "registers": registers,
        "spills": stack + local + len(re.findall(r"\bSTL\b", code)),
        "wide_loads": len(re.findall(r"\bLDG\.E\.128\b", code)),
        "instructions_an_edge": loop * given["num_warps"] / (form.rows * form.block),
    }


def largest_loop(code: str) -> int:
    """Instructions between a label and the last jump back to it, of the longest such stretch."""
    labels: dict[str, int] = {}
    longest = count = 0
    for line in code.splitlines():
        text = re.sub(r"/\*.*?\*/", "", line).strip()
        if label := re.match(r"\.(L_x_\d+):", text):
            labels[label[1]] = count
        elif re.match(r"(@!?U?P\w+ +)?[A-Z]", text):
            count += 1
            back = re.search(r"BRA\S* .*?\.(L_x_\d+)", text)
            if back and back[1] in labels:
                longest = max(longest, count - labels[back[1]])
    return longest


def _said(*command: Any) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Everything that one call and its gradient start."""
    score, normalizer, dtype, heads, dim, carries = sys.argv[1:]
    found = []

    def launch(kernel, programs, form, *arguments, warps=None, **constants):
        if programs > 0:
            found.append(compiled(kernel, arguments, {**constants, "F": form}, options_of(form, warps)))

    backend.DEVICES = ("cpu",)
    edge_operators.launch = launch
    work.CHUNK = 16
    given = problem(heads=int(heads), key_dim=int(dim), value_dim=int(dim))
    solve(given, score, normalizer, carries == "True", "triton", getattr(torch, dtype))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
