"""A table of molecules made on the spot: organic molecules and ion pairs, labeled with a computed property."""

import re

import numpy as np
from jaxtyping import Float64

from edgewise.data.molecules.grammar import (
    ANIONS,
    AROMATIC_RINGS,
    CATIONS,
    CHAIN_ENDS,
    LINKERS,
    SATURATED_RINGS,
    SUBSTITUENTS,
)
from edgewise.data.molecules.molecule import Chem, rdBase, read_molecule
from edgewise.data.tables.read import pd
from edgewise.errors import DataError, SettingError
from edgewise.plural import plural

SMILES_COLUMN = "smiles"
TARGET_COLUMN = "crippen_logp"
ION_PAIR_SHARE = 0.2
"""Share of the rows that are a cation and an anion."""
CHAIN_SHARE = 0.12
"""Share of the other rows that have no ring: what few atoms add together says most about each of them."""
AROMATIC_SHARE = 0.5
"""Share of the ring systems that are aromatic, or partly so: 28 % of the atoms are, as in FreeSolv (in ESOL 36 %)."""
MAX_HEAVY_ATOMS = 40

_RING_DIGIT = re.compile(r"\[[^\]]*\]|\d")


def demo_table(num_rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Molecules put together from rings, linkers and substituents, and ion pairs from cations and anions.

    The label is *computed*, not measured: RDKit's Crippen logP, a sum of atom contributions, hydrogens included
    (`Crippen.MolLogP(molecule, includeHs=True)`).

    Args:
        num_rows: how many distinct molecules; one in five is an ion pair, written `cation.anion`.
        seed: the same seed gives the same table.

    Returns:
        The columns `smiles` (canonical) and `crippen_logp`.

    Raises:
        SettingError: `num_rows` is less than 1.
        DataError: the grammar does not reach that many distinct molecules.

    Source: Wildman and Crippen, J. Chem. Inf. Comput. Sci. 39 (1999) 868.
    """
    from rdkit.Chem import rdMolDescriptors

    if num_rows < 1:
        raise SettingError(f"num_rows is {num_rows}, expected 1 or more.")
    rng = np.random.default_rng(seed)
    labels: dict[str, float] = {}
    with rdBase.BlockLogs():
        for _ in range(20 * num_rows + 100):
            if len(labels) == num_rows:
                return pd.DataFrame({SMILES_COLUMN: list(labels), TARGET_COLUMN: list(labels.values())})
            written = _ion_pair(rng) if rng.random() < ION_PAIR_SHARE else _drug_like(rng)
            molecule = Chem.MolFromSmiles(written)
            if molecule is not None and molecule.GetNumHeavyAtoms() <= MAX_HEAVY_ATOMS:
                labels.setdefault(
                    Chem.MolToSmiles(molecule),
                    float(rdMolDescriptors.CalcCrippenDescriptors(molecule, includeHs=True)[0]),
                )
    raise DataError(
        f"demo_table: the grammar gives about {plural(len(labels), 'molecule')}, {num_rows} were asked for."
    )


def atom_contributions(smiles: str) -> Float64[np.ndarray, " atom"]:
    """What each heavy atom, with its hydrogens, adds to the Crippen logP that `demo_table` has as its label.

    Args:
        smiles: one molecule; its atom order is kept.

    Returns:
        One number an atom; their sum is the label.

    Raises:
        DataError: the string is not a molecule.
    """
    from rdkit.Chem import rdMolDescriptors

    molecule = read_molecule(smiles)
    num_atoms = molecule.GetNumAtoms()
    whole = Chem.AddHs(molecule)
    # RDKit offers the contributions by no other name.
    each = np.array([logp for logp, _ in rdMolDescriptors._CalcCrippenContribs(whole)])
    carrier = [atom.GetNeighbors()[0].GetIdx() for atom in list(whole.GetAtoms())[num_atoms:]]
    return each[:num_atoms] + np.bincount(carrier, each[num_atoms:], minlength=num_atoms)


def _drug_like(rng: np.random.Generator) -> str:
    """A chain, or one to three ring systems joined by linkers, decorated."""
    if rng.random() < CHAIN_SHARE:
        return _chain(rng)
    return _ring(rng, depth=0, rings_left=int(rng.choice([0, 1, 1, 1, 2])))


def _ring(rng: np.random.Generator, depth: int, rings_left: int) -> str:
    """A ring system with the next ring at one of its free places and substituents at some of the others."""
    kind = AROMATIC_RINGS if rng.random() < AROMATIC_SHARE else SATURATED_RINGS
    ring = _renumbered(_pick(rng, kind), depth)
    num_places = ring.count("{}")
    next_ring = int(rng.integers(num_places)) if num_places and rings_left else -1
    branches = []
    for place in range(num_places):
        if place == next_ring:
            branches.append(f"({_pick(rng, LINKERS)}{_ring(rng, depth + 1, rings_left - 1)})")
        else:
            branches.append(f"({_pick(rng, SUBSTITUENTS)})" if rng.random() < 0.7 else "")
    return ring.format(*branches)


def _chain(rng: np.random.Generator) -> str:
    """No ring: two short chains of carbon, a linker between them, and a substituent on each."""
    first, second = ("C" * int(rng.integers(1, 4)) for _ in range(2))
    return f"{first}({_pick(rng, SUBSTITUENTS)}){_pick(rng, LINKERS)}{second}{_pick(rng, SUBSTITUENTS)}"


def _ion_pair(rng: np.random.Generator) -> str:
    cation = _pick(rng, CATIONS)
    chains = ["C" * int(rng.integers(0, 9)) + _pick(rng, CHAIN_ENDS) for _ in range(cation.count("{}"))]
    chains[0] = _pick(rng, ("", "O", "N#C", "F", "Cl", "C[C@@H](O)")) + "C" * int(rng.integers(1, 11))
    return f"{cation.format(*chains)}.{_pick(rng, ANIONS)}"


def _renumbered(fragment: str, depth: int) -> str:
    """The fragment with ring-closure numbers of its own, so that it can stand inside another ring."""
    return _RING_DIGIT.sub(
        lambda match: match[0] if match[0].startswith("[") else f"%{10 * (depth + 1) + int(match[0])}", fragment
    )


def _pick(rng: np.random.Generator, choices: tuple[str, ...]) -> str:
    return choices[int(rng.integers(len(choices)))]
