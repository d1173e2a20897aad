"""The training steps of the benchmark on a GPU, as far as they go without one."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from stand_in_device import FACTS, StandIn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its import warns of what torch has given up
    pytest.importorskip("torch_geometric", reason="the benchmark's peer torch_geometric is not installed")

FOLDER = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(FOLDER))
from gpu_attention import plain_molecules, report, run, step, step_study  # noqa: E402
from gpu_attention.case import OURS  # noqa: E402
from gpu_attention.options import Options  # noqa: E402
from graph_epochs import inputs as graph_inputs  # noqa: E402
from graph_epochs import models as graph_models  # noqa: E402, F401 (step imports it when the path is gone)

sys.path.remove(str(FOLDER))


def session(device=None):
    """A run on the stand-in."""
    data = {"machine": FACTS, "parts": {}}
    nothing = lambda *text: None  # noqa: E731
    return run.Session(device or StandIn(), Options(ours="gather", quick=True), data, save=nothing, say=nothing)


def missing(device, quick):
    raise ImportError("No module named 'torch_geometric'")


@pytest.fixture
def step_models(monkeypatch):
    """Two of the models alone, the second with a peer that cannot be imported."""
    molecules, _, language = step.MODELS
    peers = {OURS: step.MODELS[language][OURS], step.NANOGPT: missing}
    models = {molecules: step.MODELS[molecules], language: peers}
    pairs = [(molecules, OURS), (language, OURS), (molecules, step.CHEMPROP), (language, step.NANOGPT)]
    monkeypatch.setattr(step, "MODELS", models)
    monkeypatch.setattr(step_study, "MODELS", models)
    monkeypatch.setattr(step_study, "PAIRS", pairs)
    return molecules, language


def test_training_steps_are_timed_and_captured(monkeypatch, step_models):
    molecules, language = step_models
    made = session()
    monkeypatch.setattr(step_study, "COMPILE_SECONDS", 1e9)
    made.run(["step"])
    record = made.data["parts"]["step"]
    ours, theirs = (record["models"][molecules][peer] for peer in (OURS, step.CHEMPROP))
    for found in (ours, theirs):
        assert found[step.CALLED]["launches"] == 3
        assert found[step.COMPILED] == found[step.BOTH] == {"failed": "cut: the time was up"}
        assert found[step.CAPTURED]["median_ms"] == 2.0
    failed = {"failed": "ImportError: No module named 'torch_geometric'"}
    cut = {"failed": "cut: the time was up"}
    expected = {step.CALLED: failed, step.COMPILED: cut, step.CAPTURED: failed, step.BOTH: cut}
    assert record["models"][language][step.NANOGPT] == expected
    assert json.loads(json.dumps(made.data)) == made.data


def test_a_step_that_is_compiled_is_captured_as_the_same_program(monkeypatch, step_models):
    molecules, _ = step_models
    compiled = []
    monkeypatch.setattr(step.Training, "compiled", lambda training: compiled.append(training) or training)
    made = session()
    made.run(["step"])
    found = made.data["parts"]["step"]["models"][molecules][OURS]
    assert found[step.COMPILED]["launches"] == 3
    assert found[step.BOTH]["median_ms"] == 2.0
    assert len(compiled) == 3  # the fourth cannot be made


def test_a_step_that_waits_is_not_captured_and_the_others_are(monkeypatch, step_models):
    class Waits(StandIn):
        def waits(self, call):
            call()
            self.asked = [*getattr(self, "asked", []), call]
            return "it waits for the device in model.py:1: x.item()" if len(self.asked) == 1 else ""

    molecules, language = step_models
    made = session(Waits())
    monkeypatch.setattr(step_study, "COMPILE_SECONDS", 1e9)
    made.run(["step"])
    models = made.data["parts"]["step"]["models"]
    assert models[molecules][OURS][step.CAPTURED] == {"failed": "it waits for the device in model.py:1: x.item()"}
    assert models[language][OURS][step.CAPTURED]["median_ms"] == 2.0


def test_after_a_step_that_could_not_be_captured_no_other_is(monkeypatch, step_models):
    molecules, language = step_models
    made = session(StandIn(captures=False))
    monkeypatch.setattr(step_study, "COMPILE_SECONDS", 1e9)
    made.run(["step"])
    models = made.data["parts"]["step"]["models"]
    assert models[molecules][OURS][step.CAPTURED]["failed"].startswith("RuntimeError: operation not permitted")
    assert models[language][OURS][step.CAPTURED] == {"failed": "an earlier capture failed"}
    assert models[molecules][step.CHEMPROP][step.CAPTURED] == {"failed": "an earlier capture failed"}


@pytest.mark.parametrize(("model", "peer"), step_study.PAIRS)
def test_everyone_learns(model, peer):
    training = step.training_of(model, peer, "cpu", quick=True)
    take = training.step()
    first = take()
    for _ in range(14):
        take()
    training.model.eval()  # without dropout
    with torch.no_grad():
        found = training.loss(*training.given)
    assert (found[0] / found[1] if isinstance(found, tuple) else found) < 0.995 * first


def test_what_comes_back_along_a_bond_is_not_in_its_message():
    """The bonds of 0 – 1 – 2, worked by hand: what 1 sends to 2 is what came from 0 alone."""
    senders, receivers = torch.tensor([1, 0, 2, 1]), torch.tensor([0, 1, 1, 2])
    reverse = plain_molecules.reverse_of(senders, receivers, 3)
    assert reverse.tolist() == [1, 0, 3, 2]
    nothing = torch.zeros(0)
    batch = plain_molecules.Molecules(
        torch.zeros(3, 1), nothing, senders, receivers, reverse, nothing, nothing, nothing
    )
    hidden = torch.tensor([[1.0], [10.0], [100.0], [1000.0]])
    assert plain_molecules.received(hidden, batch).flatten().tolist() == [1.0, 110.0, 1000.0]
    assert plain_molecules.messages(hidden, batch).flatten().tolist() == [100.0, 0.0, 0.0, 10.0]


def test_a_molecule_does_not_see_the_others_of_its_batch():
    batch = plain_molecules.Molecules.of(step.molecules(3))
    model = plain_molecules.DirectedMessagePassing(63, 11, step.DESCRIPTORS).eval()
    other = batch._replace(atoms=torch.cat([batch.atoms[:25], torch.zeros(50, 63)]))
    assert torch.allclose(model(batch)[0], model(other)[0], atol=1e-6)
    assert not torch.allclose(model(batch)[1], model(other)[1], atol=1e-3)


def test_a_graph_is_made_up_where_the_pages_are_not_there(monkeypatch, tmp_path):
    small = graph_inputs.Size(30, 20, 3, 40, 4, 0.45)
    monkeypatch.setattr(step, "PAGES", small)
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    step.pages.cache_clear()
    inputs, origin = step.pages(quick=False)
    facts = inputs.facts()
    assert (facts["nodes"], facts["edges"], facts["features"], facts["training_nodes"]) == (30, 80, 20, 18)
    assert origin.startswith("made up")
    assert "EDGEWISE_DATA does not lead to facebook_pages/facebook_pages.npz" in origin
    pairs = set(zip(inputs.senders.tolist(), inputs.receivers.tolist()))
    assert len(pairs) == 80
    assert all((receiver, sender) in pairs and receiver != sender for sender, receiver in pairs)
    (tmp_path / "facebook_pages").mkdir()
    arrays = {"x_indices": [1, 0, 2], "x_indptr": [0, 1, 3], "x_shape": [2, 3], "y": [0, 1]}
    np.savez(tmp_path / "facebook_pages" / "facebook_pages.npz", edge_index=[[0, 1], [1, 0]], **arrays)
    step.pages.cache_clear()
    inputs, origin = step.pages(quick=False)
    step.pages.cache_clear()
    assert origin == "read from facebook_pages/facebook_pages.npz"
    assert inputs.features.to_dense().tolist() == [[0, 1, 0], [0.5, 0, 0.5]]
    assert inputs.senders.tolist() == [0, 1]


def test_training_steps_are_shown_with_their_launches():
    molecules, pages, _ = step.MODELS
    times = {"median_ms": 4.0, "spread_ms": 0.1, "times_us": [4e3]}
    ours = {
        step.CALLED: times | {"launches": 1234},
        step.COMPILED: times | {"launches": 321},
        step.CAPTURED: times,
        step.BOTH: {"failed": "an earlier capture failed"},
    }
    measured = {"commit": "0" * 40, "changed_files": False, "ours": "triton", "quick": False, "at": "", "notes": []}
    data = {"machine": FACTS, "parts": {}}
    data["parts"]["step"] = {
        "measured": measured,
        "models": {molecules: {OURS: ours}, pages: {OURS: {step.CALLED: {"failed": "out of memory"}}}},
        "facts": {pages: {"nodes": 22470, "origin": "made up"}},
    }
    page = report.page(data)
    time = "4.00 ± 0.100"
    row = f"| {molecules} | edgewise | {time} | 1,234 | {time} | 321 | {time} | an earlier capture failed |"
    assert row in page
    assert f"| {pages} | edgewise | out of memory | – | not yet measured |" in page
    assert f"- {pages}: 22,470 nodes, made up." in page
    counted = "| launches of a training step of"
    assert f"{counted} {molecules} | counted | 1,234 | – | yes |" in page
    assert f"{counted} {pages} | counted | out of memory | – | **no** |" in page
