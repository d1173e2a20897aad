"""What models of moving bodies do when space is turned, mirrored or moved, before they were trained and after.

python docs/results/rotations.py charges.npz runs/charges_equivariant runs/charges_network
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from edgewise.estimators.kept import untrained

from edgewise import DynamicsModel
from edgewise.data.motion.motion import parted, read_motion
from edgewise.explain.symmetry import POINTS, VECTORS, Reflection, Rotation, Translation, check
from edgewise.models.dynamics import dynamics_model
from edgewise.tasks.motion.settings import DynamicsRunSettings
from edgewise.train.folder import RunFolder

file, *folders = sys.argv[1:]
print("| model | | rotation | reflection | translation |")
print("| --- | --- | --- | --- | --- |")
for folder in folders:
    trained = DynamicsModel.load(folder).trained
    job = DynamicsRunSettings.of(RunFolder(Path(folder)).read_config(), folder)
    test = parted(read_motion(file), job.start, job.ahead, job.split_sizes, job.data_seed)["test"]
    batch = trained.units.scaled(test.batch(np.arange(20)), trained.settings.target_quantity)
    # In float64, where rounding and what is no symmetry lie far apart.
    batch = replace(batch, **{name: value.double() for name, value in vars(batch).items() if torch.is_tensor(value)})
    new = untrained(lambda t=trained: dynamics_model(t.sizes[0], t.sizes[1], 1, t.settings), job.train.seed)
    for when, model in (("before", new), ("after", trained.model)):
        model.double().eval()

        def predict_positions(positions, velocities, model=model, batch=batch):
            with torch.no_grad():
                return model(replace(batch, positions=positions, velocities=velocities))

        cells = []
        for group in (Rotation(), Reflection(), Translation()):
            verdict = check(
                predict_positions,
                (batch.positions, batch.velocities),
                group,
                inputs_as=(POINTS, VECTORS),
                output_as=POINTS,
            )
            cells.append(f"{verdict.kind}, {verdict.equivariance.deviation:.1e}")
        print(f"| {job.model.model} | {when} | {' | '.join(cells)} |")
