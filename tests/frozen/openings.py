"""How frozen runs are opened: the commands and the calls of Python of each kind, in one table.

Whoever renames a flag or a name changes it here alone; what is expected, in the folders, never changes.
"""

import contextlib
import io
import json
import math
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import edgewise
from edgewise.cli.main import main


@dataclass(frozen=True)
class Opening:
    """How the run in the folder `run` of a kind is used; paths are relative to the folder of the kind."""

    predict: str | None = None
    """What follows `edgewise predict run`, without the output."""
    explain: str | None = None
    """What follows `edgewise explain run`, without the output."""
    vectors: str | None = None
    """What follows `edgewise fingerprint run`, without the output."""
    generate: tuple[str, ...] = ()
    """What follows `edgewise generate run`, a text each."""
    python: Callable[[], tuple[Any, dict[str, Any]]] | None = None
    """Loads the estimator and uses it: the estimator, and each result by its name."""
    ending: str = ".csv"
    """Of the file of predictions."""
    report: bool = False
    """Whether the page about the run is written again; once for each format is enough."""

    @property
    def writes_rows(self) -> bool:
        """Whether rows are predicted, or have vectors."""
        return self.predict is not None or self.vectors is not None

    def commands(self, output: str = "expected") -> list[str]:
        """The commands that write into a folder."""
        found = []
        if self.predict is not None:
            found.append(f"predict run {self.predict} -o {output}/predictions{self.ending}")
        if self.vectors is not None:
            found.append(f"fingerprint run {self.vectors} -o {output}/vectors.npz")
        if self.explain is not None:
            found.append(f"explain run {self.explain} -o {output}/explanation.json")
        return found

    def written(self) -> str:
        """What is generated, one text behind the other."""
        return "".join(f"--- {words}\n{printed(f'generate run {words}')}" for words in self.generate)


def printed(words: str) -> str:
    """What a command of `edgewise` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        assert main(shlex.split(words)) == 0, words
    return stream.getvalue()


@contextlib.contextmanager
def in_folder(path: Path) -> Iterator[None]:
    """Paths are relative to a folder until the block ends."""
    with contextlib.chdir(path):
        yield


def explained(content: dict[str, Any]) -> dict[str, Any]:
    """What is compared of an explanation: its numbers, and what they belong to; no sentence, no random ranking."""
    return {
        "explained": content["explained"],
        "predictions": [
            [each[name] for name in ("name", "value", "label", "std", "low", "high", "probabilities")]
            for each in content["predictions"]
        ],
        "units": [unit["name"] for unit in content["units"]],
        "links": [[link["first"], link["second"], link["effect"]] for link in content["links"]],
        "attributions": {each["name"]: each["values"] for each in content["attributions"]},
        "parts": [[part["name"], part["units"], part["effect"]] for part in content["parts"]],
        "curves": [[each["name"], each["at"], each["predictions"]] for each in content["curves"]],
        "layers": {
            layer["name"]: [layer["senders"], layer["receivers"], layer["values"]] for layer in content["layers"]
        },
    }


def facts_of(opening: Opening) -> dict[str, Any]:
    """A run opened in Python: the estimator, its parameters and its results, as JSON."""
    assert opening.python is not None
    estimator, results = opening.python()
    params = estimator.get_params()
    facts = {"class": type(estimator).__name__, "params": plain(params)}
    if hasattr(estimator, "classes_"):
        facts["classes"] = plain(estimator.classes_)
    return {**facts, **{name: plain(result) for name, result in results.items()}}


def plain(value: Any) -> Any:
    """Arrays as lists, NaN as None, infinity as a word."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def read(name: str) -> Any:
    """A table of words."""
    import pandas as pd

    return pd.read_csv(name, dtype=str)


def load(name: str) -> Any:
    """The estimator of a name, of the run in this folder."""
    return getattr(edgewise, name).load("run")


def of_numbers(estimator: Any, *given: Any, **named: Any) -> dict[str, Any]:
    """What a regressor says."""
    found = {"predict": estimator.predict(*given, **named)}
    found["low"], found["high"] = estimator.predict_interval(*given, **named, coverage=0.8)
    return found


def of_classes(estimator: Any, *given: Any, **named: Any) -> dict[str, Any]:
    """What a classifier says."""
    probabilities = estimator.predict_proba(*given, **named)
    return {"predict": estimator.predict(*given, **named), "predict_proba": probabilities}


def values_of(estimator: Any, *given: Any, **named: Any) -> dict[str, Any]:
    """What a regressor or a classifier says."""
    return (of_classes if hasattr(estimator, "predict_proba") else of_numbers)(estimator, *given, **named)


def molecules(name: str, columns: tuple[str, ...] = ("smiles",), numbers: tuple[str, ...] = ()) -> Any:
    """Molecules in Python: those that can be read."""

    def use() -> tuple[Any, dict[str, Any]]:
        table = read("new.csv").query("smiles != 'no molecule'")
        smiles = table[columns[0]].tolist() if len(columns) == 1 else table[list(columns)].to_numpy(dtype=object)
        conditions = table[list(numbers)].to_numpy(dtype=float) if numbers else None
        estimator = load(name)
        vectors = estimator.fingerprint(smiles, conditions)
        return estimator, {**values_of(estimator, smiles, conditions), "fingerprint": vectors}

    return use


def texts(name: str, columns: list[str]) -> Any:
    """Texts in Python."""

    def use() -> tuple[Any, dict[str, Any]]:
        estimator, table = load(name), read("new.csv")
        rows = table[columns[0]].tolist() if len(columns) == 1 else table[columns].to_numpy(dtype=object).tolist()
        return estimator, {**values_of(estimator, rows), "fingerprint": estimator.fingerprint(rows)}

    return use


def sentences(path: str, key: str) -> Any:
    """Sentences in Python."""

    def use() -> tuple[Any, dict[str, Any]]:

        tagger = load("Tagger")
        return tagger, {
            "predict": tagger.predict([json.loads(line)[key] for line in Path(path).read_text().splitlines()])
        }

    return use


def translations() -> tuple[Any, dict[str, Any]]:
    """Translations in Python."""
    translator = load("Translator")
    return translator, {"predict": translator.predict(read("new.csv")["en"].tolist())}


def language() -> tuple[Any, dict[str, Any]]:
    """A text in Python."""
    model = load("LanguageModel")
    text = "the dog sat on the mat.\n"
    return model, {"generate": model.generate("the c", num_tokens=12, seed=1), "score": model.score(text)}


def graph(categories: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The new graph as arrays: features, edges of both ways, and a number of each edge."""
    nodes, edges = read("new_nodes.csv"), read("new_edges.csv")
    x = nodes[["a", "b"]].to_numpy(dtype=float)
    if categories:
        words = sorted(set(nodes["role"]))
        x = np.concatenate([x, [[float(role == word) for word in words] for role in nodes["role"]]], axis=1)
    place = {name: number for number, name in enumerate(nodes["id"])}
    ends = np.array([[place[name] for name in edges[side]] for side in ("from", "to")])
    trust = edges["trust"].to_numpy(dtype=float)
    return x, np.concatenate([ends, ends[::-1]], axis=1), np.tile(trust, 2)[:, None]


def nodes(name: str, with_edge_features: bool = False, features: str | None = None) -> Any:
    """Nodes in Python."""

    def use() -> tuple[Any, dict[str, Any]]:
        x, edges, numbers = graph(categories=with_edge_features)
        if features:
            with np.load(features) as arrays:
                x = arrays["x"]
        given = (x, edges, numbers) if with_edge_features else (x, edges)
        estimator = load(name)
        return estimator, {**values_of(estimator, *given), "fingerprint": estimator.fingerprint(*given)}

    return use


def typed_nodes() -> tuple[Any, dict[str, Any]]:
    """Nodes and edges of several types in Python; edges the other way are of types of their own."""
    x, edges, _ = graph()
    types = read("new_edges.csv")["relation"].tolist()
    both = [*types, *(f"rev_{name}" for name in types)]
    given = {"node_types": read("new_nodes.csv")["type"].tolist(), "edge_types": both}
    estimator = load("NodeClassifier")
    return estimator, values_of(estimator, x, edges, **given)


def graph_file() -> tuple[Any, dict[str, Any]]:
    """Nodes and edges of several types in one file."""
    with np.load("graph.npz") as arrays:
        x, edges = arrays["x"], arrays["edge_index"]
        given = {"node_types": arrays["node_type"], "edge_types": arrays["edge_type"]}
    estimator = load("NodeClassifier")
    return estimator, values_of(estimator, x, edges, **given)


def edges(name: str, with_nodes: bool) -> Any:
    """Edges in Python."""

    def use() -> tuple[Any, dict[str, Any]]:
        nodes, rows = read("new_nodes.csv" if with_nodes else "nodes.csv"), read("new_edges.csv")
        names = nodes["id"].tolist() if with_nodes else list(dict.fromkeys(rows[["from", "to"]].T.to_numpy().ravel()))
        place = {name: number for number, name in enumerate(names)}
        ends = np.array([[place[name] for name in rows[side]] for side in ("from", "to")])
        x, numbers = None, rows[["trust"]].to_numpy(dtype=float)
        if with_nodes:
            roles, relations = sorted(set(nodes["role"])), sorted(set(rows["relation"]))
            x = nodes[["a", "b"]].to_numpy(dtype=float)
            x = np.concatenate([x, [[float(role == word) for word in roles] for role in nodes["role"]]], axis=1)
            words = [[float(relation == word) for word in relations] for relation in rows["relation"]]
            numbers = np.concatenate([numbers, words], axis=1)
        estimator = load(name)
        given = (x, ends, numbers)
        return estimator, {**values_of(estimator, *given), "fingerprint": estimator.fingerprint(*given)}

    return use


def graphs(name: str, edges: str, of_graph: bool = False) -> Any:
    """Many graphs in Python."""

    def use() -> tuple[Any, dict[str, Any]]:
        nodes, links, wholes = read("new_nodes.csv"), read(edges), read("new_graphs.csv")
        held = []
        for graph in wholes["graph"]:
            own, between = nodes[nodes["graph"] == graph], links[links["graph"] == graph]
            x = own[["a"]].to_numpy(dtype=float)
            index = between[["from", "to"]].to_numpy(dtype=np.int64).T
            if of_graph:
                elements = [[float(element == word) for word in ("Co", "Fe")] for element in own["element"]]
                lengths = between[["length"]].to_numpy(dtype=float)
                both = np.concatenate([index, index[::-1]], axis=1)
                held.append((np.concatenate([x, elements], axis=1), both, np.tile(lengths, (2, 1))))
            else:
                held.append((x, index))
        estimator = load(name)
        heat = {"graph_features": wholes[["heat"]].to_numpy(dtype=float)} if of_graph else {}
        return estimator, {**values_of(estimator, held, **heat), "fingerprint": estimator.fingerprint(held)}

    return use


def links() -> tuple[Any, dict[str, Any]]:
    """Pairs of nodes in Python."""
    predictor = load("LinkPredictor")
    return predictor, {"predict_proba": predictor.predict_proba([["n0", "n4"], ["n1", "n2"], ["n7", "n0"]])}


def forecast() -> tuple[Any, dict[str, Any]]:
    """A series in Python."""
    forecaster, table = load("Forecaster"), read("new.csv")
    values = table[["a", "b", "c"]].astype(float)
    return forecaster, {"predict": forecaster.predict(values, np.array([[0, 1], [1, 2]]))}


def motion() -> tuple[Any, dict[str, Any]]:
    """Moving bodies in Python."""
    from edgewise.learn.readers.motion.motion import read_motion

    model, bodies = load("DynamicsModel"), read_motion("new.npz")
    return model, {"predict": model.predict(bodies, 3)}


def forces() -> tuple[Any, dict[str, Any]]:
    """Moving bodies in Python, let run by the force that was learned."""
    from edgewise.learn.readers.motion.motion import read_motion

    model, bodies = load("DynamicsModel"), read_motion("new.npz")
    rollout = model.rollout(bodies, 4)
    return model, {"predict": model.predict(bodies, 3), "rollout": rollout.positions}


NEW = "new.csv"
GRAPH = "new_nodes.csv --edges new_edges.csv"
GRAPHS = "new_nodes.csv --edges new_edges.csv --graphs new_graphs.csv"
TREES = "new_nodes.csv --edges new_trees.csv --graphs new_graphs.csv"
WRITTEN = (
    "--prompt 'the c' --num-tokens 30 --temperature 0",
    "--prompt 'the c' --num-tokens 40 --seed 3 --temperature 0.8 --top-p 0.9",
)
OPENINGS: dict[str, Opening] = {
    "molecules_regression": Opening(NEW, "CCC(=O)O", NEW, python=molecules("MoleculeRegressor"), report=True),
    "molecules_classification": Opening(NEW, "CCCl", NEW, python=molecules("MoleculeClassifier")),
    "molecules_multiclass": Opening(NEW, "CCCl", NEW),  # an estimator has one target of classes
    "molecules_mixture": Opening(
        NEW,
        "CCO [Cl-] --values temperature=290 pressure=2",
        NEW,
        python=molecules("MoleculeRegressor", ("smiles", "anion"), ("temperature", "pressure")),
    ),
    "molecules_fractions": Opening(NEW, "CCO", NEW, python=molecules("MoleculeRegressor")),
    "molecules_transformer": Opening(NEW, "CCO", NEW, python=molecules("MoleculeRegressor")),
    "molecules_saved": Opening(NEW, "CCO", NEW, python=molecules("MoleculeRegressor")),
    "texts_classification": Opening(
        NEW, "'a dull story' 'a great film .'", NEW, python=texts("TextClassifier", ["title", "text"]), report=True
    ),
    "texts_regression": Opening(NEW, "'a dull film'", NEW, python=texts("TextRegressor", ["text"])),
    "texts_pretrained": Opening(NEW, "'a dull film .'", NEW, python=texts("TextClassifier", ["text"])),
    "masked": Opening(vectors="new.txt", report=True),
    "masked_converted": Opening(vectors="new.txt"),
    "tagging": Opening(
        "new.jsonl",
        "'the cow of Eve never barks .'",
        python=sentences("new.jsonl", "tokens"),
        ending=".jsonl",
        report=True,
    ),
    "tagging_lstm": Opening(
        "new_words.jsonl", "'the cow of Eve .'", python=sentences("new_words.jsonl", "words"), ending=".jsonl"
    ),
    "translation": Opening(NEW, "'1 2'", python=translations, report=True),
    "translation_recurrent": Opening(NEW, "'1 2'", python=translations),
    "language": Opening(explain="'the cat s'", generate=WRITTEN, python=language, report=True),
    "language_byte_pairs": Opening(explain="'the cat s'", generate=WRITTEN, python=language),
    "language_converted": Opening(explain="'the cat s'", generate=WRITTEN, python=language),
    "nodes_hops": Opening(GRAPH, "n3", GRAPH, python=nodes("NodeRegressor"), report=True),
    "nodes_attention": Opening(GRAPH, "n3", GRAPH, python=nodes("NodeClassifier", True)),
    "nodes_gat": Opening(GRAPH, "n3", GRAPH, python=nodes("NodeClassifier")),
    "nodes_gatv2": Opening(GRAPH, "n3", GRAPH, python=nodes("NodeClassifier")),
    "nodes_gcn": Opening(
        f"{GRAPH} --features features.npz",
        "n3",
        f"{GRAPH} --features features.npz",
        python=nodes("NodeRegressor", features="features.npz"),
    ),
    "nodes_saved": Opening(GRAPH, vectors=GRAPH, python=nodes("NodeClassifier")),
    "nodes_types": Opening(GRAPH, "n3", GRAPH, python=typed_nodes),
    "nodes_relations": Opening("graph.npz", "3", "graph.npz", python=graph_file),
    "edges": Opening(
        "new_edges.csv --nodes new_nodes.csv",
        "n34 n8",
        "new_edges.csv --nodes new_nodes.csv",
        python=edges("EdgeClassifier", True),
        report=True,
    ),
    "edges_alone": Opening("new_edges.csv", "n34 n8", "new_edges.csv", python=edges("EdgeRegressor", False)),
    "graphs_regression": Opening(
        GRAPHS, "g7", GRAPHS, python=graphs("GraphRegressor", "new_edges.csv", True), report=True
    ),
    "graphs_classification": Opening(GRAPHS, "g7", GRAPHS, python=graphs("GraphClassifier", "new_edges.csv")),
    "graphs_trees": Opening(TREES, "g7", TREES, python=graphs("GraphRegressor", "new_trees.csv")),
    "links": Opening("pairs.csv", "n0 n4", GRAPH, python=links, report=True),
    "links_without_features": Opening("pairs.csv", "n0 n4", "names.csv --edges new_edges.csv", python=links),
    "links_directed": Opening("pairs.csv --edges new_edges.csv", "n0 n4", GRAPH, python=links),
    "forecast": Opening(f"{NEW} --edges edges.csv", python=forecast, report=True),
    "forecast_alone": Opening(f"{NEW} --edges edges.csv", python=forecast),
    "motion": Opening("new.npz", ending=".npz", python=motion),
    "motion_network": Opening("new.npz", ending=".npz", python=motion),
    "motion_forces": Opening("new.npz", ending=".npz", python=forces, report=True),
}
"""Every kind of run: how it is opened."""
