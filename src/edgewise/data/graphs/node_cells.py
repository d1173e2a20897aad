"""What is known of the nodes of one graph or of many: numbers, and words as one feature each."""

import numpy as np
from jaxtyping import Float32

from edgewise.data.columns import Columns
from edgewise.data.graphs.names import NodeNames
from edgewise.data.graphs.node_features import features_of_arrays, features_of_columns
from edgewise.data.tables.arrays import read_arrays
from edgewise.data.tables.cell import Problems, stripped
from edgewise.data.tables.read import Cells, check_columns_exist
from edgewise.errors import DataError
from edgewise.plural import plural

Categories = dict[str, list[str]]


def features_of_nodes(
    cells: Cells, columns: Columns, path: str | None, categories: Categories | None
) -> tuple[Float32[np.ndarray, " node feature"], Problems, Categories]:
    """The features of nodes, 0 where a cell cannot be read; which cells those are; and the words that were found.

    Args:
        cells: the table of nodes.
        columns: which of its columns are numbers, and which are words.
        path: an .npz file that holds numbers instead, a row a node.
        categories: the words of each column, where they are known; another one cannot be read then.

    Raises:
        DataError: a column is missing, no node can be read, or the file has other nodes.
    """
    if path is None:
        numbers, problems = features_of_columns(cells, columns.descriptors_columns)
    else:
        numbers, problems = features_of_arrays(path, read_arrays(path)), Problems()
        if numbers.shape[0] != len(cells.frame):
            raise DataError(
                f"{path} has {plural(numbers.shape[0], 'row')}, but {cells.source} has "
                f"{plural(len(cells.frame), 'node')}."
            )
    check_columns_exist(cells, columns.category_columns)
    found, parts = {}, [numbers.to_dense()]
    for number, column in enumerate(columns.category_columns):
        words = stripped(cells.frame[column])
        distinct = set(words.unique().to_pylist()) - {""}
        known = sorted(distinct) if categories is None else list(categories.values())[number]
        places = NodeNames(known).places(words)
        one_hot = np.zeros((len(words), len(known)), dtype=np.float32)
        found_rows = np.flatnonzero(places >= 0)
        one_hot[found_rows, places[found_rows]] = 1
        for row in np.flatnonzero(places < 0).tolist():
            word = words[row].as_py()
            reason = f"{word!r} is none of the {plural(len(known), 'word')} that are known"
            problems.add(row, column, word, reason if word else "the cell is empty")
        found[column] = known
        parts.append(one_hot)
    return np.concatenate(parts, axis=1), problems, found
