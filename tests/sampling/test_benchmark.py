"""The benchmark of sampling runs, and its numpy peer samples what it says."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import sampling as benchmark

sys.path.pop(0)


def test_the_numpy_peer_samples_as_many_edges():
    index = benchmark.power_law(300, 4000)
    seeds = np.arange(200)
    ours = benchmark.ours(benchmark.Graph.of(index, num_nodes=300), 0, replace=True)(seeds)
    assert benchmark.with_numpy(index, 300)(seeds) == pytest.approx(ours, rel=0.1)


def test_a_run_writes_its_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "DOCS", tmp_path)
    monkeypatch.setattr(benchmark, "web", lambda: None)
    sizes = ["--num-nodes", "300", "--num-edges", "3000", "--rounds", "2", "--num-batches", "1", "--write"]
    monkeypatch.setattr(sys, "argv", ["sampling.py", *sizes])
    (tmp_path / "results").mkdir()
    (tmp_path / "scaling.md").write_text(f"before\n{benchmark.BEGIN}old\n{benchmark.END}\nafter\n")
    benchmark.main()
    page = (tmp_path / "scaling.md").read_text()
    assert page.startswith(f"before\n{benchmark.BEGIN}\n| million edges a second | power law, 300 nodes, 3,000 edges |")
    assert page.endswith(f"{benchmark.END}\nafter\n")
    rates = json.loads((tmp_path / "results/sampling.json").read_text())["power law, 300 nodes, 3,000 edges"]["rates"]
    assert {len(each) for each in rates.values()} == {2}
    assert "edgewise, 2 threads" in capsys.readouterr().out
