"""Trains one tiny run of every kind and writes down what it predicts: what later versions must open and predict alike.

    python tests/frozen/freeze.py            every kind that this version has no folder for yet
    python tests/frozen/freeze.py KIND ...   these, again where they are there already

Writes `tests/frozen/<version>/<kind>/`. Run it once for a version, before its release, and never for an older one.
"""

import csv
import json
import os
import random
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from openings import OPENINGS, explained, facts_of, in_folder

import edgewise
from edgewise.cli.main import main

HERE = Path(__file__).parent
LARGEST = 300_000
"""Bytes of a folder."""
DROPPED = ("report.html", "rejected.csv", "checkpoints", "*.svg", "*.png")
"""What no verb needs of a finished run."""
QUICK = "--epochs 12 --learning-rate 0.02 --logger csv --threads 1 --device cpu"
MOLECULES = f"--model-dim 8 --num-heads 2 --num-layers 2 --head-dim 8 --num-variants 2 --ema-decay 0 {QUICK}"
READER = "--num-layers 1 --num-heads 2 --model-dim 8 --context 24 --logger csv --threads 1 --device cpu"
READER += " --epochs 30 --learning-rate 0.02"
TEXTS = f"{READER} --hidden-dim 16"
ENDS = ("O", "N", "Cl", "C(=O)O", "c1ccccc1", "C#N")
ANIMALS = {"cat": "meows", "dog": "barks", "cow": "moos", "pig": "grunts"}


def write(name: str, columns: dict[str, Any]) -> None:
    """A CSV file."""
    with open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def rounded(values: Any) -> list[Any]:
    """Numbers as they stand in a file."""
    return np.round(np.asarray(values, dtype=float), 3).tolist()


def molecules() -> None:
    """Chains with different ends: numbers, classes, and a second component with the numbers of the row."""

    def table(smiles: list[str]) -> dict[str, Any]:
        lengths = np.array([len(text) for text in smiles])
        rows = np.arange(len(smiles))
        return {
            "name": [f"m{row}" for row in rows],
            "smiles": smiles,
            "anion": [("[Cl-]", "[Br-]", "F[B-](F)(F)F")[row % 3] for row in rows],
            "temperature": rounded(280 + rows % 7),
            "pressure": rounded(1 + rows % 3),
            "y": rounded(lengths / 5 + np.sin(rows)),
            "share": rounded(0.5 + 0.4 * np.sin(lengths + rows % 3)),
            "toxic": ["yes" if "N" in text or "Cl" in text else "no" for text in smiles],
            "size": [("small", "middle", "large")[min(2, len(text) // 5)] for text in smiles],
        }

    write("data.csv", table([f"{'C' * (1 + number // 6)}{ENDS[number % 6]}" for number in range(48)]))
    new = table(["CC(C)O", "c1ccncc1CCO", "CCCCCCCCCN", "no molecule", "CC(=O)NC"])
    write("new.csv", {name: new[name] for name in ("name", "smiles", "anion", "temperature", "pressure")})


def reviews(count: int) -> list[tuple[str, str, str, float]]:
    """Titles, texts, classes and numbers."""
    random_ = random.Random(0)
    good, bad = ("fine", "great", "moving"), ("dull", "poor", "weak")
    found = []
    for number in range(count):
        words = [random_.choice(good if number % 3 else bad) for _ in range(3)]
        text = f"a {words[0]} film , {words[1]} and {words[2]} ."
        stars = round(random_.random() + number % 3, 3)
        found.append((f"{words[0]} story", text, ("bad", "good", "best")[number % 3], stars))
    return found


def texts() -> None:
    """Reviews of two columns with a class and a number."""
    columns = tuple(zip(*reviews(60), strict=True))
    write("data.csv", dict(zip(("title", "text", "label", "stars"), columns, strict=True)))
    titles = ["weak story", "a new one", "unknown"]
    write("new.csv", {"title": titles, "text": ["dull and great film", "moving , moving .", "zzz qqq"]})


def sentences(count: int, seed: int = 0) -> list[tuple[list[str], list[str]]]:
    """Sentences with the tags of their words."""
    random_ = random.Random(seed)
    found = []
    for _ in range(count):
        animal = random_.choice([*ANIMALS])
        person = random_.choice(["Ann", "Bob", "Eve"])
        words = ["the", animal, "of", person, random_.choice(["always", "never"]), ANIMALS[animal], "."]
        found.append((words, ["O", "B-ANIMAL", "O", "B-PERSON", "O", "O", "O"]))
    return found


def lines() -> None:
    """Reviews without classes, a line each, and some new ones."""
    Path("data.txt").write_text("".join(f"{text}\n" for _, text, _, _ in reviews(80)))
    Path("new.txt").write_text("a moving film , dull and great .\nfilm film\na new film .\n")


def pretrained() -> None:
    """The reviews of `texts`, and the run of `masked` where training starts."""
    texts()
    shutil.copytree(HERE / edgewise.__version__ / "masked" / "run", "pretrained")


def tags() -> None:
    """Sentences with tags in columns, and as objects."""
    rows = sentences(60)
    columns = ["".join(f"{word} {tag}\n" for word, tag in zip(*row, strict=True)) for row in rows]
    Path("data.conll").write_text("\n".join(columns))
    names = {"O": "other", "B-ANIMAL": "noun", "B-PERSON": "noun"}
    objects = [{"words": words, "kinds": [names[tag] for tag in each]} for words, each in rows]
    Path("data.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    for name, key in (("new.jsonl", "tokens"), ("new_words.jsonl", "words")):
        Path(name).write_text("".join(json.dumps({key: words}) + "\n" for words, _ in sentences(3, seed=1)))


def pairs() -> None:
    """Numbers, and the same in words."""
    digits = {"1": "eins", "2": "zwei", "3": "drei", "4": "vier"}
    texts = [f"{number % 4 + 1} {number // 4 % 4 + 1} {number // 16 % 4 + 1}" for number in range(64)]
    write("data.csv", {"en": texts, "de": [" ".join(digits[word] for word in text.split()) for text in texts]})
    write("new.csv", {"en": ["4 3", "1 1 2 2", "2"]})


def book() -> None:
    """One text."""
    text = "the cat sat on the mat and the dog sat on the log. a cow stood in the snow and saw the crow go.\n"
    Path("data.txt").write_text(text * 12)


def graph() -> None:
    """Two teams whose members know each other, with numbers, words, types, and links of two types."""
    generator = np.random.default_rng(0)
    count, num_edges = 40, 90
    team = np.arange(count) % 2
    senders = generator.integers(0, count, num_edges)
    receivers = (senders + 2 * generator.integers(1, count // 2, num_edges)) % count
    nodes = {
        "id": [f"n{node}" for node in range(count)],
        "a": rounded(2 * team + generator.normal(size=count)),
        "b": rounded(generator.normal(size=count)),
        "role": [("lead", "aide", "guest")[node % 3] for node in range(count)],
        "type": [("person", "robot")[node % 5 == 0] for node in range(count)],
        "team": [("blue", "red")[each] for each in team],
        "height": rounded(team + generator.random(count)),
    }
    edges = {
        "from": [f"n{node}" for node in senders],
        "to": [f"n{node}" for node in receivers],
        "trust": rounded(generator.random(num_edges)),
        "relation": [("knows", "likes")[edge % 2] for edge in range(num_edges)],
    }
    write("nodes.csv", nodes)
    write("edges.csv", edges)
    # The same graph after a while: other edges between nodes of which some numbers changed.
    changed = {name: list(values) for name, values in nodes.items() if name not in ("team", "height")}
    changed["a"][:10] = rounded(generator.normal(size=10))
    write("new_nodes.csv", changed)
    write("new_edges.csv", {name: values[5:] for name, values in edges.items()})
    write("names.csv", {"id": nodes["id"]})
    write("pairs.csv", {"from": ["n0", "n1", "n2", "n7", "zoe"], "to": ["n4", "n2", "n9", "n0", "n1"]})
    index = np.stack([senders, receivers])
    x = np.stack([nodes["a"], nodes["b"]], 1).astype(np.float32)
    types = {"node_type": np.array(nodes["type"]), "edge_type": np.array(edges["relation"])}
    np.savez("graph.npz", x=x, edge_index=index, y=team, **types)
    np.savez("features.npz", x=(x > 0).astype(np.float32))


def transfers() -> None:
    """The graph of two teams, and two targets of each edge."""
    graph()
    with open("edges.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    lead = [int(row["from"][1:]) % 3 == 0 for row in rows]
    columns["safe"] = ["yes" if is_lead else "no" for is_lead in lead]
    columns["cost"] = [round(float(row["trust"]) + is_lead, 3) for row, is_lead in zip(rows, lead, strict=True)]
    write("edges.csv", columns)


def many_graphs() -> None:
    """Rings and chains, as molecules are, with a table of what belongs to each as a whole; and trees with a root."""
    generator = np.random.default_rng(0)

    def files(prefix: str, count: int) -> None:
        nodes: dict[str, Any] = {name: [] for name in ("graph", "id", "a", "element")}
        edges: dict[str, Any] = {name: [] for name in ("graph", "from", "to", "length")}
        graphs: dict[str, Any] = {name: [] for name in ("graph", "heat", "y", "shape")}
        trees: dict[str, Any] = {name: [] for name in ("graph", "from", "to")}
        for number in range(count):
            size, is_ring, name = 3 + number % 4, number % 2 == 0, f"{prefix}{number}"
            values = np.round(generator.normal(size=size) + is_ring, 3)
            nodes["graph"] += [name] * size
            nodes["id"] += range(size)
            nodes["a"] += values.tolist()
            nodes["element"] += generator.choice(["Fe", "Co"], size).tolist()
            for node in range(size if is_ring else size - 1):
                edges["graph"].append(name)
                edges["from"].append(node)
                edges["to"].append((node + 1) % size)
                edges["length"].append(round(float(generator.random()), 3))
            for node in range(1, size):
                trees["graph"].append(name)
                trees["from"].append(node)
                trees["to"].append((node - 1) // 2)
            graphs["graph"].append(name)
            graphs["heat"].append(number % 5)
            graphs["y"].append(round(float(values.sum()) / 3, 3))
            graphs["shape"].append("ring" if is_ring else "chain")
        if prefix == "new":
            del graphs["y"], graphs["shape"]
        for name, columns in (("nodes", nodes), ("edges", edges), ("graphs", graphs), ("trees", trees)):
            write(f"{'new_' if prefix == 'new' else ''}{name}.csv", columns)

    files("g", 40)
    files("new", 4)


def series() -> None:
    """A wave that goes along a chain of nodes, with noise and an empty cell."""
    generator = np.random.default_rng(0)
    steps = np.arange(150)
    noise = generator.normal(size=(3, 150)) / 5
    names = {"a": 0, "b": 1, "c": 2}
    values: dict[str, list[Any]] = {
        name: rounded(np.sin((steps - late) / 4) + noise[late]) for name, late in names.items()
    }
    values["b"][20] = ""
    write("series.csv", {"step": steps.tolist()[:140], **{name: each[:140] for name, each in values.items()}})
    write("new.csv", {"step": steps.tolist()[130:], **{name: each[130:] for name, each in values.items()}})
    write("edges.csv", {"from": ["a", "b"], "to": ["b", "c"]})


def bodies() -> None:
    """Bodies on springs, and other ones."""
    for name, count, seed in (("motion.npz", 10, 0), ("new.npz", 2, 1)):
        words = f"simulate springs --num-trajectories {count} --num-bodies 3 --num-steps 400 --keep-every 50"
        run(f"{words} --seed {seed} -o {name}")


def run(words: str) -> None:
    """A command of `edgewise`, which must not fail."""
    if main(shlex.split(words)) != 0:
        raise SystemExit(f"edgewise {words} failed")


def train(words: str) -> Callable[[], None]:
    """What trains by the command line."""
    return lambda: run(f"train {words} -o run")


def converted(words: str) -> Callable[[], None]:
    """What trains, writes the run in the layout of Hugging Face, and reads that again."""

    def convert() -> None:
        run(f"train {words} -o trained")
        run("convert trained -o theirs")
        run("convert theirs -o run")
        for folder in ("trained", "theirs"):
            shutil.rmtree(folder)

    return convert


def saved_molecules() -> None:
    """A run folder that an estimator wrote."""
    import pandas as pd

    from edgewise import MoleculeRegressor

    table = pd.read_csv("data.csv")
    sizes = {"model": "attention", "num_layers": 1, "num_heads": 2, "model_dim": 8, "epochs": 2, "random_state": 3}
    more = {"head_dim": 8, "num_variants": 2, "threads": 1}
    regressor = MoleculeRegressor(**sizes, temperature=float("inf"), validation_size=0.3, **more)
    regressor.fit(table["smiles"].tolist(), table[["y", "share"]].to_numpy()).save("run")


def saved_nodes() -> None:
    """A run folder that an estimator of nodes wrote; it does not know where its graph is."""
    from edgewise import NodeClassifier

    with np.load("graph.npz") as arrays:
        x, index, y = arrays["x"], arrays["edge_index"], arrays["y"]
    NodeClassifier(model="sage", num_layers=1, model_dim=8, epochs=3, threads=1).fit(x, y, index).save("run")


OPENED: set[str] = set()
"""Files that were read; the others are not needed."""


def note(event: str, arguments: tuple[Any, ...]) -> None:
    """Notes a file that is opened."""
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        OPENED.add(os.path.abspath(arguments[0]))


@dataclass(frozen=True)
class Frozen:
    """A kind of run."""

    data: Callable[[], None]
    """Writes its files."""
    make: Callable[[], None]
    """Makes the run folder `run` of them."""


def molecule(words: str) -> Frozen:
    """A run over molecules."""
    return Frozen(molecules, train(f"data.csv --smiles-columns smiles {words} {MOLECULES}"))


def nodes(words: str) -> Frozen:
    """A run over the nodes of a graph."""
    return Frozen(graph, train(f"nodes.csv --edges edges.csv {words} --model-dim 8 {QUICK}"))


def edges(words: str) -> Frozen:
    """A run over the edges of a graph."""
    return Frozen(transfers, train(f"edges edges.csv {words} --model-dim 8 {QUICK}"))


def graphs(words: str) -> Frozen:
    """A run over many graphs."""
    small = f"--model-dim 8 --num-heads 2 --head-dim 8 --num-variants 2 --dropout 0 {QUICK}"
    return Frozen(many_graphs, train(f"nodes.csv --graph-column graph {words} {small}"))


def links(words: str) -> Frozen:
    """A run over the links of a graph."""
    return Frozen(graph, train(f"nodes.csv --edges edges.csv {words} {NUMBERS} --task-type link --model-dim 8 {QUICK}"))


def forecast(words: str) -> Frozen:
    """A run over series."""
    sizes = "--time-column step --task-type forecast --context 6 --horizon 3 --model-dim 8"
    return Frozen(series, train(f"series.csv {words} {sizes} --epochs 2 --logger csv --threads 1 --device cpu"))


def motion(words: str) -> Frozen:
    """A run over moving bodies."""
    recipe = "--model-dim 8 --epochs 60 --batch-size 8 --learning-rate 0.01 --logger csv --threads 1 --device cpu"
    return Frozen(bodies, train(f"motion.npz {words} {recipe}"))


NUMBERS = "--feature-columns a b"
PART = "--split-sizes 0.5 0.3 0.2"
TRANSLATION = (
    "data.csv --text-columns en --target-columns de --task-type translation --num-layers 1 --num-heads 2 "
    "--model-dim 16 --hidden-dim 16 --dropout 0 --vocabulary-size 280 --max-length 12 --epochs 300 --batch-size 256 "
    "--learning-rate 0.02 --weight-decay 0 --logger csv --threads 1 --device cpu"
)
RECURRENT = TRANSLATION.replace("--num-heads 2 ", "").replace("--hidden-dim 16 ", "") + " --model lstm"
BOOK = (
    "data.txt --num-layers 1 --num-heads 2 --model-dim 8 --context 24 --steps 120 --learning-rate 0.02 --logger csv "
    "--threads 1 --device cpu"
)
KINDS: dict[str, Frozen] = {
    "molecules_regression": molecule(f"--target-columns y --ensemble-size 2 {PART}"),
    "molecules_classification": molecule(
        "--target-columns toxic --task-type classification --model gatv2 --no-molecule-descriptors"
    ),
    "molecules_multiclass": molecule(
        "--target-columns size toxic --task-type multiclass --model gat --no-molecule-descriptors"
    ),
    "molecules_mixture": molecule(
        "anion --descriptors-columns temperature pressure --target-columns share y --score additive --normalize "
        f"entmax15 --combine weights --no-molecule-descriptors {PART}"
    ),
    "molecules_fractions": molecule(
        f"--target-columns share --bounds 0 1 --model sage --no-molecule-descriptors {PART}"
    ),
    "molecules_transformer": molecule("--target-columns y --model mat --no-molecule-descriptors"),
    "molecules_saved": Frozen(molecules, saved_molecules),
    "texts_classification": Frozen(
        texts, train(f"data.csv --text-columns title text --target-columns label --ignore-columns stars {TEXTS}")
    ),
    "texts_regression": Frozen(
        texts,
        train(
            "data.csv --text-columns text --target-columns stars --ignore-columns label title --model lstm --tokens "
            f"characters --ensemble-size 2 {PART} "
            + READER.replace("--num-heads 2 ", "").replace("--context 24", "--context 48")
        ),
    ),
    "masked": Frozen(lines, train(f"data.txt --task-type masked --tokens words --hidden-dim 16 {READER}")),
    "masked_converted": Frozen(
        lines, converted(f"data.txt --task-type masked --model bert-base --hidden-dim 16 {READER}")
    ),
    "texts_pretrained": Frozen(
        pretrained,
        train(
            "data.csv --text-columns text --target-columns label --ignore-columns stars title --pretrained pretrained "
            "--epochs 12 --learning-rate 0.02 --logger csv --threads 1 --device cpu"
        ),
    ),
    "tagging": Frozen(tags, train(f"data.conll --hidden-dim 16 {READER}")),
    "tagging_lstm": Frozen(
        tags,
        train(
            "data.jsonl --task-type tagging --text-columns words --target-columns kinds --model lstm --tokens bpe "
            f"--vocabulary-size 280 {READER.replace('--num-heads 2 ', '')}"
        ),
    ),
    "translation": Frozen(pairs, train(TRANSLATION)),
    "translation_recurrent": Frozen(pairs, train(RECURRENT)),
    "language": Frozen(book, train(BOOK)),
    "language_byte_pairs": Frozen(book, train(f"{BOOK} --model gpt2 --tokens bpe --vocabulary-size 280")),
    "language_converted": Frozen(book, converted(f"{BOOK} --model gpt2 --tokens bpe --vocabulary-size 280")),
    "nodes_hops": nodes(f"{NUMBERS} --target-columns height --model hop_attention --num-hops 3"),
    "nodes_attention": nodes(
        f"{NUMBERS} --target-columns team --model attention --num-layers 1 --num-heads 2 --edge-feature-columns trust "
        "--category-columns role "
        "--expander-degree 2 --num-virtual-nodes 1 --laplacian-positions 2 --random-walk-positions 2 --ensemble-size 2"
    ),
    "nodes_gat": nodes(f"{NUMBERS} --target-columns team --model gat --num-heads 2"),
    "nodes_gatv2": nodes(f"{NUMBERS} --target-columns team --model gatv2 --num-heads 2 --directed"),
    "nodes_gcn": nodes(f"--target-columns height --model gcn --features features.npz --ensemble-size 2 {PART}"),
    "nodes_saved": Frozen(graph, saved_nodes),
    "nodes_types": nodes(
        f"{NUMBERS} --target-columns team --num-heads 2 --node-type-column type --edge-type-column relation"
    ),
    "nodes_relations": Frozen(
        graph, train(f"graph.npz --model rgcn --num-bases 2 --directed --task-type multiclass --model-dim 8 {QUICK}")
    ),
    "edges": edges(
        f"--nodes nodes.csv {NUMBERS} --category-columns role --target-columns safe --ignore-columns cost "
        "--edge-feature-columns trust --edge-category-columns relation --model gin --ensemble-size 2"
    ),
    "edges_alone": edges(
        "--target-columns cost --ignore-columns safe relation --edge-feature-columns trust --directed --model gatv2 "
        f"--num-heads 2 {PART}"
    ),
    "graphs_regression": graphs(
        "--edges edges.csv --graphs graphs.csv --graph-feature-columns heat --target-columns y --ignore-columns shape "
        f"--category-columns element --edge-feature-columns length --model attention --ensemble-size 2 {PART}"
    ),
    "graphs_classification": graphs(
        "--edges edges.csv --graphs graphs.csv --target-columns shape --ignore-columns y heat element --model gatv2"
    ),
    "graphs_trees": graphs(
        "--edges trees.csv --graphs graphs.csv --target-columns y --ignore-columns shape heat element --directed "
        "--readout root --model sage"
    ),
    "links": links("--decoder hadamard_mlp"),
    "links_without_features": Frozen(
        graph,
        train(
            "names.csv --edges edges.csv --task-type link --model gat --num-heads 2 --decoder dot --model-dim 8 "
            + QUICK
        ),
    ),
    "links_directed": links(
        "--model attention --num-heads 2 --directed --edge-feature-columns trust --decoder bilinear"
    ),
    "forecast": forecast("--edges edges.csv --directed --period 25 --num-heads 2"),
    "forecast_alone": forecast("--edges edges.csv --model gru"),
    "motion": motion("--horizon 2 --num-layers 2 --aggregation gate"),
    "motion_network": motion("--horizon 2 --num-layers 1 --model graph_network"),
    "motion_forces": motion("--target-quantity accelerations --model forces"),
}
"""Every kind of run that this version knows, and every way in which folders of a kind differ."""


def freeze(kind: str, folder: Path) -> None:
    """Makes the folder of a kind: its files, its run, and what is expected."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    frozen = KINDS[kind]
    with in_folder(folder):
        frozen.data()
        OPENED.clear()
        frozen.make()
        for pattern in DROPPED:
            for path in Path("run").glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree("pretrained", ignore_errors=True)  # a run stands without the one that it started from
        expect(kind)
        for path in Path().iterdir():
            if path.is_file() and str(path.resolve()) not in OPENED:
                path.unlink()


def expect(kind: str) -> None:
    """Writes what the run in this folder predicts, explains and generates."""
    opening = OPENINGS[kind]
    Path("expected").mkdir()
    for words in opening.commands():
        run(words)
    if opening.explain is not None:
        explanation = Path("expected/explanation.json")
        (content,) = json.loads(explanation.read_text())
        explanation.write_text(as_json(explained(content)))
    if opening.generate:
        Path("expected/written.txt").write_text(opening.written())
    if opening.python is not None:
        Path("expected/python.json").write_text(as_json(facts_of(opening)))


def as_json(content: dict[str, Any]) -> str:
    """One line an entry."""
    lines = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def freeze_all(kinds: list[str]) -> None:
    """Freezes some kinds; where none is named, those that are missing."""
    version = HERE / edgewise.__version__
    assert KINDS.keys() == OPENINGS.keys(), KINDS.keys() ^ OPENINGS.keys()
    for kind in kinds or [kind for kind in KINDS if not (version / kind).is_dir()]:
        print(f"--- {kind}")
        try:
            freeze(kind, version / kind)
        except BaseException:
            shutil.rmtree(version / kind, ignore_errors=True)  # half a folder must not pass for a whole one
            raise
        size = sum(path.stat().st_size for path in (version / kind).rglob("*") if path.is_file())
        print(f"--- {kind}: {size:,} bytes")
        if size > LARGEST:
            raise SystemExit(f"{kind} has {size:,} bytes, more than {LARGEST:,}")


if __name__ == "__main__":
    sys.addaudithook(note)
    freeze_all(sys.argv[1:])
