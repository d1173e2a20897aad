"""The columns of the edges of a store, in the order in which a model reads them; others than its own are refused."""

from collections.abc import Iterable, Sequence

from edgewise.errors import DataError
from edgewise.learn.readers.graphs.node_features import Categories
from edgewise.learn.readers.store.layout import GraphStore
from edgewise.learn.tables.labels import spellings_of


def numbers_of_edges(store: GraphStore, of_model: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of numbers of edges in the order of a model; those of the store where the model names none."""
    names = store.manifest["edge_features"]
    if of_model and sorted(of_model) != sorted(names):
        raise DataError(_other_columns(store, "numbers", names, of_model, "--edge-feature-columns"))
    return of_model or tuple(names)


def vocabulary_of(cells: Iterable[str]) -> list[str]:
    """The words among the different cells of a column, in the order of their features."""
    return sorted({*spellings_of(cells).values()} - {""})


def unknown_codes(cells: Sequence[str], vocabulary: Iterable[str]) -> list[int]:
    """The codes of the cells of a column that hold no word of a vocabulary."""
    known = set(vocabulary)
    return [code for code, word in enumerate(spellings_of(cells, known).values()) if word not in known]


def words_of_edges(store: GraphStore, of_model: Categories | None) -> Categories:
    """The words of the columns of words of edges, but for their types, in the order of a model."""
    names = [name for name in store.manifest["edge_words"] if name != store.manifest["edge_type_column"]]
    if of_model is None:
        return {name: vocabulary_of(store.manifest["edge_words"][name]) for name in names}
    if sorted(of_model) != sorted(names):
        raise DataError(_other_columns(store, "words", names, of_model, "--edge-category-columns"))
    return of_model


def _other_columns(store: GraphStore, what: str, names: Iterable[str], of_model: Iterable[str], flag: str) -> str:
    stored, wanted = (", ".join(map(repr, columns)) or "none" for columns in (names, of_model))
    remedy = (
        f"prepare the store again with {flag} {' '.join(of_model)}"
        if wanted != "none"
        else f"prepare the store again without {flag}"
    )
    return (
        f"{store.folder}: the columns of {what} of its edges are {stored}, but those of the model {wanted}; {remedy}."
    )
