"""A table of molecules made on the spot: organic molecules and ion pairs, labeled with a computed property."""

import re

import numpy as np
from jaxtyping import Float64

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.readers.molecules.molecule import Chem, rdBase, read_molecule
from edgewise.learn.tables.read import pd

# A ring system is entered at its first atom; each {} may carry a branch.
AROMATIC_RINGS = (
    *("c1c{}cc{}cc1", "c1c{}c{}ccc1", "c1ccc{}cc1", "c1cc{}ncc1{}", "c1cc{}cnc1", "c1nc{}cc{}n1", "c1cnc{}cn1"),
    *("c1cc{}sc1{}", "c1sc{}cc1", "c1cc{}oc1", "c1cc{}[nH]c1", "c1nc{}cs1", "c1nc{}co1", "c1cc{}n(C)n1", "c1csc{}n1"),
    *("c1cc{}c2cc{}ccc2c1", "c1cc{}c2ncccc2c1", "c1nccc2cc{}ccc12", "c1c[nH]c2ccc{}cc12", "c1cn(C)c2cc{}ccc12"),
    *("c1nc2cc{}ccc2[nH]1", "c1nc2cc{}ccc2s1", "c1cc2cc{}ccc2o1", "c1sc2ccc{}cc2c1{}", "c1nc{}c2ccccc2n1"),
    *("c1nnc{}n1C", "c1nnc{}s1", "c1cc(=O)c2cc{}ccc2o1", "c1cnc2[nH]cnc2n1"),
    # Fused with a saturated ring
    *("C1COc2ccc{}cc2C1", "C1CCc2cc{}ccc2C1", "C1Cc2ccc{}cc2C1", "N1CCc2cc{}ccc2C1"),
)
# One double bond at most, C=O aside.
SATURATED_RINGS = (
    *("C1CCC{}CC1", "C1CC{}CC1", "C1CC1{}", "C1CC{}C1", "C1CCC{}CCC1", "C1CC=CC{}C1", "C1C=CCC1{}", "C1(C)CCC{}CC1"),
    *("C1CCN{}CC1", "C1CCN{}C1", "C1CN{}C1", "C1CCCN{}C1", "N1CCC{}C1", "N1CCC{}CC1", "N1CC{}C1", "N1CCCCC{}C1"),
    *("N1CCN{}CC1", "N1CCN{}CCC1", "N1CCOCC1", "N1CCOC{}C1", "C1CN{}CCO1", "N1CC{}OC{}C1", "N1CC(C)(C)C1", "N1CCCOCC1"),
    *("C1CCOCC1", "C1CC{}OC1", "C1CCOC1{}", "C1COC1", "C1CO1", "C1COCCO1", "C1OCC{}O1", "C1OCC{}CO1", "C1(C)OCCO1"),
    *("C1OC{}C{}CC1", "C1OC(C)(C)OC1{}", "C1OC{}C(O)C1O", "C1OC{}C(O)C(O)C1O", "C1C(O)CC{}C1O", "C1CN{}CCN1"),
    *("N1C(=O)CC1", "N1CCC{}C1=O", "N1CCCCC1=O", "C1CCC(=O)C{}C1", "C1CCOC1=O", "C1CC(=O)N{}C1", "N1CCN{}CC1=O"),
    *("C1CC2CCC1C2", "C1CC2(CC1)OCCO2", "N1CCC2(CC1)CC2", "C1CCC2CC{}CCC2C1", "C1C2CC3CC1CC(C2)C3", "C1CN2CCC1CC2"),
    *("C12CC{}(C1)C2", "N1CC2(C1)COC2", "C1CC2(C1)CCN{}C2", "C1C2COCC12", "C1CC2CN{}CC2C1", "C1CC2CCC(C1)O2"),
    *("N1CC2CCC(C1)N2", "C1CNCC2(C1)CCN{}C2"),
)
LINKERS = (
    *("", "", "C", "CC", "O", "N", "S", "OC", "CO", "CN(C)", "C(=O)", "C(=O)N", "NC(=O)", "CNC(=O)", "C(=O)NC"),
    *("S(=O)(=O)N", "NS(=O)(=O)", "NC(=O)N", "/C=C/", "/C=C\\", "C#C", "OCC", "CSC", "COC(=O)", "OC(=O)"),
    *("[C@H](C)", "[C@@H](C)N", "[C@H](O)", "N[C@@H](C)C(=O)", "C[C@H](O)C", "[C@@H](F)", "C[NH2+]C", "/C=N/"),
    *("N(C)", "NC", "CNC", "COC", "C(C)(O)", "OCCO", "NCCO", "N[C@@H](CO)C(=O)", "NCCN", "OC[C@@H](O)CN", "N(C)CC"),
    *("N[C@@H](C(C)C)C(=O)", "CCN(C)", "N(C)CCO", "CC(C)(C)", "OC[C@H](C)O", "N[C@@H](CN)C(=O)", "NC[C@H](O)C", "CCO"),
)
SUBSTITUENTS = (
    *("F", "Cl", "Br", "I", "C", "CC", "C(C)C", "C(C)(C)C", "C(F)(F)F", "OC(F)(F)F", "CCl", "C(F)F", "O", "OC"),
    *("OCC", "N", "NC", "N(C)C", "C#N", "C=C", "C#C", "SC", "S(C)(=O)=O", "S(N)(=O)=O", "C(C)=O", "C(=O)OC"),
    *("C(=O)O", "C(N)=O", "C(=O)N(C)C", "NC(C)=O", "[N+](=O)[O-]", "C(=O)[O-]", "C[NH3+]", "C[N+](C)(C)C"),
    *("[C@H](C)O", "[C@@H](C)CC", "[C@H](N)C(=O)O", "C[C@@H](C)O", "O[C@@H](C)C(=O)OC", "CCCC", "OCCO"),
    *("CBr", "CI", "C(Cl)Cl", "C(Cl)(Cl)Cl", "CO", "COC", "C(OC)OC", "C(C)(C)O", "CN", "CN(C)C", "OC(C)C", "CC(C)C"),
    *("OCCOC", "NCCO", "NCCOC", "OCCN", "OCCN(C)C", "NCCN", "CCO", "CCN", "NC(C)C", "N(C)CCO", "C[C@H](O)CO", "CC#N"),
    *("CC(N)=O", "OCCCl", "N(CC)CC", "CCN(C)C", "CC(C)(C)C", "NC(C)(C)C", "C[C@H](N)CO", "CCOC", "NC[C@H](C)O"),
    *("C(C)(C)N", "C(C)(C)CO", "OC[C@@H](O)CO"),
)
# {} is a chain on the charged atom, or one that a branch may replace.
CATIONS = (
    *("{}[n+]1ccn({})c1", "{}[n+]1ccn({})c1C", "{}[n+]1ccccc1", "{}[n+]1cccc(C)c1", "{}[n+]1ccc(C)cc1"),
    *("{}[N+]({})(CC)CC", "{}[N+](C)(C)C", "{}[N+](C)(C)CCO", "{}[NH+](CC)CC", "{}[NH3+]", "{}[N+]1(C)CCCC1"),
    *("{}[N+]1(C)CCCCC1", "{}[N+]1(C)CCOCC1", "{}[P+](CCCC)(CCCC)CCCC", "{}[P+](CC)(CC){}", "{}[S+](C)CC"),
    *("{}n1cc[n+](Cc2ccccc2)c1", "{}[n+]1cccc2ccccc12", "{}[N+]12CCN(CC1)CC2", "{}n1c[n+](C)cn1"),
    *("{}[NH2+]CCO", "{}[NH+](C)CCO", "{}[NH+](CCO)CCO", "{}[N+](C)(CCO)CCO", "{}[N+]1(CCO)CCCC1"),
    *("{}[NH+]1CCOCC1", "{}[NH+]1CCN(C)CC1"),
)
CHAIN_ENDS = (
    *("C", "C", "C", "C", "CO", "COC", "C#N", "C(=O)O", "C=C", "CCl", "C(F)(F)F", "CN", "C(C)C"),
    *("C[C@H](C)O", "C[C@@H](C)CC", "COCCO", "Cc%91ccccc%91", "Cc%91ccc(F)cc%91", "C%91CCCCC%91"),
)
ANIONS = (
    *("F[B-](F)(F)F", "F[P-](F)(F)(F)(F)F", "O=S(=O)([N-]S(=O)(=O)C(F)(F)F)C(F)(F)F", "[Cl-]", "[Br-]", "[I-]"),
    *("CC(=O)[O-]", "O=C([O-])C(F)(F)F", "O=S(=O)([O-])C(F)(F)F", "CS(=O)(=O)[O-]", "N#C[N-]C#N", "N#C[S-]"),
    *("O=[N+]([O-])[O-]", "COS(=O)(=O)[O-]", "CCOS(=O)(=O)[O-]", "O=S(=O)([O-])O", "Cc1ccc(S(=O)(=O)[O-])cc1"),
    *("C[C@H](O)C(=O)[O-]", "C[C@H](N)C(=O)[O-]", "NCC(=O)[O-]", "CC(C)C[C@H](N)C(=O)[O-]", "O=C([O-])c1ccccc1"),
    *("O=C([O-])c1ccccc1O", "O=C1[N-]S(=O)(=O)c2ccccc12", "N#C[B-](C#N)(C#N)C#N", "CCCCCCCC(=O)[O-]", "O=C[O-]"),
    *("O=S(=O)([N-]S(=O)(=O)F)F", "COP(=O)([O-])OC", "N#C[C-](C#N)C#N", "O=C([O-])c1ccc(Cl)cc1", "FC(F)(F)[B-](F)(F)F"),
    *("OCC(=O)[O-]", "COCC(=O)[O-]", "OC[C@H](N)C(=O)[O-]", "O=C([O-])[C@@H]1CCCN1", "OCCS(=O)(=O)[O-]"),
    *("NCCS(=O)(=O)[O-]", "C[C@@H](O)[C@H](N)C(=O)[O-]", "CC(C)[C@H](N)C(=O)[O-]", "CC(C)C(=O)[O-]"),
    *("CCCCOS(=O)(=O)[O-]", "OC[C@@H](O)C(=O)[O-]"),
)


SMILES_COLUMN = "smiles"
TARGET_COLUMN = "crippen_logp"
ION_PAIR_SHARE = 0.2
"""Share of the rows that are a cation and an anion."""
CHAIN_SHARE = 0.12
"""Share of the other rows without a ring: few atoms show best what each of them adds."""
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
        f"demo_table: the grammar gives about {plural(len(labels), 'molecule')}, but {num_rows} were requested."
    )


def atom_contributions(smiles: str) -> Float64[np.ndarray, " atom"]:
    """The contribution of each heavy atom, with its hydrogens, to the Crippen logP that `demo_table` has as its label.

    Args:
        smiles: one molecule; its atom order stays.

    Returns:
        One number an atom; their sum is the label.

    Raises:
        DataError: the string is not a molecule.
    """
    from rdkit.Chem import rdMolDescriptors

    molecule = read_molecule(smiles)
    num_atoms = molecule.GetNumAtoms()
    with_hydrogens = Chem.AddHs(molecule)

    # RDKit offers the contributions by no other name.
    contributions = np.array([logp for logp, _ in rdMolDescriptors._CalcCrippenContribs(with_hydrogens)])
    carrier = [atom.GetNeighbors()[0].GetIdx() for atom in list(with_hydrogens.GetAtoms())[num_atoms:]]
    return contributions[:num_atoms] + np.bincount(carrier, contributions[num_atoms:], minlength=num_atoms)


def _drug_like(rng: np.random.Generator) -> str:
    """A chain, or one to three ring systems joined by linkers, decorated."""
    if rng.random() < CHAIN_SHARE:
        return _chain(rng)
    return _ring(rng, depth=0, rings_left=int(rng.choice([0, 1, 1, 1, 2])))


def _ring(rng: np.random.Generator, depth: int, rings_left: int) -> str:
    """A ring system with the next ring at one of its free places and substituents at some of the others."""
    ring_choices = AROMATIC_RINGS if rng.random() < AROMATIC_SHARE else SATURATED_RINGS
    ring = _renumbered(_pick(rng, ring_choices), depth)
    num_places = ring.count("{}")
    next_ring = int(rng.integers(num_places)) if num_places and rings_left else -1
    branches = []
    for position in range(num_places):
        if position == next_ring:
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
    """The fragment with ring-closure numbers of its own, so that it can be inserted into another ring."""
    return _RING_DIGIT.sub(
        lambda match: match[0] if match[0].startswith("[") else f"%{10 * (depth + 1) + int(match[0])}", fragment
    )


def _pick(rng: np.random.Generator, choices: tuple[str, ...]) -> str:
    return choices[int(rng.integers(len(choices)))]
