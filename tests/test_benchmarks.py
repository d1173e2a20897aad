"""The benchmark of attention: its peers agree, it refuses a busy machine, its tables come from its numbers."""

import ast
import importlib
import json
import runpy
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its import warns of what torch has given up
    pytest.importorskip("torch_geometric", reason="the benchmark's peer torch_geometric is not installed")

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
sys.path.insert(0, str(FOLDER))
import tables  # noqa: E402
from cpu_attention import bars, dense_cases, edge_cases, graphs, machine, measure, report, tasks  # noqa: E402
from cpu_attention.backend import named, only  # noqa: E402
from cpu_attention.case import OURS, Case, Peer  # noqa: E402
from cpu_attention.machine import CpuTimes, use_between  # noqa: E402
from cpu_attention.options import QUICK, Pace  # noqa: E402
from graph_epochs import inputs as graph_epochs  # noqa: E402
from graph_epochs import models as graph_models  # noqa: E402

sys.path.remove(str(FOLDER))

OVER_EDGES = {
    "dot": lambda graph, ours: edge_cases.dot(graph, ours, compiled=False),
    "gatv2": lambda graph, ours: edge_cases.gatv2(graph, ours, compiled=False),
    "gat": edge_cases.gat,
    "gcn": edge_cases.gcn,
    "mean": edge_cases.mean,
    "bf16": edge_cases.half,
    "layer": edge_cases.layer,
}
OVER_PAIRS = {
    "cosine": lambda ours: dense_cases.cosine(24, ours),
    "hard": lambda ours: dense_cases.hard(24, ours),
    "window": lambda ours: dense_cases.window(40, 8, ours),
    "all keys": lambda ours: dense_cases.dispatched(24, causal=False),
    "causal": lambda ours: dense_cases.dispatched(24, causal=True),
}
BACKENDS = [name for name in ("numba", "gather") if name in named()][:1]


def tiny(sort: bool = True):
    """Molecules: no node without edges. Cora's stand-in, thinned out: some, and an edge that occurs twice."""
    random = graphs.cora(quick=True)
    graph = replace(
        random,
        senders=torch.cat([random.senders[:90], random.senders[:1]]) % 40,
        receivers=torch.cat([random.receivers[:90], random.receivers[:1]]) % 50,
        num_nodes=50,
    )
    return graph.by_receiver() if sort else graph


@pytest.mark.parametrize("ours", BACKENDS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if name == "bf16" else ()) for name in OVER_EDGES]
)
def test_peers_over_edges_agree_in_values_and_gradients(name, ours):
    assert len(measure.agree(OVER_EDGES[name](tiny(), ours))) >= 1


@pytest.mark.parametrize("ours", BACKENDS)
@pytest.mark.parametrize("name", OVER_PAIRS)
def test_peers_over_all_pairs_agree_in_values_and_gradients(name, ours):
    assert len(measure.agree(OVER_PAIRS[name](ours))) >= 1


@pytest.mark.parametrize("ours", BACKENDS)
def test_additive_attention_agrees_with_the_eager_one(ours):
    assert measure.agree(dense_cases.additive(24, ours, compiled=False))


def test_users_hand_over_edges_as_they_come():
    case = tasks.only_users_peers(edge_cases.dot(tiny(sort=False), "gather", compiled=False))
    assert list(case.peers) == [OURS, "PyG TransformerConv"]
    assert measure.agree(case)


def test_the_graphs_have_the_sizes_they_are_said_to_have():
    law, molecules = graphs.power_law(quick=True), graphs.molecules()
    assert (law.num_nodes, law.num_edges) == (2_000, 14_000)
    assert (molecules.num_nodes, molecules.num_edges) == (1024 * 25, 1024 * 54)
    assert torch.equal(molecules.senders // 25, molecules.receivers // 25)
    pairs = set(zip(molecules.senders.tolist(), molecules.receivers.tolist()))
    assert all((receiver, sender) in pairs for sender, receiver in pairs)
    assert bool((law.by_receiver().receivers.diff() >= 0).all())
    assert torch.equal(graphs.power_law(quick=True).senders, law.senders)


def wrong_by(change: float) -> Case:
    """A peer whose output is right and whose gradient is off."""
    leaf = torch.ones(3, requires_grad=True)
    peers = {OURS: Peer(lambda: 2 * leaf, {"x": leaf})}
    peers["other"] = Peer(lambda: 2 * leaf + change * (leaf - leaf.detach()), {"x": leaf})
    return Case(peers, torch.ones(3))


def test_a_disagreement_stops_the_run():
    assert measure.agree(wrong_by(1e-5))["other"] < 1e-4
    with pytest.raises(measure.DisagreementError, match=r"other and edgewise differ in the gradient of x by 5\.0e-01"):
        measure.agree(wrong_by(1.0))
    with pytest.raises(measure.DisagreementError, match="nan"):
        measure.agree(wrong_by(float("nan")))


def test_a_busy_machine_is_seen_and_named():
    before = CpuTimes(100.0, all=50.0, own=10.0, by_process={4242: ("compiler", 3.0)})
    after = CpuTimes(110.0, all=62.0, own=18.0, by_process={4242: ("compiler", 7.0)})
    use = use_between(before, after, num_cores=2, load=1.9)
    assert use.others == pytest.approx(0.2)  # 4 of 20 core seconds
    (reason,) = use.reasons(num_cores=2, check_load=True)
    assert reason == "others use 20% of the machine's 2 cores (compiler (4242) 40% of a core)"
    alone = use_between(before, CpuTimes(110.0, all=70.0, own=30.0), num_cores=2, load=2.6)
    assert alone.reasons(2) == []
    assert alone.reasons(2, check_load=True) == ["the load average is 2.6 on 2 cores"]


def test_a_busy_machine_is_refused_unless_forced(monkeypatch):
    busy = machine.Use(0.5, 1.0, (("compiler (4242)", 1.0),))
    monkeypatch.setattr(machine, "look", lambda: busy)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    with pytest.raises(machine.BusyMachineError, match=r"others use 50% .*compiler \(4242\).* --force"):
        machine.wait_until_quiet(check_load=True, force=False, patience=-1.0)
    assert machine.wait_until_quiet(check_load=True, force=True) is busy


def test_spread_times_are_measured_again_and_marked(monkeypatch):
    peers = {OURS: {"forward": {"median_ms": 10.0, "spread_ms": 2.0}, "forward_backward": {"median_ms": 9.0}}}
    peers[OURS]["forward_backward"]["spread_ms"] = 0.9
    (problem,) = measure.spread_too_widely(peers, 0.15)
    assert problem.startswith("edgewise, forward: the middle half of the times spreads over 20%")
    monkeypatch.setattr(measure, "spread_too_widely", lambda peers, limit: ["too wide"])
    pace = Pace(seconds=0.0, least=2, attempts=3)
    record = measure.timed(wrong_by(0.0), pace)
    assert record["attempts"] == 3
    assert "too wide" in record["problems"]


def test_times_come_in_turns():
    record = measure.timed(wrong_by(0.0), QUICK)
    for modes in record["peers"].values():
        assert set(modes) == {"forward", "forward_backward"}
        assert all(QUICK.least <= len(part["times_us"]) <= QUICK.most for part in modes.values())
        assert modes["forward"]["median_ms"] == pytest.approx(1e-3 * sorted(modes["forward"]["times_us"])[2], rel=0.5)


def test_one_backend_can_be_put_first_for_a_while():
    order = named()
    with only("gather"):
        assert named()[0] == "gather"
    assert named() == order


def peer(forward: float, both: float, **more: float):
    parts = zip(("forward", "forward_backward"), (forward, both))
    return {mode: {"median_ms": ms, "spread_ms": ms / 100, "times_us": [1e3 * ms]} for mode, ms in parts} | more


def record_of(facts=None, **peers):
    return {
        "facts": facts or {"nodes": 3, "edges": 4, "largest_degree": 2, "nodes_without_edges": 0, "origin": "a test"},
        "tolerance": 2e-4,
        "largest_difference": {"other": 1e-6},
        "table": "power_law",
        "gathered_bytes": 1_000_000_000,
        "plan_ms": 7.0,
        "skipped": {"torch.compile of it": "torch.compile fails: no compiler"},
        "peers": peers.pop("peers"),
        **peers,
    }


def results(status: str = "quiet"):
    """The content of attention.json after a run in which all times were round."""
    measured = {"status": status, "problems": [] if status == "quiet" else ["others use 50%"], "ours": "numba"}
    measured |= {"commit": "0123456789abcdef", "changed_files": False, "quick": False}
    dot = {OURS: peer(50, 100, memory_mib=100.0), "PyG TransformerConv": peer(250, 450, memory_mib=3000.0)}
    dot["PyG TransformerConv, EdgeIndex"] = peer(200, 320, memory_mib=2000.0)
    users = {"peers": {OURS: peer(60, 120), "PyG TransformerConv": peer(600, 720)}, "problems": []}
    return {
        "machine": {"cores": 2, "processor": "P", "vector_instructions": "avx", "caches": {}, "memory": "1 kB"}
        | {"kernel": "6", "python": "3", "versions": {"torch": "2"}},
        "settings": {"threads": 2},
        "parts": {
            "limits": {
                "measured": measured,
                "sequential": {"read": {"1": 20.0, "2": 30.0}},
                "gather": {
                    "power_law": {
                        "table_mib": 83.0,
                        "distance": {"1": 2, "2": 4},
                        "cache": {"1": 1, "2": 2},
                        "gb_per_s": {"1": 12.5, "2": 25.0},
                    }
                },
            },
            "power_law": {"measured": measured, "cases": {"dot": record_of(peers=dot, as_users=users)}},
            "web": {"measured": measured, "left_out": "EDGEWISE_DATA does not lead to it"},
        },
    }


def test_tables_are_rendered_from_the_numbers():
    page = report.page(json.loads(json.dumps(results())))
    assert "| dot | edgewise | 50.0 ± 0.500 |  | 100 ± 1.00 |  | 80% | 100 |  |" in page
    assert "|  | PyG TransformerConv | 250 ± 2.50 | 5.00× | 450 ± 4.50 | 4.50× |  | 3,000 | 30.00× |" in page
    assert "|  | *PyG TransformerConv, as users call it* | 600 ± 6.00 | 10.00× | 720 ± 7.20 | 6.00× |  |  |  |" in page
    assert "torch.compile fails: no compiler" in page
    assert "Left out: EDGEWISE_DATA does not lead to it." in page
    assert "quiet machine:" not in page
    assert "power_law: **busy**: others use 50%" in report.page(results("busy"))


def test_what_must_be_reached_is_computed_from_the_numbers():
    table = report.bars_table(results())
    rows = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in table.splitlines()}
    other = "{} its sorted `EdgeIndex`, where that is faster"
    forward = ["≥ 4.00×", "≥ 5.00×", "5.00×", other.format("4.00×"), "goal reached"]
    assert rows["(a) dot, forward, against PyG"] == forward
    assert rows["(a) dot, forward + backward, against PyG"][2:] == ["4.50×", other.format("3.20×"), "goal reached"]
    assert rows["(a) dot, forward: share of the gather limit"][2::2] == ["80%", "reached"]
    assert rows["(a) dot, peak memory of forward + backward: PyG's over ours"][2::2] == ["20.00×", "reached"]
    assert rows["(c) dot, forward, against PyG"][2::2] == ["", "not measured"]
    assert all(bar.verdict({"parts": {}}) == "not measured" for bar in bars.BARS)


def test_the_committed_page_is_that_of_the_committed_numbers(tmp_path):
    path = FOLDER / "results" / "attention.json"
    if not path.is_file():
        pytest.skip("no result is committed yet")
    data = json.loads(path.read_text())
    assert (FOLDER / "results" / "attention.md").read_text() == report.page(data)
    report.write(data, tmp_path)
    assert json.loads((tmp_path / "attention.json").read_text()) == data


def test_plain_calls_agree_with_the_obvious_lines_of_torch():
    for row in runpy.run_path(str(FOLDER / "plain_calls.py"))["rows"](64, 500):
        _, ours, plain = row
        torch.testing.assert_close(ours(), plain(), rtol=1e-4, atol=1e-5)


def test_products_agree_and_are_timed():
    times = runpy.run_path(str(FOLDER / "products.py"))["times"]
    assert all(spent > 0 for spent in times(40, 8, 8, various=True, rounds=2))


def test_the_page_of_plain_calls_is_that_of_the_committed_numbers():
    path = FOLDER / "results" / "plain_calls.json"
    if not path.is_file():
        pytest.skip("no result is committed yet")
    page = runpy.run_path(str(FOLDER / "plain_calls.py"))["page"](json.loads(path.read_text()))
    assert (FOLDER / "results" / "plain_calls.md").read_text() == page


@pytest.mark.nightly
def test_the_benchmark_of_words_runs_and_compares_before_it_times():
    done = subprocess.run([sys.executable, FOLDER / "words.py", "--quick"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for line in ("edgewise runs at", "keys and values kept", "Packed takes"):
        assert line in done.stdout


@pytest.mark.nightly
def test_the_benchmark_of_graphs_runs_and_compares_before_it_times():
    command = [sys.executable, FOLDER / "graphs.py", "--quick", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for line in ("## GCN on cora", "## GAT on cora", "| PyG, sparse features, sparse adjacency |", "; 1 thread; "):
        assert line in done.stdout


def test_models_of_nodes_with_other_weights_do_not_agree():
    inputs, recipe = graph_epochs.inputs_of("cora", quick=True), graph_epochs.WORKLOADS["cora"].recipes["GAT"]
    names = graph_models.names_of("GAT")[:2]
    learners = {name: graph_models.learner_of(name, "GAT", inputs, recipe) for name in names}
    with pytest.raises(measure.DisagreementError, match="PyG, sparse features, edge_index and edgewise differ"):
        measure.agree(graph_models.as_case(learners, inputs))
    graph_models.same_weights(learners)
    assert measure.agree(graph_models.as_case(learners, inputs))[names[1]] < 2e-4


def test_the_page_of_graphs_is_that_of_the_committed_numbers():
    path = FOLDER / "results" / "graphs.json"
    if not path.is_file():
        pytest.skip("no result is committed yet")
    page = runpy.run_path(str(FOLDER / "graphs.py"))["table"](json.loads(path.read_text()))
    assert (FOLDER / "results" / "graphs.md").read_text() == page


@pytest.mark.nightly
def test_the_benchmark_of_fused_models_runs_and_compares_before_it_times():
    command = [sys.executable, FOLDER / "fuse.py", "--quick", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for line in ("| GAT on Cora | 2,000 | 20,000 |", "| UniMP on the Facebook pages | 2,000 |", "; 1 thread; "):
        assert line in done.stdout


def test_the_page_of_fused_models_is_that_of_the_committed_numbers():
    path = FOLDER / "results" / "fuse.json"
    if not path.is_file():
        pytest.skip("no result is committed yet")
    page = runpy.run_path(str(FOLDER / "fuse.py"))["table"](json.loads(path.read_text()))
    assert (FOLDER / "results" / "fuse.md").read_text() == page


def test_the_benchmark_of_new_graphs_compares_before_it_times():
    measured = runpy.run_path(str(FOLDER / "new_graphs.py"))["measured"]
    row = measured("GIN", 4, 0.0)
    assert (row["nodes"], row["edges"], row["steps"]) == (100, 216, 7)
    assert len(row["median_ms"]) == 3 and all(row["median_ms"].values())


def test_the_page_of_new_graphs_is_that_of_the_committed_numbers():
    path = FOLDER / "results" / "new_graphs.json"
    if not path.is_file():
        pytest.skip("no result is committed yet")
    page = runpy.run_path(str(FOLDER / "new_graphs.py"))["table"](json.loads(path.read_text()))
    assert (FOLDER / "results" / "new_graphs.md").read_text() == page


@pytest.mark.nightly
def test_the_benchmark_of_reading_runs():
    done = subprocess.run(
        [sys.executable, FOLDER / "reading.py", "--quick"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    for line in ("| edges | 3,000 |", "| nodes | 300 |", "| SMILES | 1,000 |", "| texts | 1,000 |", "times pandas"):
        assert line in done.stdout


def test_the_page_of_reading_is_that_of_the_committed_numbers():
    path = FOLDER / "results" / "reading.json"
    if not path.is_file():
        pytest.skip("no result is committed yet")
    page = runpy.run_path(str(FOLDER / "reading.py"))["page"](json.loads(path.read_text()))
    assert (FOLDER / "results" / "reading.md").read_text() == page


def test_molecules_of_the_benchmark_of_tables_are_distinct_and_can_be_read():
    chem = pytest.importorskip("rdkit.Chem")
    known, new = (list(tables.molecules(seed, 300)) for seed in (0, 1))
    found = [chem.MolToSmiles(chem.MolFromSmiles(text)) for text in known + new]
    assert len(set(found)) == 600


SCRIPTS = [
    path
    for folder in ("benchmarks", "docs", "docs/results", "examples")
    for path in sorted((ROOT / folder).glob("*.py"))
]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_what_a_script_imports_of_edgewise_is_there(path):
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    for node in imports:
        if (node.module or "").split(".")[0] == "edgewise":
            module = importlib.import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or importlib.util.find_spec(f"{node.module}.{name}"), name


def test_intervals_are_those_of_one_model_and_of_five(tmp_path, monkeypatch):
    """Twelve alkanes and twelve alcohols, whose scaffolds are themselves."""
    molecules = ["C" * length + end for length in range(1, 13) for end in ("", "O")]
    table = tmp_path / "moleculenet/bace.csv"
    table.parent.mkdir()
    lines = [f"{smiles},{len(smiles)}.5" for smiles in molecules]
    table.write_text("\n".join(["smiles,pIC50", *lines]) + "\n")
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    run = runpy.run_path(str(FOLDER / "intervals.py"))["run"]
    changes = {"epochs": 1, "model_dim": 8, "molecule_descriptors": False, "companions": "none"}
    found = run("bace", 0, changes, tmp_path / "runs")
    assert list(found) == ["plain", "one", "five"]
    assert found["plain"]["mae"] == found["one"]["mae"] != found["five"]["mae"]
