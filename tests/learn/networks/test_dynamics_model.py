"""Models of moving bodies: what turns with them and what does not, bodies apart, every way to weigh messages."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from edgewise import SettingError
from edgewise.learn.batches.bodies import BodyBatch
from edgewise.learn.networks.dynamics import dynamics_model
from edgewise.learn.networks.time_settings import DynamicsSettings
from edgewise.learn.readers.motion.motion import Motion, MotionRows

FORCES = {"model": "forces", "target_quantity": "accelerations"}


def moments(num_trajectories=3, num_bodies=4, space_dim=3, seed=0):
    random = np.random.default_rng(seed)
    shape = (num_trajectories, 2, num_bodies, space_dim)
    couplings = random.normal(size=(num_trajectories, num_bodies, num_bodies))
    motion = Motion(
        "memory",
        random.normal(size=shape).astype(np.float32),
        random.normal(size=shape).astype(np.float32),
        np.arange(2, dtype=np.float32),
        random.normal(size=(num_trajectories, num_bodies, 1)).astype(np.float32),
        (couplings + couplings.swapaxes(1, 2)).astype(np.float32),
        {},
    )
    return MotionRows(motion, np.arange(num_trajectories), np.zeros(num_trajectories, dtype=np.int64), 1)


def doubled(batch):
    return BodyBatch(
        batch.positions.double(), batch.velocities.double(), batch.charges.double(), batch.edges,
        batch.couplings.double(),
    )  # fmt: skip


def model_of(**settings):
    torch.manual_seed(0)
    size = {} if settings.get("model") == "forces" else {"num_layers": 2}
    made = dynamics_model(3, 1, 1, DynamicsSettings(**size, model_dim=8, **settings)).double().eval()
    for name, parameter in made.named_parameters():
        if name.endswith(("step.2.weight", "network.4.weight")):  # starts nearly at zero
            torch.nn.init.normal_(parameter)
    return made


PULLS = [{"model": "forces", "target_quantity": "accelerations"}, {"target_quantity": "accelerations"}]
MODELS = [{}, {"model": "graph_network"}, *PULLS]


def turned(batch, matrix, shift):
    return BodyBatch(
        batch.positions @ matrix.T + shift, batch.velocities @ matrix.T, batch.charges, batch.edges, batch.couplings
    )


@pytest.mark.parametrize("aggregation", ["sum", "gate", "attention"])
def test_the_equivariant_model_turns_with_the_bodies(aggregation):
    model, batch = model_of(aggregation=aggregation), doubled(moments().batch(np.arange(3)))
    matrix = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    shift = torch.tensor([3.0, -2, 7], dtype=torch.float64)
    for each in (matrix, -matrix):  # one of them is a reflection
        torch.testing.assert_close(model(turned(batch, each, shift)), model(batch) @ each.T + shift)


@pytest.mark.parametrize("settings", PULLS, ids=str)
def test_accelerations_turn_with_the_bodies_and_do_not_shift(settings):
    model, batch = model_of(**settings), doubled(moments().batch(np.arange(3)))
    matrix = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    shift = torch.tensor([3.0, -2, 7], dtype=torch.float64)
    assert model(batch).abs().max() > 0.01
    for each in (matrix, -matrix):
        torch.testing.assert_close(model(turned(batch, each, shift)), model(batch) @ each.T)


def test_forces_keep_the_momentum_and_move_by_mass():
    """Σ m a = 0, and a body of twice the mass is moved half as much."""
    model, batch = model_of(**PULLS[0]), doubled(moments().batch(np.arange(3)))
    pulls = model(batch) * batch.charges
    torch.testing.assert_close(pulls.unflatten(0, (3, 4)).sum(1), torch.zeros(3, 3, dtype=torch.float64))
    heavier = replace(batch, charges=2 * batch.charges)
    torch.testing.assert_close(model(heavier), model(batch) / 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "forces"}, "--model forces goes with --target-quantity accelerations"),
        (
            {"target_quantity": "speeds"},
            "--target-quantity is 'speeds'; expected one of positions, acc",
        ),
        (
            {**FORCES, "num_layers": 2},
            "--num-layers does nothing with --model force",
        ),
        (
            {**FORCES, "aggregation": "gate"},
            "--aggregation goes with --model equivariant",
        ),
    ],
)
def test_settings_that_are_refused(settings, message, shapes_unchecked):
    with pytest.raises(SettingError, match=message):
        DynamicsSettings(**settings)


def test_the_graph_network_does_not():
    model, batch = model_of(model="graph_network"), doubled(moments().batch(np.arange(3)))
    half = torch.diag(torch.tensor([-1.0, -1, 1], dtype=torch.float64))
    assert (model(turned(batch, half, torch.zeros(3))) - model(batch) @ half).abs().max() > 0.1


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_bodies_of_other_moments_change_nothing(settings):
    model, rows = model_of(**settings), moments()
    together = model(doubled(rows.batch(np.arange(3))))
    alone = [model(doubled(rows.batch(np.array([row])))) for row in range(3)]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_bodies_in_another_order(settings):
    """Bodies have no identity: predictions come out in the order of the bodies."""
    model, rows, order = model_of(**settings), moments(1), [2, 0, 3, 1]
    motion = rows.motion
    other = Motion(
        "memory", motion.positions[:, :, order], motion.velocities[:, :, order], motion.times,
        motion.charges[:, order], motion.couplings[:, order][:, :, order], {},
    )  # fmt: skip
    shuffled = MotionRows(other, rows.trajectory, rows.moment, 1)
    found, again = (model(doubled(each.batch(np.array([0])))) for each in (rows, shuffled))
    torch.testing.assert_close(again, found[order])
