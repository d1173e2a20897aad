"""Shapley sampling: the definition by enumeration, a case by hand, efficiency, and every task by its name."""

import itertools
import json
import math

import numpy as np
import pytest

from edgewise.cli.main import main
from edgewise.errors import SettingError
from edgewise.explain.methods import METHODS, chosen_methods, shapley_values
from edgewise.learn.tasks.graphs.explainable import explain_graph
from edgewise.learn.tasks.links.explainable import explain_link
from edgewise.learn.tasks.nodes.task import explain_node
from edgewise.learn.training.folder import RunFolder
from explain_cases import (
    SONG,
    explain_prompt,
    explain_sentence,
    explain_text,
    graph_model,
    language_model,
    link_model,
    node_model,
    tagger,
    text_model,
)


def game(num_units, seed=0):
    """A number for each set of units that is left, and the function of lists of removed units."""
    worth = np.random.default_rng(seed).normal(size=2**num_units)

    def predict(removed):
        return np.array([worth[2**num_units - 1 - sum(2 ** int(unit) for unit in units)] for units in removed])

    return worth, predict


def exact(worth, num_units):
    """φ_i = Σ_S |S|! (n − |S| − 1)! / n! (f(S ∪ i) − f(S)), over all sets S without i."""
    values = np.zeros(num_units)
    for unit in range(num_units):
        others = [other for other in range(num_units) if other != unit]
        for size in range(num_units):
            share = math.factorial(size) * math.factorial(num_units - size - 1) / math.factorial(num_units)
            for members in itertools.combinations(others, size):
                code = sum(2**member for member in members)
                values[unit] += share * (worth[code + 2**unit] - worth[code])
    return values


def alone(num_units):
    return [np.array([unit]) for unit in range(num_units)]


@pytest.mark.parametrize("num_units", [1, 2, 4, 6])
def test_all_orders_give_the_shapley_value(num_units):
    worth, predict = game(num_units)
    found = shapley_values(predict, num_units, alone(num_units), samples=math.factorial(num_units))
    np.testing.assert_allclose(found, exact(worth, num_units), atol=1e-12)


def test_by_hand():
    # Units are worth 1, 2 and 0 alone; the first two together 4 more; each has half of that.
    def predict(removed):
        left = [set(range(3)) - set(units.tolist()) for units in removed]
        return np.array([1.0 * (0 in each) + 2.0 * (1 in each) + 4.0 * ({0, 1} <= each) for each in left])

    np.testing.assert_allclose(shapley_values(predict, 3, alone(3)), [3, 4, 0], atol=1e-12)
    # Antithetic pairs are exact for pairwise effects, with any sample.
    np.testing.assert_allclose(shapley_values(predict, 3, alone(3), samples=2, seed=5), [3, 4, 0], atol=1e-12)


def test_samples_come_close_repeat_by_seed_and_are_efficient():
    worth, predict = game(6)
    few, many = (shapley_values(predict, 6, alone(6), samples=samples) for samples in (4, 600))
    true = exact(worth, 6)
    assert np.abs(many - true).max() < 0.15 < np.abs(few - true).max()
    for found in (few, many):
        assert found.sum() == pytest.approx(worth[-1] - worth[0], abs=1e-12)
    np.testing.assert_array_equal(few, shapley_values(predict, 6, alone(6), samples=4))
    assert (few != shapley_values(predict, 6, alone(6), samples=4, seed=1)).any()
    groups = [np.array([0, 3]), np.array([1, 2, 5])]
    assert shapley_values(predict, 6, groups).sum() == pytest.approx(worth[-1] - worth[16], abs=1e-12)


EXPLAINED = {
    "language": lambda **more: explain_prompt(language_model(), SONG[:6], **more),
    "tagging": lambda **more: explain_sentence(tagger(), "the film was great .", **more),
    "text": lambda **more: explain_text(text_model(), "the film", **more),
    "node": lambda **more: explain_node(*node_model("gat"), 3, **more),
    "link": lambda **more: explain_link(link_model("gat"), 0, 1, **more),
    "graph": lambda **more: explain_graph(*graph_model("gat")[:2], 3, **more),
}


@pytest.mark.parametrize("task", EXPLAINED)
def test_every_task_has_it_by_its_name(task):
    found = EXPLAINED[task](methods=["shapley:samples=2", "occlusion"])
    assert [each.name for each in found.attributions] == ["shapley", "occlusion"]
    removal = found.faithfulness.removals[0]
    values = found.attributions[0].values
    assert np.nansum(values) == pytest.approx(removal.deletion[0] - removal.deletion[-1], abs=1e-5)


def test_names_and_options():
    assert chosen_methods("shapley:samples=8,seed=2") == {"shapley": {"samples": 8, "seed": 2}}
    assert list(chosen_methods(["integrated-gradients", "gradient-x-input"])) == [
        "integrated gradients",
        "gradient × input",
    ]
    for given, message in (
        ("shap", f"method is 'shap'; expected one of {', '.join(METHODS)}"),
        ("shapley:steps=3", "has the option 'steps=3'; expected integers: samples=32, seed=0"),
        ("rollout:x=1", "expected integers: none"),
        ([], "no method is named"),
        (["shapley:samples=2", "occlusion", "shapley:samples=4"], "'shapley' is named twice with different options"),
        ("shapley:samples=2,samples=3", "'shapley' has the option samples twice"),
    ):
        with pytest.raises(SettingError, match=message):
            chosen_methods(given)
    with pytest.raises(SettingError, match="samples is 0; expected at least 1"):
        EXPLAINED["text"](methods="shapley:samples=0")
    with pytest.raises(SettingError, match="method 'attention' does not apply to this model"):
        explain_text(text_model(readout="mean", encoder="gru"), "the film", methods="attention")


def test_from_the_command_line(tmp_path, capsys):
    folder = RunFolder(tmp_path / "run")
    folder.begin()
    text_model().save(folder)
    words = ["explain", str(folder.path), "the film", "-o", "-", "--method", "shapley:samples=4", "occlusion"]
    assert main(words) == 0
    shapley, occlusion = json.loads(capsys.readouterr().out)[0]["attributions"]
    assert (shapley["name"], occlusion["name"]) == ("shapley", "occlusion")
