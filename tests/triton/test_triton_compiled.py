"""The kernels compile for sm_90 without a device: nothing spills, rows are read 16 bytes at a time, loops are short."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = [
    ("scaled", "softmax", "bfloat16", 8, 16, False, 73, 100),
    ("scaled", "softmax", "float32", 4, 32, True, 96, 155),
    ("gatv2", "softmax", "bfloat16", 8, 16, False, 78, 150),
    ("tanh", "entmax", "bfloat16", 8, 32, False, 78, 330),
]
"""Score, normalizer, dtype, heads, features, whether edges carry something; and the most instructions of a warp for
each place of an edge, forward and backward."""


@pytest.mark.parametrize(("score", "normalizer", "dtype", "heads", "dim", "carries", "forward", "backward"), CASES)
def test_kernels_compile_without_spills(score, normalizer, dtype, heads, dim, carries, forward, backward):
    pytest.importorskip("triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = Path(__file__).with_name("compiled.py")
    words = [score, normalizer, dtype, heads, dim, carries]
    ran = subprocess.run(
        [sys.executable, str(script), *map(str, words)], capture_output=True, text=True, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout)
    assert {"forward", "merge", "backward_receivers", "backward_senders"} <= {each["kernel"] for each in found}
    for each in found:
        assert each["spills"] == 0, each
        if each["kernel"] in ("forward", "backward_receivers", "backward_senders"):
            assert each["wide_loads"] > 0, each
            assert each["registers"] <= 232, each
            limit = forward if each["kernel"] == "forward" else backward
            assert each["instructions_an_edge"] <= limit, each
