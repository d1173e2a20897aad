"""RDKit drawings of molecules, as paths and positions, so that atoms and bonds can be colored later."""

import re
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from edgewise.errors import DataError, MissingExtraError
from edgewise.explain.explanation import Explanation

try:
    from rdkit import Chem, rdBase
    from rdkit.Chem.Draw import rdMolDraw2D
except ImportError as error:
    raise MissingExtraError("rdkit", "molecules") from error

DOTS_PER_ANGSTROM = 30
MARGIN = 0.62
"""The margin around the atoms for their halos, in bond lengths."""
LONE_BOND = 1.5 * DOTS_PER_ANGSTROM
"""The bond length of a molecule without bonds."""
_PATH = "{http://www.w3.org/2000/svg}path"
_STEP = re.compile(r"([MLQCZ])([^MLQCZ]*)")


@dataclass(frozen=True)
class Stroke:
    """One path of an RDKit drawing: a line of a bond, a letter of an atom."""

    d: str
    """The path, as in SVG, in absolute coordinates."""
    fill: str | None
    """The fill color; None if it is not filled."""
    stroke: str | None
    """The color of the line; None if it is not drawn."""
    thick: float
    """The width of the line."""


@dataclass(frozen=True, eq=False)
class DrawnMolecule:
    """A drawn molecule."""

    source: str
    """The column it comes from."""
    width: float
    """The width of the canvas."""
    height: float
    """The height of the canvas."""
    bond_length: float
    """The mean length of its bonds on the canvas."""
    units: tuple[int, ...]
    """The unit of the explanation for each atom."""
    places: np.ndarray
    """(atom, 2): positions of the atoms, y downwards."""
    bonds: tuple[tuple[int, int], ...]
    """The units at both ends of each bond."""
    strokes: tuple[Stroke, ...]
    """The paths, in drawing order."""

    def to_json(self) -> dict[str, Any]:
        """The drawing as lists and numbers."""
        atoms = zip(self.units, self.places.round(2).tolist())
        return {
            "source": self.source,
            "width": round(self.width, 2),
            "height": round(self.height, 2),
            "bond_length": round(self.bond_length, 2),
            "atoms": [{"unit": unit, "x": x, "y": y} for unit, (x, y) in atoms],
            "bonds": [list(bond) for bond in self.bonds],
            "paths": [{"d": s.d, "fill": s.fill, "stroke": s.stroke, "thick": s.thick} for s in self.strokes],
        }


def draw_molecules(explanation: Explanation) -> list[DrawnMolecule]:
    """Draws each molecule of a row from its SMILES; the atoms of a source are its units, in order.

    Args:
        explanation: an explanation of one or several molecules.

    Raises:
        DataError: the SMILES of a source cannot be read, or has another number of atoms than units.
    """
    drawn = []
    for source, smiles in explanation.sources.items():
        units = [number for number, unit in enumerate(explanation.units) if unit.source == source]
        if units:
            drawn.append(_draw(source, smiles, units))

    return drawn


def _draw(source: str, smiles: str, units: list[int]) -> DrawnMolecule:
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles.strip())
    if molecule is None:
        raise DataError(f"{source}: {smiles!r} is not a SMILES that RDKit can read.")

    if molecule.GetNumAtoms() != len(units):
        raise DataError(
            f"{source}: {smiles!r} has {molecule.GetNumAtoms()} atoms, but the explanation has {len(units)} units; "
            "expected one unit per atom, in the order of the SMILES."
        )

    pen = rdMolDraw2D.MolDraw2DSVG(-1, -1)
    options = pen.drawOptions()
    options.scalingFactor = DOTS_PER_ANGSTROM  # type: ignore[assignment]
    options.clearBackground = False  # type: ignore[assignment]
    options.useBWAtomPalette()  # colors are for the attributions
    pen.DrawMolecule(rdMolDraw2D.PrepareMolForDrawing(molecule, addChiralHs=False))
    positions = np.array([[p.x, p.y] for p in map(pen.GetDrawCoords, range(len(units)))])
    pen.FinishDrawing()
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    lengths = [float(np.linalg.norm(positions[first] - positions[second])) for first, second in bonds]
    bond_length = float(np.mean(lengths)) if lengths else LONE_BOND
    root = ElementTree.fromstring(pen.GetDrawingText())
    paths = [(steps_of(path.attrib["d"]), _style(path)) for path in root.iter(_PATH)]
    points = np.concatenate([positions, *(pairs for steps, _ in paths for _, pairs in steps)])
    lower = np.minimum(points.min(0) - 4, positions.min(0) - MARGIN * bond_length)
    upper = np.maximum(points.max(0) + 4, positions.max(0) + MARGIN * bond_length)

    return DrawnMolecule(
        source=source,
        width=float(upper[0] - lower[0]),
        height=float(upper[1] - lower[1]),
        bond_length=bond_length,
        units=tuple(units),
        places=positions - lower,
        bonds=tuple((units[first], units[second]) for first, second in bonds),
        strokes=tuple(_stroke(steps, style, lower) for steps, style in paths),
    )


def steps_of(d: str) -> list[tuple[str, np.ndarray]]:
    """An SVG path as commands, each with its points."""
    return [
        (command, np.array(re.findall(r"-?[\d.]+(?:e-?\d+)?", numbers), dtype=np.float64).reshape(-1, 2))
        for command, numbers in _STEP.findall(d)
    ]


def _style(path: ElementTree.Element) -> dict[str, str]:
    """The properties of a path, from its attributes and its style."""
    style = dict(part.split(":", 1) for part in path.attrib.get("style", "").split(";") if ":" in part)
    return {**path.attrib, **style}


def _stroke(steps: list[tuple[str, np.ndarray]], style: dict[str, str], low: np.ndarray) -> Stroke:
    d = "".join(command + " ".join(f"{x:.2f},{y:.2f}" for x, y in pairs - low) for command, pairs in steps)
    fill, stroke = (None if style.get(name, "none") == "none" else style[name] for name in ("fill", "stroke"))
    return Stroke(d, fill, stroke, float(style.get("stroke-width", "1").removesuffix("px")))
