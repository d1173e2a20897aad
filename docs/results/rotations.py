"""What models of moving bodies do when space is turned, mirrored or moved, before they were trained and after.

python docs/results/rotations.py charges.npz runs/charges_equivariant runs/charges_network
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from edgewise import DynamicsModel
from edgewise.explain.symmetry import POINTS, VECTORS, Reflection, Rotation, Translation, check
from edgewise.learn.readers.motion.motion import read_motion, split_moments
from edgewise.learn.tasks.motion.settings import SETTINGS
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import seed_of

file, *folders = sys.argv[1:]
print("| model | | rotation | reflection | translation |")
print("| --- | --- | --- | --- | --- |")
for folder in folders:
    trained = DynamicsModel.load(folder).trained
    job = SETTINGS.of(RunFolder(Path(folder)).read_config(), folder)
    quantity = trained.output.quantity
    test = split_moments(read_motion(file), job.start, job.horizon, job.split_sizes, job.data_seed, quantity)["test"]
    batch = trained.output.transform(test.batch(np.arange(min(20, len(test.moment)))))
    # In float64, where rounding and what is no symmetry lie far apart.
    batch = replace(batch, **{name: value.double() for name, value in vars(batch).items() if torch.is_tensor(value)})
    torch.manual_seed(seed_of(job.train.seed))
    for when, model in (("before", trained.new_member()), ("after", trained.model)):
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
