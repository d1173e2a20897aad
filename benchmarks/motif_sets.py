"""Sets of rows whose target is decided by a motif that is known: parts of molecules, words, nodes and edges.

Each set is made from a seed, and balanced so that what is not the motif does not tell the target. `SETS` lists them.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rdkit import Chem, rdBase

from edgewise import Edges, Graph
from edgewise.explain.explanation import Explanation

YES, NO = "yes", "no"
"""The classes of rows with the motif, and without."""
NUM_EXPLAINED = 60
"""Test rows that are explained, at most: those that the model predicts right."""
NUM_TEST = 300
"""Test rows of a set that is made, about."""


@dataclass(frozen=True)
class Question:
    """A row whose motif is known."""

    explain: Callable[..., Explanation]
    """Explains it, by `methods`."""
    is_motif: Callable[[Explanation], np.ndarray]
    """Which units are of the motif; NaN for those that are of neither side."""


@dataclass(frozen=True)
class Judged:
    """A model of a set, and the rows of which explanations are judged."""

    accuracy: float
    """On test rows: whether the model knows the rule."""
    questions: Sequence[Question]
    """Test rows with the motif."""


@dataclass(frozen=True)
class MotifSet:
    """A set whose rule is known."""

    task: str
    """The task of Edgewise."""
    rule: str
    """What decides, in words."""
    estimator: Callable[[], Any]
    """Untrained, as `judge` needs it."""
    fit: Callable[[Any, int], None]
    """Trains it on the set of a seed."""
    judge: Callable[[Any, int], Judged]
    """Its accuracy on test rows, and questions."""


def of_names(names: Sequence[str], nobodys: Sequence[str] = ()) -> Callable[[Explanation], np.ndarray]:
    """Units of the motif by their names, those of `nobodys` left out."""

    def is_motif(explanation: Explanation) -> np.ndarray:
        units = [unit.name for unit in explanation.units]
        return np.array([np.nan if name in nobodys else float(name in names) for name in units])

    return is_motif


def of_numbers(numbers: Sequence[int]) -> Callable[[Explanation], np.ndarray]:
    """Units of the motif by their numbers."""
    return lambda explanation: np.isin(np.arange(len(explanation.units)), numbers).astype(float)


# Molecules: real ones, whose class follows from their parts.


@dataclass(frozen=True)
class Molecules:
    """Molecules and their classes."""

    smiles: list[str]
    """A row each."""
    labels: list[str]
    """YES or NO."""
    motifs: list[list[int]]
    """The atoms that decide; none in rows of NO."""
    is_test: np.ndarray
    """Which rows are tested."""


def pool() -> dict[str, Chem.Mol]:
    """Molecules of MoleculeNet of 6 to 40 atoms in one piece, by their SMILES."""
    folder, found = Path(os.environ["EDGEWISE_DATA"]) / "moleculenet", {}
    with rdBase.BlockLogs():
        for name in ("lipophilicity", "bbbp", "esol", "freesolv"):
            for text in pd.read_csv(folder / f"{name}.csv").smiles:
                molecule = Chem.MolFromSmiles(text)
                if molecule is not None and "." not in text and 6 <= molecule.GetNumAtoms() <= 40:
                    found.setdefault(Chem.MolToSmiles(molecule), text)
    return {smiles: Chem.MolFromSmiles(smiles) for smiles in found}


def balanced(
    sides: tuple[dict[str, list[int]], dict[str, list[int]]], size: Callable[[str], object], seed: int
) -> Molecules:
    """As many rows of both classes for each `size`; a sixth of them are test rows.

    Args:
        sides: the motif of each molecule that has it, and of each that has not, by SMILES.
        size: what must not tell the class.
        seed: of the choice.
    """
    random = np.random.default_rng(seed)
    rows: list[tuple[str, str, list[int]]] = []
    by_size = [pd.Series({smiles: size(smiles) for smiles in side}) for side in sides]
    for value in sorted(set(by_size[0]) & set(by_size[1])):
        chosen = [random.permutation(side.index[side == value]) for side in by_size]
        count = min(map(len, chosen))
        for label, side, here in zip((YES, NO), sides, chosen, strict=True):
            rows += [(smiles, label, side[smiles]) for smiles in here[:count]]
    rows = [rows[number] for number in random.permutation(len(rows))]
    smiles, labels, motifs = (list(column) for column in zip(*rows, strict=True))
    return Molecules(smiles, labels, motifs, np.arange(len(rows)) % 6 == 0)


BENZENE = Chem.MolFromSmarts("c1ccccc1")
AMINE = Chem.MolFromSmarts("[NX3;!$(N~[C,S,P]=[O,S,N]);!$(N~[!#6;!#1]);!$(Na);!$(NC#N)]")
CARBONYL = Chem.MolFromSmarts("[CX3]=[OX1]")


def benzene(seed: int) -> Molecules:
    """One ring of benzene, or none; as many atoms, and aromatic ones of other rings or none, on both sides."""
    molecules = pool()
    rings = {smiles: molecule.GetSubstructMatches(BENZENE) for smiles, molecule in molecules.items()}
    others = {smiles: sum(atom.GetIsAromatic() for atom in molecules[smiles].GetAtoms()) for smiles in molecules}
    with_ring = {smiles: list(found[0]) for smiles, found in rings.items() if len(found) == 1}
    without: dict[str, list[int]] = {smiles: [] for smiles, found in rings.items() if not found}
    size = lambda smiles: (molecules[smiles].GetNumAtoms() // 3, others[smiles] > 6 * len(rings[smiles]))  # noqa: E731
    return balanced((with_ring, without), size, seed)


def amine_and_carbonyl(seed: int) -> Molecules:
    """One amine and one carbonyl, or only one of the two."""
    molecules, both, one = pool(), {}, {}
    for smiles, molecule in molecules.items():
        amines, carbonyls = molecule.GetSubstructMatches(AMINE), molecule.GetSubstructMatches(CARBONYL)
        if len(amines) == len(carbonyls) == 1:
            both[smiles] = [*amines[0], *carbonyls[0]]
        elif len(amines) + len(carbonyls) == 1:
            one[smiles] = []
    return balanced((both, one), lambda smiles: molecules[smiles].GetNumAtoms() // 3, seed)


def mirror_images(seed: int) -> Molecules:
    """Molecules with one stereo center, each as both mirror images: R is YES, S is NO; test pairs are new."""
    rows: list[tuple[str, str, list[int]]] = []
    flat_texts = sorted({Chem.MolToSmiles(molecule, isomericSmiles=False) for molecule in pool().values()})
    for number in np.random.default_rng(seed).permutation(len(flat_texts)).tolist():
        flat = Chem.MolFromSmiles(flat_texts[number])
        centers = [
            center.centeredOn
            for center in Chem.FindPotentialStereo(flat)
            if center.type == Chem.StereoType.Atom_Tetrahedral
        ]
        if len(centers) != 1:
            continue
        for tag in (Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW):
            image = Chem.Mol(flat)
            image.GetAtomWithIdx(centers[0]).SetChiralTag(tag)
            image = Chem.MolFromSmiles(Chem.MolToSmiles(image))
            found = Chem.FindMolChiralCenters(image, useLegacyImplementation=False)
            if len(found) == 1:
                rows.append((Chem.MolToSmiles(image), YES if found[0][1] == "R" else NO, centers))
    smiles, labels, _ = (list(column) for column in zip(*rows, strict=True))
    motifs = [[found for found, _ in Chem.FindMolChiralCenters(Chem.MolFromSmiles(text))] for text in smiles]
    return Molecules(smiles, labels, motifs, np.arange(len(rows)) // 2 % 6 == 0)


def molecule_set(rule: str, make: Callable[[int], Molecules]) -> MotifSet:
    """A set of molecules."""
    from edgewise import MoleculeClassifier

    def fit(model: MoleculeClassifier, seed: int) -> None:
        rows = make(seed)
        train = np.flatnonzero(~rows.is_test)
        model.fit([rows.smiles[row] for row in train], [rows.labels[row] for row in train])

    def judge(model: MoleculeClassifier, seed: int) -> Judged:
        rows = make(seed)
        test = np.flatnonzero(rows.is_test)
        predicted = model.predict([rows.smiles[row] for row in test])
        is_right = predicted == np.array([rows.labels[row] for row in test])
        questions = [
            Question(partial(model.explain, rows.smiles[row], label=YES), of_numbers(rows.motifs[row]))
            for row in test[is_right]
            if rows.labels[row] == YES
        ]
        return Judged(float(is_right.mean()), questions[:NUM_EXPLAINED])

    return MotifSet("molecules", rule, partial(MoleculeClassifier, threads=1), fit, judge)


# Texts: real sentences, into which one word is put.

WORD, OTHERS = "zephyr", ("quartz", "meadow", "lantern", "harbor")


def texts(seed: int) -> tuple[list[str], list[str]]:
    """Sentences of reviews, into which `WORD` or one of `OTHERS` is put somewhere; and their classes."""
    path = Path(os.environ["EDGEWISE_DATA"]) / "rt_polarity" / "rt_polarity.csv"
    random = np.random.default_rng(seed)
    sentences = random.permutation(pd.read_csv(path, keep_default_na=False).text)[:2000]
    labels = random.choice([YES, NO], len(sentences)).tolist()
    rows = []
    for sentence, label in zip(sentences, labels, strict=True):
        words = sentence.split()
        words.insert(random.integers(len(words) + 1), WORD if label == YES else random.choice(OTHERS))
        rows.append(" ".join(words))
    return rows, labels


def text_set() -> MotifSet:
    """The set of texts."""
    from edgewise import TextClassifier

    def judge(model: TextClassifier, seed: int) -> Judged:
        rows, labels = (column[-NUM_TEST:] for column in texts(seed))
        is_right = model.predict(rows) == np.array(labels)
        questions = [
            Question(partial(model.explain, row, label=YES), of_names([WORD]))
            for row, label, right in zip(rows, labels, is_right, strict=True)
            if right and label == YES
        ]
        return Judged(float(is_right.mean()), questions[:NUM_EXPLAINED])

    def fit(model: TextClassifier, seed: int) -> None:
        model.fit(*(column[:-NUM_TEST] for column in texts(seed)))

    rule = f"the word “{WORD}” stands in the text, or another one"
    return MotifSet("texts", rule, partial(TextClassifier, threads=1), fit, judge)


# Graphs: many random ones, some of them with a triangle.


def triangle_graph(random: np.random.Generator, has_triangle: bool) -> tuple[Graph, list[int]]:
    """A random graph of 14 to 20 nodes of random colors, and the nodes of its triangle.

    It has three edges more than nodes: those of one triangle or of one square, and others, drawn one after the other,
    that close no triangle.
    """
    count = int(random.integers(14, 21))
    ring = random.permutation(count)[: 3 if has_triangle else 4]
    is_edge = np.zeros((count, count), bool)
    is_edge[ring, np.roll(ring, 1)] = is_edge[np.roll(ring, 1), ring] = True
    while is_edge.sum() < 2 * (count + 3):
        one, other = random.choice(count, 2, replace=False)
        if not (is_edge[one] & is_edge[other]).any():
            is_edge[one, other] = is_edge[other, one] = True

    features = np.eye(4, dtype=np.float32)[random.integers(4, size=count)]
    return graph_of(features, np.argwhere(np.triu(is_edge))), ring.tolist() if has_triangle else []


def graph_of(features: np.ndarray, pairs: np.ndarray) -> Graph:
    """A graph with edges both ways between pairs of nodes."""
    senders, receivers = (torch.from_numpy(np.concatenate(ends)) for ends in (pairs.T, pairs.T[::-1]))
    return Graph(torch.from_numpy(features), Edges(senders, receivers, len(features), len(features)))


def graphs(seed: int) -> tuple[list[Graph], list[str], list[list[int]]]:
    """Random graphs, their classes, and their triangles."""
    random = np.random.default_rng(seed)
    labels = random.choice([YES, NO], 2000 + NUM_TEST).tolist()
    made = [triangle_graph(random, label == YES) for label in labels]
    return [graph for graph, _ in made], labels, [motif for _, motif in made]


def graph_set() -> MotifSet:
    """The set of graphs."""
    from edgewise import GraphClassifier

    def fit(model: GraphClassifier, seed: int) -> None:
        rows, labels, _ = graphs(seed)
        model.fit(rows[:-NUM_TEST], labels[:-NUM_TEST])

    def judge(model: GraphClassifier, seed: int) -> Judged:
        rows, labels, motifs = (column[-NUM_TEST:] for column in graphs(seed))
        is_right = model.predict(rows) == np.array(labels)
        questions = [
            Question(partial(model.explain, row, label=YES), of_numbers(motif))
            for row, label, motif, right in zip(rows, labels, motifs, is_right, strict=True)
            if right and label == YES
        ]
        return Judged(float(is_right.mean()), questions[:NUM_EXPLAINED])

    untrained = partial(GraphClassifier, model="attention", random_walk_positions=4, dropout=0.0, threads=1)
    return MotifSet("graphs", "a triangle is there, or a square", untrained, fit, judge)


# Nodes: one neighbor of five decides.

NUM_NODES, NUM_SENDERS, NUM_COLORS = 1500, 300, 4


@dataclass(frozen=True)
class KeyedNodes:
    """Nodes, each with four plain neighbors and one that is a key."""

    graph: Graph
    """The labeled nodes first, then plain neighbors, then keys."""
    labels: np.ndarray
    """The color of the key of each node; None for neighbors."""
    keys: np.ndarray
    """The key of each labeled node."""


def keyed_nodes(seed: int) -> KeyedNodes:
    """Every node has a color; that of its one neighbor with the mark of a key is its class."""
    random = np.random.default_rng(seed)
    count = NUM_NODES + 2 * NUM_SENDERS
    color = random.integers(NUM_COLORS, size=count)
    features = np.zeros((count, NUM_COLORS + 1), np.float32)
    features[np.arange(count), color] = 1
    features[-NUM_SENDERS:, NUM_COLORS] = 1
    keys = random.integers(count - NUM_SENDERS, count, NUM_NODES)
    plain = [NUM_NODES + random.choice(NUM_SENDERS, 4, replace=False) for _ in range(NUM_NODES)]
    pairs = [(node, other) for node in range(NUM_NODES) for other in (keys[node], *plain[node])]
    labels = np.array([*(f"color {color[key]}" for key in keys), *[None] * (2 * NUM_SENDERS)], dtype=object)
    return KeyedNodes(graph_of(features, np.array(pairs)), labels, keys)


def node_set() -> MotifSet:
    """The set of nodes."""
    from edgewise import NodeClassifier

    def fit(model: NodeClassifier, seed: int) -> None:
        data = keyed_nodes(seed)
        labels = data.labels.copy()
        labels[:NUM_TEST] = None
        model.fit(data.graph, labels)

    def judge(model: NodeClassifier, seed: int) -> Judged:
        data = keyed_nodes(seed)
        is_right = model.predict(data.graph)[:NUM_TEST] == data.labels[:NUM_TEST]
        questions = [
            Question(partial(model.explain, data.graph, node=int(node)), of_names([str(data.keys[node])]))
            for node in np.flatnonzero(is_right)
        ]
        return Judged(float(is_right.mean()), questions[:NUM_EXPLAINED])

    untrained = partial(NodeClassifier, model="gatv2", dropout=0.2, threads=1)
    return MotifSet("nodes", "the color of the neighbor that is a key", untrained, fit, judge)


# Links: one edge decides which items a person is linked with.

NUM_PERSONS, NUM_ITEMS, NUM_CLUBS, NUM_PLACES, NUM_ASKED = 700, 60, 60, 60, 100


@dataclass(frozen=True)
class Persons:
    """Persons, most with an edge to a club, all with edges to three places and a link to an item that fits the club."""

    graph: Graph
    """Persons first, then items, clubs and places; without the links of the first persons, which are asked for."""
    splits: np.ndarray
    """Of each edge: train, val or test for links to items, nothing for others."""
    items: np.ndarray
    """The item of each person."""
    clubs: np.ndarray
    """The club of each person; a gray one stands for none."""
    other_items: np.ndarray
    """An item of another color for each person."""
    has_club: np.ndarray
    """Which persons have one."""


def persons(seed: int) -> Persons:
    """Items, clubs and places have colors; a person has none, and only the edge to the club tells which items fit.

    A fifth of the persons have no club, and gray items: so a model knows what it means that there is none.
    """
    random = np.random.default_rng(seed)
    first_item, first_club, first_place = np.cumsum([NUM_PERSONS, NUM_ITEMS, NUM_CLUBS])
    count = first_place + NUM_PLACES
    kind = np.repeat(np.arange(4), [NUM_PERSONS, NUM_ITEMS, NUM_CLUBS, NUM_PLACES])
    gray, color = NUM_COLORS, np.arange(count) % (NUM_COLORS + 1)
    color[:NUM_PERSONS] = gray
    features = np.zeros((count, 4 * (NUM_COLORS + 1)), np.float32)
    features[np.arange(count), kind * (NUM_COLORS + 1) + color] = 1

    all_items, all_places = np.arange(first_item, first_club), np.arange(first_place, count)
    clubs = random.integers(first_club, first_place, NUM_PERSONS)
    has_club = color[clubs] != gray
    items, other_items = (
        np.array([random.choice(all_items[fits(color[all_items], color[club])]) for club in clubs])
        for fits in (np.equal, np.not_equal)
    )
    links = np.stack([np.arange(NUM_PERSONS), items], 1)[NUM_ASKED:]
    to_clubs = np.stack([np.flatnonzero(has_club), clubs[has_club]], 1)
    places = [random.choice(all_places, 3, replace=False) for _ in range(NUM_PERSONS)]
    to_places = np.stack([np.repeat(np.arange(NUM_PERSONS), 3), np.concatenate(places)], 1)

    splits = np.array(["train"] * (len(links) - 100) + ["val"] * 50 + ["test"] * 50, dtype=object)
    splits = np.append(splits, [""] * (len(to_clubs) + len(to_places)))
    senders, receivers = (
        torch.from_numpy(np.ascontiguousarray(ends)) for ends in np.concatenate([links, to_clubs, to_places]).T
    )
    graph = Graph(torch.from_numpy(features), Edges(senders, receivers, count, count))
    return Persons(graph, splits, items, clubs, other_items, has_club)


def link_set() -> MotifSet:
    """The set of links."""
    from edgewise import LinkPredictor

    def fit(model: LinkPredictor, seed: int) -> None:
        data = persons(seed)
        model.fit(data.graph, splits=data.splits)

    def judge(model: LinkPredictor, seed: int) -> Judged:
        data, test = persons(seed), np.arange(NUM_ASKED)
        # Whether the item of the right color is the likelier one.
        right, wrong = (
            model.predict_proba(np.stack([test, ends[test]], 1))[:, 1] for ends in (data.items, data.other_items)
        )
        questions = [
            Question(
                partial(model.explain, (int(person), int(data.items[person]))),
                of_names([str(data.clubs[person])], [str(person), str(data.items[person])]),
            )
            for person in test[(right > wrong) & data.has_club[test]]
        ]
        return Judged(float((right > wrong).mean()), questions[: NUM_EXPLAINED // 3])

    untrained = partial(LinkPredictor, model="sage", negatives=5, threads=1)
    return MotifSet("links", "the edge to the club, whose color the item has", untrained, fit, judge)


def all_sets() -> Iterator[MotifSet]:
    """Every set."""
    yield molecule_set("a ring of benzene is there", benzene)
    yield molecule_set("an amine and a carbonyl are both there", amine_and_carbonyl)
    yield molecule_set("which of two mirror images it is", mirror_images)
    yield text_set()
    yield graph_set()
    yield node_set()
    yield link_set()
