"""The benchmark on a GPU, as far as it goes without one: a stand-in for the device, and tables from its numbers."""

import importlib
import json
import runpy
import sys
import warnings
from pathlib import Path

import pytest
import torch

from stand_in_device import FACTS, StandIn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its import warns of what torch has given up
    pytest.importorskip("torch_geometric", reason="the benchmark's peer torch_geometric is not installed")

FOLDER = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(FOLDER))
from gpu_attention import dense_cases, floors, graphs, measure, report, run, step, targets  # noqa: E402
from gpu_attention.case import BOTH, EAGER, FORWARD, MODES, OURS, PLAIN, PYG, SDPA, Case  # noqa: E402
from gpu_attention.edge_cases import Kind, case_of  # noqa: E402
from gpu_attention.options import Options, Pace  # noqa: E402
from gpu_attention.suite import NAMES, PARTS, STUDIES, Entry, Part  # noqa: E402

sys.path.remove(str(FOLDER))

OPTIONS = Options(ours="gather", quick=True)
PACE = Pace(seconds=0.0, least=3, most=4)


def one_number(**ways):
    """A case whose right output is 6 and whose right gradient is 2."""
    leaf = torch.tensor([3.0], requires_grad=True)

    def difference(results):
        right = (6.0, 2.0)
        return max(abs(float(part.detach()) - x) / x for part, x in zip(results, right))

    make = {OURS: lambda: lambda: 2 * leaf, **{name: way(leaf) for name, way in ways.items()}}
    return Case(make, {"x": leaf}, torch.ones(1), difference, 1e-3)


def out_of_memory():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 118 GiB")


def missing():
    raise ImportError("No module named 'torch_geometric'")


CASES = [
    ("bonds", "dot", ""),
    ("bonds", "gatv2", ""),
    ("bonds", "dot", "features"),
    ("bonds", "gatv2", "features"),
    ("bonds", "gatv2", "bias"),
    ("complete", "dot", "bias"),
    ("complete", "dot", ""),
    ("a", "dot", ""),
    ("a", "dot", "bias"),
    ("pubmed", "dot", ""),
    ("reddit", "dot", ""),
]


@pytest.mark.parametrize(("graph", "score", "carries"), CASES)
def test_everyone_computes_what_is_right_over_edges(graph, score, carries):
    fused = (SDPA,) if graph in ("bonds", "complete") and score == "dot" and carries != "features" else ()
    case = case_of(Kind(graph, 2, 4, score, "fp32", carries), (OURS, PYG, *fused, PLAIN), "cpu", OPTIONS)
    assert set(case.leaves) >= {"query", "key"} | ({carries} if carries else set())
    for name, make in case.make.items():
        found = measure.computed(case, make(), BOTH)
        assert case.difference(found) < 1e-4, name
        wrong = found[0], *(2 * grad for grad in found[1:])
        assert case.difference(wrong) > 0.5
        assert case.difference(wrong[:1]) < 1e-4
        assert case.difference((found[0] * torch.nan,)) == torch.inf


@pytest.mark.parametrize("normalize", ["hardmax", "sparsemax", "entmax"])
def test_other_normalizers_have_the_gradients_that_there_are(normalize):
    case = case_of(Kind("a", 2, 4, "dot", "fp32", normalize=normalize), (OURS, PLAIN), "cpu", OPTIONS)
    for name, make in case.make.items():
        found = measure.computed(case, make(), BOTH)
        assert len(found) == (2 if normalize == "hardmax" else 4)
        assert case.difference(found) < 1e-4, name
        assert case.difference((found[0], *(2 * grad for grad in found[1:]))) > 0.5


@pytest.mark.parametrize("make", [dense_cases.additive, dense_cases.dispatched])
def test_everyone_computes_what_is_right_over_all_pairs(make):
    peers = (OURS, PLAIN, EAGER) if make is dense_cases.additive else (OURS, SDPA)
    case = make(256, peers, "cpu", OPTIONS)
    for name, way in case.make.items():
        found = measure.computed(case, way(), BOTH)
        assert case.difference(found) <= case.tolerance, name
        assert case.difference((2 * found[0], *found[1:])) > 0.5


@pytest.mark.parametrize("kind", ["window", "packed"])
def test_everyone_computes_what_is_right_in_windows_and_packed_sequences(kind):
    case = dense_cases.ranges(kind, "fp32", (OURS, SDPA), "cpu", OPTIONS)
    for name, way in case.make.items():
        found = measure.computed(case, way(), BOTH)
        assert case.difference(found) <= case.tolerance, name
        assert case.difference((2 * found[0], *found[1:])) > 0.5


def test_the_graphs_are_what_they_are_said_to_be():
    law, bonds, complete = (graphs.named(name, True, "cpu") for name in ("a", "bonds", "complete"))
    assert (law.num_nodes, law.num_edges) == (2_000, 14_000)
    assert law.facts()["largest_degree"] > 100
    assert bonds.num_edges == 55 * 40
    pairs = set(zip(bonds.senders.tolist(), bonds.receivers.tolist()))
    assert len(pairs) == bonds.num_edges  # a bond occurs once, so that a mask holds the same
    assert all((receiver, sender) in pairs for sender, receiver in pairs)
    assert torch.equal(bonds.senders // 25, bonds.receivers // 25)
    assert bonds.facts()["nodes_without_edges"] == 0
    assert complete.num_edges == 40 * 625
    assert complete.senders[625:1250].view(25, 25)[3].tolist() == list(range(25, 50))
    assert all((graph.receivers.diff() >= 0).all() for graph in (law, bonds, complete))


def test_floors_are_those_of_the_study():
    """Milliseconds at 4.3 TB/s, worked out by hand for 124 M edges in bf16."""
    found = floors.edges("dot", 2_449_029, 123_718_280, 4, 32, 2, bias=False, features=False)
    assert found[FORWARD]["gathered"] / 4.3e9 == pytest.approx(15.1, rel=0.01)
    assert found[BOTH]["gathered"] / 4.3e9 == pytest.approx(47.0, rel=0.01)
    gatv2 = floors.edges("gatv2", 2_449_029, 123_718_280, 4, 32, 2, bias=False, features=False)
    assert gatv2[BOTH]["gathered"] / 4.3e9 == pytest.approx(31.9, rel=0.01)
    with_bias = floors.edges("dot", 10, 20, 4, 32, 2, bias=True, features=False)
    without = floors.edges("dot", 10, 20, 4, 32, 2, bias=False, features=False)
    assert with_bias[BOTH]["once"] - without[BOTH]["once"] == 4 * 20 * 4 * 2 + 4 * 20
    assert floors.tanh_ms(2048, 64, 8) == pytest.approx(8 * 0.064)


def test_a_failed_case_is_recorded_with_its_reason():
    late = {"backward": lambda leaf: lambda: lambda: leaf.detach() * 2}
    case = one_number(
        memory=lambda leaf: lambda: out_of_memory, library=lambda leaf: missing,
        wrong=lambda leaf: lambda: lambda: 3 * leaf, **late,
    )  # fmt: skip
    peers = measure.measured(case, StandIn(), PACE, until=1e9)["peers"]
    assert peers["memory"] == {mode: {"failed": "out of memory"} for mode in MODES}
    assert peers["library"][BOTH] == {"failed": "ImportError: No module named 'torch_geometric'"}
    assert peers["wrong"][FORWARD]["difference"] == pytest.approx(0.5)
    assert peers["backward"][FORWARD]["median_ms"] == 2.0
    assert peers["backward"][BOTH]["failed"].startswith("RuntimeError: element 0 of tensors does not require grad")
    assert peers[OURS][BOTH] | {"times_us": 0} == {
        "difference": 0.0, "median_ms": 2.0, "spread_ms": 0.0, "times_us": 0, "extra_bytes": 1000, "launches": 3,
    }  # fmt: skip


def test_memory_that_runs_out_while_times_are_taken():
    class Full(StandIn):
        calls = 0

        def milliseconds(self, call, *, cold=True):
            self.calls += 1
            return out_of_memory() if self.calls > 5 else 2.0

    found = measure.timed({"one": lambda: 0, "other": lambda: 0}, Full(), PACE)
    assert any(record == {"failed": "out of memory"} for record in found.values())


@pytest.mark.nightly
def test_what_must_be_compiled_is_cut_when_the_time_is_up():
    name = measure.COMPILED[0]
    case = one_number(**{name: lambda leaf: lambda: lambda: 2 * leaf})
    peers = measure.measured(case, StandIn(), PACE, until=100.0, clock=lambda: 99.0)["peers"]
    assert peers[name] == {mode: {"failed": "cut: the time was up"} for mode in MODES}
    peers = measure.measured(case, StandIn(), PACE, until=100.0, clock=lambda: 1.0)["peers"]
    assert peers[name][BOTH]["median_ms"] == 2.0


def session(monkeypatch, parts, **more):
    """A run over small parts on the stand-in."""
    monkeypatch.setattr(run, "PARTS", parts)
    data = {"machine": FACTS, "parts": {}}
    device = more.pop("device", StandIn())
    return run.Session(device, OPTIONS, data, save=lambda: None, say=lambda text: None, **more)


def small_parts(replays=True):
    peers = (OURS, PYG)
    build = lambda device, options: case_of(Kind("bonds", 2, 4, "dot", "fp32"), peers, device, options)  # noqa: E731
    broken = Entry(lambda device, options: missing(), peers)
    return {"a": Part("A", {"dot, bf16": Entry(build, peers), "broken": broken}, 1, replays)}


def test_a_run_measures_replays_and_notes_what_failed(monkeypatch):
    made = session(monkeypatch, small_parts(), commit="abc")
    made.run(["a"])
    record = made.data["parts"]["a"]
    assert record["measured"]["commit"] == "abc"
    assert record["measured"]["notes"] == ["broken: ImportError: No module named 'torch_geometric'"]
    assert record["cases"]["dot, bf16"]["peers"][PYG][BOTH]["replay"]["median_ms"] == 2.0
    assert json.loads(json.dumps(made.data)) == made.data
    assert "| dot, bf16 | edgewise | 2.00 ± 0.000 |  | 2.00 ± 0.000 |" in report.page(made.data)


@pytest.mark.nightly
def test_after_a_capture_that_fails_no_other_is_tried(monkeypatch):
    parts = small_parts()
    parts["c"] = parts["a"]
    made = session(monkeypatch, parts, device=StandIn(captures=False))
    made.run(["a", "c"])
    found = made.data["parts"]["a"]["cases"]["dot, bf16"]["peers"]
    assert found[OURS][FORWARD]["replay"]["failed"].startswith("RuntimeError: operation not permitted when stream")
    assert "replay" not in found[PYG][FORWARD]
    assert made.data["parts"]["c"]["measured"]["notes"][-1] == (
        f"dot, bf16, captured: {PYG}, {SDPA}: an earlier capture failed"
    )
    assert "not permitted" in report.page(made.data)


def test_a_device_that_is_lost_ends_the_run(monkeypatch):
    device = StandIn()
    device.sick = "CUDA error: an illegal memory access was encountered"
    made = session(monkeypatch, small_parts(), device=device)
    made.run(["a"])
    assert made.trouble == device.sick
    assert made.data["parts"]["a"]["measured"]["notes"] == [f"dot, bf16: {device.sick}"]


def test_what_does_not_fit_into_the_time_is_cut(monkeypatch):
    times = iter([0.0, 0.0, 0.0, *[1e6] * 100])
    made = session(monkeypatch, small_parts(replays=False), clock=lambda: next(times))
    made.run(["a"])
    assert made.data["parts"]["a"]["measured"]["notes"][0] == "dot, bf16: cut: the time was up"


def test_results_of_two_machines_do_not_meet(tmp_path):
    data = run.begin(tmp_path, FACTS)
    assert data == {"machine": FACTS, "parts": {}}
    measured = {"commit": "0" * 40, "changed_files": False, "ours": "triton", "quick": False, "at": "", "notes": []}
    data["parts"]["limits"] = {"measured": measured, "limits": {"copy_gb_per_s": 4300.0, "gather_gb_per_s": {}}}
    report.write(data, tmp_path)
    assert run.begin(tmp_path, FACTS) == data == report.read(tmp_path)
    with pytest.raises(run.RefusedMergeError, match=r"elsewhere \(gpu differ\).*--out"):
        run.begin(tmp_path, FACTS | {"gpu": "other"})


def results():
    """The content of gpu.json after a run in which all times were round."""
    measured = {"commit": "0123456789abcdef", "changed_files": False, "ours": "triton", "quick": False, "at": ""}
    measured["notes"] = []

    def times(ms, **more):
        return {"median_ms": ms, "spread_ms": ms / 100, "times_us": [1e3 * ms], "difference": 1e-3} | more

    def peer(forward, both, replay):
        return {
            FORWARD: times(forward, extra_bytes=100, launches=2, replay=times(replay)),
            BOTH: times(both, extra_bytes=1200, launches=6),
        }

    def case(**peers):
        held = {FORWARD: {"inputs": 900, "outputs": 100}, BOTH: {"inputs": 1000, "outputs": 1000}}
        floor = {mode: {"gathered": 4_000_000 * n, "once": 2_000_000 * n} for mode, n in zip(MODES, (100, 300))}
        facts = {"nodes": 3, "edges": 4, "largest_degree": 2, "nodes_without_edges": 0, "origin": "a test"}
        return {"facts": facts, "tolerance": 2e-2, "held_bytes": held, "floor_bytes": floor, "peers": peers}

    dot = case(**{OURS: peer(0.5, 0.7, 0.2), PYG: peer(5.0, 9.0, 4.0)})
    gatv2 = case(**{OURS: peer(0.4, 0.42, 0.1)})
    lost = {mode: {"failed": "out of memory"} for mode in MODES}
    large = case(**{OURS: peer(17.0, 70.0, 1.0), PYG: lost, PLAIN: lost})
    limits = {"copy_gb_per_s": 4000.0, "gather_gb_per_s": {"far beyond it": {"128": 3000.0}}}
    cases = {"a": {"dot, bf16": dot, "GATv2, bf16": gatv2}, "b": {"dot, bf16": large}}
    parts = {name: {"measured": measured, "cases": found} for name, found in cases.items()}
    return {"machine": FACTS, "parts": {"limits": {"measured": measured, "limits": limits}, **parts}}


def rows_of(table):
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    return {line[0]: line[1:] for line in lines}


def test_what_must_be_shown_is_computed_from_the_numbers():
    rows = rows_of(report.targets_table(results()))
    assert rows["(a) dot, bf16, forward"] == ["≤ 0.25 ms", "0.5 ms", "0.2 ms", "**as a captured graph only**"]
    assert rows["(a) dot, bf16, forward + backward"] == ["≤ 0.8 ms", "0.7 ms", "not yet measured", "yes"]
    assert rows["(b) dot, bf16, forward + backward"] == ["≤ 60 ms", "70 ms", "–", "**no**"]
    assert rows["(b) dot, bf16, forward, PyTorch Geometric"][1:] == ["out of memory", "–", "yes"]
    assert rows["(a) GATv2, bf16 over dot, forward"] == ["≤ 0.70×", "0.80×", "0.50×", "**as a captured graph only**"]
    assert rows["(a) GATv2, bf16 over dot, forward + backward"][1::2] == ["0.60×", "yes"]
    assert rows["(a) peak memory over inputs + outputs"][1].startswith("1.10×, at worst (dot, bf16, forward +")
    assert rows["(c) bonds, dot, bf16, forward"][1:] == ["not yet measured"] * 3
    assert rows["additive, L = 2,048, forward: eager PyTorch over ours"][1:] == [targets.NOT_YET] * 3


def test_wrong_results_meet_nothing():
    data = results()
    data["parts"]["a"]["cases"]["dot, bf16"]["peers"][OURS][BOTH]["difference"] = 0.5
    row = rows_of(report.targets_table(data))["(a) dot, bf16, forward + backward"]
    assert row == ["≤ 0.8 ms", "0.7 ms, but the results are wrong", "not yet measured", "**no**"]
    assert "**5e-01**" in report.page(data)


def test_tables_are_rendered_from_the_numbers():
    page = report.page(json.loads(json.dumps(results())))
    ours = "| dot, bf16 | edgewise | 0.500 ± 0.005 |  | 0.200 ± 0.002 | 0.700 ± 0.007 |  | – | 1.00 / 1.10 | "
    assert ours + "50% / 43% | 25% / 21% | 2 / 6 | 1e-03 |" in page
    assert "| dot, bf16 | PyTorch Geometric | 5.00 ± 0.050 | 10.00× | 4.00 ± 0.040 | 9.00 ± 0.090 | 12.86× |" in page
    assert "| dot, bf16 | PyTorch Geometric | out of memory | – | out of memory | – | – / – | – | – | – | – |" in page
    assert "| gather of 128-byte rows, far beyond it | 3,000 |" in page
    assert "\nturbo-gnn; PyTorch Geometric, compiled; plain PyTorch" in page
    assert "(edgewise, backend gather); PyTorch Geometric: not yet measured.\n" in page
    assert "backend triton" in page
    assert "G (4 multiprocessors" in page


def test_before_a_gpu_was_at_hand_every_number_is_not_yet_measured():
    page = report.page({})
    cells = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    numbers = [cell.strip() for row in cells for cell in row[1:]]
    known = {peer for part in PARTS.values() for entry in part.entries.values() for peer in entry.peers}
    known |= {target.asked for target in targets.TARGETS} | {"–"}
    known |= {peer for peers in step.MODELS.values() for peer in peers}
    heads = [cell.strip() for row in cells if not row[0].strip() or row[0].strip() == "case" for cell in row[1:]]
    assert set(numbers) - known - set(heads) == {"not yet measured"}
    assert numbers.count("not yet measured") > 500
    assert "**Not yet measured**: no GPU was at hand." in page


def test_the_committed_page_is_that_of_the_committed_numbers(tmp_path):
    data = report.read(FOLDER / "results")
    assert (FOLDER / "results" / "gpu.md").read_text() == report.page(data)
    if data:
        report.write(data, tmp_path)
        assert report.read(tmp_path) == data


def test_every_way_of_the_list_can_be_made():
    for part in PARTS.values():
        for entry in part.entries.values():
            assert tuple(entry.build("cpu", OPTIONS).make) == entry.peers
            assert entry.peers[0] == OURS
    assert set(NAMES) == set(PARTS) | set(STUDIES)


@pytest.fixture
def main(monkeypatch):
    """The command, in this process."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return runpy.run_path(str(FOLDER / "gpu.py"))["main"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU")
def test_without_a_gpu_nothing_is_measured(main, capsys):
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("There is no CUDA GPU that torch can use: nothing is measured.")


def test_the_command_writes_the_page_without_a_gpu(main, capsys, tmp_path):
    assert main(["--table-only", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "gpu.md").read_text() == report.page({})
    assert main(["--only", "a,nothing"]) == 2
    assert capsys.readouterr().err.startswith("--only has nothing; the parts are limits, a, b, c, ")


def test_the_sizes_that_are_tried_are_those_of_the_kernels():
    pytest.importorskip("triton")
    gpu_tiles = runpy.run_path(str(FOLDER / "gpu_tiles.py"))
    layouts = {"edges": "edges.layout", "operators": "edges.operators", "graphs": "graphs.launch"}
    layouts["ranges"] = "ranges.layout"
    for part, case, changes in gpu_tiles["CALLS"].values():
        assert case in PARTS[part].entries
        for change in changes:
            for name, value in change.items():
                module, _, constant = name.partition(".")
                found = importlib.import_module(f"edgewise.backends.triton.{layouts[module]}")
                before = getattr(found, constant)
                with gpu_tiles["changed"](change):
                    assert getattr(found, constant) == value
                assert getattr(found, constant) is before


def test_the_committed_page_of_sizes_is_that_of_the_committed_numbers():
    gpu_tiles = runpy.run_path(str(FOLDER / "gpu_tiles.py"))
    assert (FOLDER / "results/gpu_tiles.md").read_text() == gpu_tiles["page"](gpu_tiles["read"]())
