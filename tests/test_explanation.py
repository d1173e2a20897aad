"""An explanation is JSON as it stands."""

import json
import math
from dataclasses import replace

import numpy as np

from edgewise.cli.explain import lines_of
from edgewise.explain.explanation import Attribution, Curve, Explanation, Layer, Link, TargetPrediction, Unit
from edgewise.view.notebook import summary_of
from edgewise.view.picture import draw_explanation


def test_an_explanation_becomes_json_and_numbers_that_are_none_become_null():
    explanation = Explanation(
        kind="molecule",
        title="CO",
        sources={"smiles": "CO"},
        predictions=(TargetPrediction("y", np.float64(1 / 3), low=-math.inf),),
        explained="y",
        units=(Unit("C", "smiles", 0, 1), Unit("O", "smiles", 1, 2)),
        links=(Link(0, 1),),
        layers=(Layer("layer 1", np.array([0, 1]), np.array([1, 0]), np.array([[0.25, 0.75]])),),
        attributions=(Attribution("occlusion", np.array([1e-9, np.nan])),),
    )
    found = json.loads(json.dumps(explanation.to_json(), allow_nan=False))
    assert found["predictions"][0]["value"] == 0.3333333
    assert found["predictions"][0]["low"] is None
    assert found["links"] == [{"first": 0, "second": 1, "effect": None}]
    assert found["layers"][0]["values"] == [[0.25, 0.75]]
    assert found["attributions"][0]["values"] == [1e-9, None]
    assert found["units"][1] == {"name": "O", "source": "smiles", "start": 1, "stop": 2}
    assert found["faithfulness"] is None


def test_a_curve_far_from_zero_keeps_its_numbers():
    """Seconds since 1970 were rounded to seven digits, so that all steps were one and the row stood elsewhere."""
    seconds = 1.7e9 + np.arange(3.0)
    curve = Curve("time", seconds, np.array([0.1, 1 / 3, 0.5]), 1.7e9 + 1.5)
    found = Explanation(
        kind="molecule",
        title="C",
        sources={"smiles": "C"},
        predictions=(TargetPrediction("y", 0.3),),
        explained="y",
        units=(Unit("C", "smiles", 0, 1),),
        layers=(),
        attributions=(),
        curves=(curve,),
    ).to_json()["curves"]
    assert found == [
        {"name": "time", "at": seconds.tolist(), "predictions": [0.1, 0.3333333, 0.5], "here": 1.7e9 + 1.5}
    ]


def test_numbers_far_from_zero_are_written_with_the_digits_in_which_they_differ():
    """A notebook and a terminal wrote 1.7e+09 for the prediction and for the baseline."""
    explanation = Explanation(
        kind="text",
        title="a",
        sources={"text": "a"},
        predictions=(TargetPrediction("time", 1_700_000_025.0, std=40.0), TargetPrediction("y", 0.5)),
        explained="time",
        units=(Unit("a", "text", 0, 1),),
        attributions=(Attribution("removal", np.array([25.0]), baseline=1_700_000_000.0),),
    )
    assert summary_of([explanation]) == "Explanation of a: time = 1700000025, y = 0.5000; 1 unit"
    words = "\n".join(lines_of(explanation))
    assert "time 1700000025 ± 40" in words and "removal: baseline 1700000000, and 25 by all units" in words
    assert "baseline 1700000000" in draw_explanation(explanation).texts[-1].get_text()
    assert replace(explanation, explained="a class").in_words(0.25) == "0.2500"
