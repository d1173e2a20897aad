"""What the numbers of the networks of links, series and motion mean: scores, units and baselines by hand."""

import numpy as np
import pytest
from safetensors import safe_open

from edgewise import DataError
from edgewise.learn.networks.graph_settings import LinkSettings
from edgewise.learn.networks.time_settings import DynamicsSettings, ForecastSettings
from edgewise.learn.readers.motion.motion import Motion, MotionRows
from edgewise.learn.tasks.forecast.model import SeriesEncoder, SeriesValues
from edgewise.learn.tasks.links.model import LinkOutput
from edgewise.learn.tasks.links.task import load
from edgewise.learn.tasks.motion.model import BodyEncoder, MotionOutput, Units
from edgewise.learn.training.folder import RunFolder
from explain_cases import link_model


def straight_motion():
    """Two bodies in the plane over three moments; the first goes one along x at each, the other stays."""
    positions, velocities = np.zeros((2, 1, 3, 2, 2), dtype=np.float32)
    positions[0, :, 0, 0], velocities[0, :, 0, 0] = (0, 1, 2), 1
    ones = np.ones((1, 2, 1), dtype=np.float32)
    return Motion("memory", positions, velocities, np.arange(3.0), ones, np.ones((1, 2, 2), dtype=np.float32), {})


def test_values_of_nodes_are_scaled_together_or_each():
    together = SeriesValues(mean=10.0, std=2.0)
    np.testing.assert_array_equal(together.transform(np.array([[14.0, 10.0]])), [[2, 0]])
    each = SeriesValues(10.0, 2.0, node_mean=(0.0, 100.0), node_std=(1.0, 50.0))
    np.testing.assert_array_equal(each.transform(np.array([[3.0, 200.0]])), [[3, 2]])
    np.testing.assert_array_equal(each.inverse(np.array([[3.0, 2.0]])), [[3, 200]])


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (SeriesValues(0.0, 0.0), "std is 0.0; expected a number above 0"),
        (SeriesValues(0.0, 1.0, (0.0, 0.0), (1.0, -1.0)), "node_std holds -1.0"),
        (SeriesValues(0.0, 1.0, (0.0,), (1.0,)), "node_mean has 1 numbers and node_std 1, but there are 2 nodes"),
        (SeriesValues(0.0, 1.0, (0.0, 0.0), (1.0,)), "node_mean has 2 numbers and node_std 1"),
    ],
)
def test_scales_that_do_not_fit_the_nodes_are_refused(output, message):
    encoder = SeriesEncoder(ForecastSettings(), ("a", "b"))
    with pytest.raises(DataError, match=message):
        (output.check(), encoder.check(output))


def test_the_moments_ahead_say_what_is_predicted_and_its_unit():
    units = Units(length=3.0, time=2.0, charges=(1.0,), coupling=1.0)
    later, now = MotionOutput(units, 2), MotionOutput(units, 0)
    assert (later.quantity, later.unit) == ("positions", 3.0)
    assert (now.quantity, now.unit) == ("accelerations", 0.75)
    encoder = BodyEncoder(DynamicsSettings(), (2, 1))
    encoder.check(later)
    with pytest.raises(DataError, match="ahead is 0, but target_quantity is positions"):
        encoder.check(now)
    with pytest.raises(DataError, match=r"sizes are \(2, 2\), with 1 charge"):
        BodyEncoder(DynamicsSettings(), (2, 2)).check(later)
    with pytest.raises(DataError, match="ahead is -1"):
        MotionOutput(units, -1).check()


def test_bodies_that_go_straight_on_by_hand():
    moments = MotionRows(straight_motion(), np.array([0]), np.array([0]), 2)
    output = MotionOutput(Units(1.0, 1.0, (1.0,), 1.0), 2)
    baselines = output.baselines(moments)
    assert output.metrics(baselines["straight_on"], moments) == {"mse": 0.0, "distance": 0.0}
    assert output.metrics(baselines["stays"], moments) == {"mse": 1.0, "distance": 1.0}
    batch = MotionOutput(Units(2.0, 4.0, (1.0,), 1.0), 2).transform(moments.batch(np.array([0])))
    assert batch.velocities[0].tolist() == [2, 0] and batch.targets[0].tolist() == [1, 0]


def test_a_score_of_a_pair_is_a_probability():
    output = LinkOutput(LinkSettings())
    np.testing.assert_allclose(output.probabilities(np.array([-1e9, 0.0, np.log(3)])), [0, 0.5, 0.75], atol=1e-12)
    assert output.metrics(np.array([2.0, 3.0]), np.array([0.0, 1.0]))["roc_auc"] == 1


def test_a_model_of_links_keeps_its_graph_beside_its_weights(tmp_path):
    trained = link_model("gat")
    trained.save(RunFolder(tmp_path))
    with safe_open(tmp_path / "model.safetensors", "numpy") as file:
        names = set(file.keys())
    assert {name.partition(".")[0] for name in names} == {"graph", "model"}
    again = load(RunFolder(tmp_path))
    assert again.encoder.graph.names == trained.encoder.graph.names
    assert again.output == trained.output and again.encoder.sizes == trained.encoder.sizes
