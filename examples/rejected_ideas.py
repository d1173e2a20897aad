"""Two ideas that fail and one that does not: a picture through a convolution, a flattened table through a network, and
attention over the bonds.

    f(g·x) = f(x)        g turns the picture or numbers the atoms otherwise; the molecule stays the same

Each learns from a hundred molecules how much these prefer oil to water (Crippen's logP, computed). Then it is shown the
same molecules again, turned or renumbered; `check` says how far its answers moved.
"""

from collections.abc import Callable

import numpy as np
import torch
from rdkit import Chem
from rdkit.Chem import Draw
from torch import Tensor, nn

from edgewise.explain.symmetry import FIXED, NODES, PIXELS, Permutation, QuarterTurn, Verdict, check
from edgewise.graph import Batch
from edgewise.learn.networks.property import PropertyModel, PropertySettings, PropertySizes
from edgewise.learn.readers.molecules.simulate import demo_table
from edgewise.learn.readers.molecules.store import MoleculeStore

NUM_MOLECULES, STEPS, SIDE = 100, 40, 48


def pictures(molecules: list[str], angle: float = 0.0) -> Tensor:
    """The first idea's input, RDKit's drawings turned by some degrees: (molecule, row, column), ink is 1."""
    options = Draw.MolDrawOptions()
    options.rotate = angle
    drawn = [Draw.MolToImage(Chem.MolFromSmiles(text), (SIDE, SIDE), options=options) for text in molecules]
    return 1 - torch.from_numpy(np.stack([np.asarray(image.convert("L"), np.float32) for image in drawn])) / 255


def tables(molecules: list[str], num_rows: int) -> Tensor:
    """The second idea's input, a row an atom, then rows of zeros: (molecule, row, feature)."""
    store = MoleculeStore.from_smiles(molecules, with_descriptors=False)
    parts = store.node_features.split(store.node_offsets.diff().tolist())
    return torch.stack([nn.functional.pad(part, (0, 0, 0, num_rows - len(part))) for part in parts])


def graphs(molecules: list[str]) -> Batch:
    """Ours: atoms, bonds and what is known of them, molecule after molecule."""
    store = MoleculeStore.from_smiles(molecules, with_descriptors=False)
    return store.batch(np.arange(len(store))[:, None], np.zeros((len(store), 0)))


def picture_model() -> nn.Module:
    """Three convolutions, each followed by pooling."""
    steps: list[nn.Module] = [nn.Unflatten(0, (-1, 1))]
    for before, after in ((1, 8), (8, 16), (16, 32)):
        steps += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*steps, nn.Flatten(), nn.Linear(after * (SIDE // 8) ** 2, 1), nn.Flatten(0))


def graph_model(batch: Batch) -> nn.Module:
    """The default model for molecules, small and without descriptors of the whole."""
    graph = batch.graph
    sizes = PropertySizes(graph.node_features.shape[1], graph.edge_features.shape[1], 0, 1, 0, 1)
    settings = PropertySettings(model_dim=32, head_dim=32, num_variants=1)
    return nn.Sequential(PropertyModel(sizes, settings), nn.Flatten(0))


def trained(model: nn.Module, inputs: Tensor | Batch, targets: Tensor) -> nn.Module:
    """The model after some steps on all molecules."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        optimizer.step()
    return model.eval()


def compared() -> tuple[dict[str, float], dict[tuple[str, str], Tensor], dict[str, Verdict]]:
    """By idea: its error on what it learned from, its changes of prediction in parts of the largest, the verdict."""
    torch.manual_seed(0)
    demo = demo_table(NUM_MOLECULES)
    molecules, values = demo["smiles"].tolist(), torch.tensor(demo["crippen_logp"].to_numpy(), dtype=torch.float32)
    targets = (values - values.mean()) / values.std()
    renumbered = [Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(text), 1, randomSeed=1)[0] for text in molecules]
    batch = graphs(molecules)
    graph, num_rows = batch.graph, int(batch.graph.offsets.diff().max())
    width = num_rows * graph.node_features.shape[1]
    flat = nn.Sequential(nn.Flatten(), nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
    ideas: dict[str, tuple[nn.Module, Callable[[list[str]], Tensor | Batch]]] = {
        "picture": (picture_model(), pictures),
        "table": (flat, lambda texts: tables(texts, num_rows)),
        "graph": (graph_model(batch), graphs),
    }
    errors, changes, models = {}, {}, {}
    for name, (model, read) in ideas.items():
        models[name] = model = trained(model, read(molecules), targets)
        with torch.no_grad():
            before = model(read(molecules))
            errors[name] = float((before - targets).abs().mean())
            changes[name, "renumbered"] = (model(read(renumbered)) - before).abs() / before.abs().max()
            for angle in (30, 90) if name == "picture" else ():  # the others see no picture
                turned = model(pictures(molecules, angle))
                changes[name, f"turned by {angle}°"] = (turned - before).abs() / before.abs().max()
    atoms = Permutation(offsets=graph.offsets.tolist())
    verdicts = {
        "picture": check(models["picture"], pictures(molecules), QuarterTurn(), inputs_as=PIXELS, output_as=FIXED),
        "table": check(models["table"], tables(molecules, num_rows), Permutation(), inputs_as=NODES, output_as=FIXED),
        "graph": check(models["graph"], batch, atoms, inputs_as={"graph": {"node_features": NODES}}, output_as=FIXED),
    }
    return errors, changes, verdicts


def main() -> None:
    """Verdicts and changes."""
    errors, changes, verdicts = compared()
    for name, verdict in verdicts.items():
        print(f"{name}: mean error {errors[name]:.2f} of the spread of logP; {verdict}")
    print(f"\n{'prediction changes by':<24}{'mean':>12}{'at most':>12}")
    for (name, what), change in changes.items():
        print(f"{name + ', ' + what:<24}{change.mean():>12.1e}{change.max():>12.1e}")


if __name__ == "__main__":
    main()
