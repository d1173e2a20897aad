"""Molecules read within bounds of size and time: one hostile or huge SMILES must not stop all others."""

import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Float64

from edgewise.errors import DataError, plural
from edgewise.learn.process import Process, ProcessDiedError
from edgewise.learn.readers.molecules.cache import CACHE_ERRORS, FeatureCache, Stored, feature_cache
from edgewise.learn.readers.molecules.conformer import Conformer, conformer, drawn, layered
from edgewise.learn.readers.molecules.descriptor import DESCRIPTOR_NAMES, descriptors
from edgewise.learn.readers.molecules.feature import Chem, MoleculeArrays, molecule_arrays
from edgewise.learn.readers.molecules.limits import MoleculeLimits, SlowMoleculeError
from edgewise.learn.readers.molecules.molecule import CHARACTERS_PER_ATOM, count_atoms, read_molecule

Result = TypeVar("Result")
Item = TypeVar("Item")
Worker: TypeAlias = Process[Any]
"""A process that computes whichever function it is given."""
PLAIN_ATOMS, PLAIN_CHARACTERS = 100, 400
"""Smaller molecules are read in this process, in a few milliseconds; only larger ones need another."""
PLAIN_WALKS = 300_000
"""Descriptors over paths take time with the walks of six bonds: 10,000 in a drug, 5 million between 10 dummy atoms of
which each is bonded to all others, where the descriptors take 2 s; with 13 such atoms they do not end."""
EMBEDDED_AT_ONCE = 30
"""Atoms of a molecule that is embedded at once, in a tenth of a second; a chain of 200 takes a minute."""
CACHED_FROM = 64
"""Molecules from which on the cache is looked into."""
FEATURIZE_BATCH = 512
"""Molecules that are read before the first of them is handed on, in about a second."""
POOLED_FROM = 2048
"""Molecules from which on the plain ones are computed in several processes: to start one takes as long as some 300.
Where they run already, all of them are."""
_BATCH_SIZE = 64
_MAX_CACHED = 256
_BLOCK_SECONDS = 60.0
"""Processor time for a block of plain molecules, which takes a fraction of a second; then each gets its own process."""


@dataclass(frozen=True, eq=False)
class Featurized:
    """The features of one molecule."""

    canonical: str
    """The molecule as RDKit writes it."""
    arrays: MoleculeArrays
    """Atoms and bonds."""
    descriptors: Float64[np.ndarray, " feature"]
    """Descriptors of the whole molecule; empty where they are not needed."""


Outcome = Featurized | DataError


def featurize(smiles: Sequence[str], limits: MoleculeLimits, names: tuple[str, ...]) -> Iterator[Outcome]:
    """The features of each molecule, or why there are none, in the order of the strings.

    Molecules that may take long are computed in processes of their own, each of which is killed at the time limit.

    Raises:
        SlowMoleculeError: One may take long, and the limits do not allow to wait.

    Cost: milliseconds for each drug-like molecule that is not in the cache; seconds to start the processes where one
    may take long.
    """
    # Descriptors take most of the time, and a few molecules take less than a file.
    is_cached = names == DESCRIPTOR_NAMES and len(smiles) >= CACHED_FROM and limits.may_wait
    with feature_cache() if is_cached else contextlib.nullcontext() as cache:
        # Some at a time, so that progress is seen.
        is_pooled = bool(names) and (len(smiles) >= POOLED_FROM or _POOL.runs) and _num_cores() > 1 and limits.may_wait
        together = FEATURIZE_BATCH * (_num_cores() if is_pooled else 1)
        for start in range(0, len(smiles), together):
            batch = smiles[start : start + together]
            yield from _some(batch, limits, names, cache, is_pooled=is_pooled)


def _some(
    smiles: Sequence[str],
    limits: MoleculeLimits,
    names: tuple[str, ...],
    cache: FeatureCache | None,
    *,
    is_pooled: bool,
) -> list[Outcome]:
    """The outcome of each molecule: from the cache, computed here, or in a process."""
    stored: dict[str, Stored] = {}
    if cache is not None:
        with contextlib.suppress(*CACHE_ERRORS):
            stored = cache.read([text for text in smiles if _fits(text, limits)])

    done: dict[str, Outcome] = {text: Featurized(*stored_features) for text, stored_features in stored.items()}
    missing = [text for text in dict.fromkeys(smiles) if text not in done]
    is_pooled = is_pooled and len(missing) > _BATCH_SIZE
    new_outcomes = (
        in_blocks(_all_at_once, missing, limits, names) if is_pooled else _all_at_once(missing, limits, names)
    )
    outcomes = dict(zip(missing, new_outcomes, strict=True))
    done |= {text: outcome for text, outcome in outcomes.items() if outcome is not None}
    slow_smiles = [text for text in missing if text not in done]

    done |= dict(zip(slow_smiles, _in_processes(_features, slow_smiles, limits, names), strict=True))
    if cache is not None:
        new = {
            text: featurized
            for text, featurized in done.items()
            if text not in stored and isinstance(featurized, Featurized)
        }
        with contextlib.suppress(*CACHE_ERRORS):
            cache.write(
                {
                    text: (featurized.canonical, featurized.arrays, featurized.descriptors)
                    for text, featurized in new.items()
                }
            )

    return [done[text] for text in smiles]


def conformers(smiles: Sequence[str], limits: MoleculeLimits) -> Iterator[Conformer]:
    """The conformer of each molecule, in the order of the strings, which `featurize` has read.

    Large molecules are embedded in processes, as in `featurize`. One that takes longer than the limit, or crashes
    RDKit, is drawn in the plane; one for which that takes longer, too, is placed by counting its bonds.

    Raises:
        SlowMoleculeError: One may take long, and the limits do not allow to wait.
    """
    # Some at a time, so that progress is seen.
    for start in range(0, len(smiles), _BATCH_SIZE):
        batch = smiles[start : start + _BATCH_SIZE]
        slow_smiles = [text for text in batch if not _is_embedded_at_once(text)]
        outcomes = dict(zip(slow_smiles, _in_processes(conformer, slow_smiles, limits), strict=True))
        timed_out = [text for text, outcome in outcomes.items() if isinstance(outcome, DataError)]
        outcomes.update(zip(timed_out, _in_processes(drawn, timed_out, limits), strict=True))
        for text in batch:
            outcome = outcomes[text] if text in outcomes else _small_conformer(text)
            yield layered(read_molecule(text)) if isinstance(outcome, DataError) else outcome


def _is_embedded_at_once(smiles: str) -> bool:
    """Whether embedding a molecule takes a tenth of a second, and drawing it less."""
    return count_atoms(smiles) <= EMBEDDED_AT_ONCE and _walks(read_molecule(smiles)) <= PLAIN_WALKS


@lru_cache(maxsize=_MAX_CACHED)
def _small_conformer(smiles: str) -> Conformer:
    """The conformer of a molecule that is embedded at once, cached: predictions need it again for their status."""
    return conformer(read_molecule(smiles))


def check_size(smiles: str, limits: MoleculeLimits) -> None:
    """Raise DataError for a string that is too long, or writes too many atoms; nothing is parsed for that."""
    longest = CHARACTERS_PER_ATOM * limits.max_atoms
    if len(smiles) > longest:
        raise DataError(
            f"{_start(smiles)} has {plural(len(smiles), 'character')}, more than {longest:,} for "
            f"{limits.max_atoms:,} atoms; "
            "--max-atoms raises the bound."
        )
    if (count := count_atoms(smiles)) > limits.max_atoms:
        raise DataError(
            f"{_start(smiles)} has {plural(count, 'atom')}, more than {limits.max_atoms:,}; "
            "--max-atoms raises the bound."
        )


def _fits(smiles: str, limits: MoleculeLimits) -> bool:
    try:
        check_size(smiles, limits)
    except DataError:
        return False
    return True


def _at_once(smiles: str, limits: MoleculeLimits, names: tuple[str, ...]) -> Outcome | None:
    """The features of a molecule that takes milliseconds, or the error; None where it may take longer."""
    try:
        check_size(smiles, limits)
        if len(smiles) > PLAIN_CHARACTERS or count_atoms(smiles) > PLAIN_ATOMS:
            return None
        molecule = read_molecule(smiles)
    except DataError as error:
        return error
    return _features(molecule, names) if _walks(molecule) <= PLAIN_WALKS else None


def _all_at_once(smiles: Sequence[str], limits: MoleculeLimits, names: tuple[str, ...]) -> list[Outcome | None]:
    return [_at_once(text, limits, names) for text in smiles]


def in_blocks(
    function: Callable[..., Sequence[Result]], smiles: Sequence[str], *arguments: object
) -> list[Result | None]:
    """`function(smiles, *arguments)`, computed by a process on each core for some strings at a time; None for those
    whose process died."""

    def compute(process: Worker, block: Sequence[str]) -> Sequence[Result | None]:
        try:
            results: Sequence[Result] = process.call(
                *(function, block, *arguments), timeout=10 * _BLOCK_SECONDS, cpu_timeout=_BLOCK_SECONDS
            )
            return results
        except (TimeoutError, ProcessDiedError):
            return [None] * len(block)

    blocks = [smiles[start : start + _BATCH_SIZE] for start in range(0, len(smiles), _BATCH_SIZE)]
    return [result for results in _POOL.map(compute, blocks) for result in results]


def processes_run() -> bool:
    """Whether worker processes exist already."""
    return _POOL.runs


def _num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _features(molecule: Chem.Mol, names: tuple[str, ...]) -> Featurized:
    return Featurized(
        Chem.MolToSmiles(molecule),
        molecule_arrays(molecule),
        descriptors(molecule, names),
    )


def _walks(molecule: Chem.Mol) -> int:
    """The number of walks of six bonds."""
    adjacency = Chem.GetAdjacencyMatrix(molecule)
    counts = np.ones(len(adjacency), np.int64)
    for _ in range(6):
        counts = adjacency @ counts
    return int(counts.sum())


def maker_of_results() -> Callable[..., object]:
    """Makes the function that a process computes."""
    return lambda function, *arguments: function(*arguments)


def _of_molecule(smiles: str, function: Callable[..., Result], *arguments: object) -> Result:
    """`function(molecule, *arguments)`; raises DataError for a string that is not a molecule."""
    return function(read_molecule(smiles), *arguments)


def _in_processes(
    function: Callable[..., Result], smiles: Sequence[str], limits: MoleculeLimits, *arguments: Hashable
) -> list[Result | DataError]:
    """`function(molecule, *arguments)` for each molecule, or a DataError with the reason why there is none."""
    if smiles and not limits.may_wait:
        raise SlowMoleculeError(f"{_start(smiles[0])} may take long")
    return _SLOW.outcomes([(function, text, limits, *arguments) for text in smiles]) if smiles else []


class _Pool:
    """Processes that compute one thing after another, and stay for the next time."""

    def __init__(self) -> None:
        self._processes = list[Worker]()

    @property
    def runs(self) -> bool:
        """Whether there are any."""
        return bool(self._processes)

    def map(self, compute: Callable[[Worker, Item], Result], items: Sequence[Item]) -> list[Result]:
        """`compute(process, item)` for each item, as many at a time as there are cores."""
        count = min(len(items), _num_cores())
        free, self._processes = self._processes, []
        free += [Process(maker_of_results) for _ in range(count - len(free))]

        def computed(item: Item) -> Result:
            process = free.pop()
            try:
                return compute(process, item)
            finally:
                free.append(process)

        try:
            with ThreadPoolExecutor(count) as threads:
                return list(threads.map(computed, items))
        finally:
            self._processes = free


class _Slow:
    """Processes for molecules that may take long, and their last results."""

    def __init__(self) -> None:
        self._results: OrderedDict[tuple[Hashable, ...], Any] = OrderedDict()

    def outcomes(self, keys: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The result of each function for its molecule, within its limits, or why there is none."""
        results = {key: self._results[key] for key in keys if key in self._results}
        missing = [key for key in dict.fromkeys(keys) if key not in results]
        if missing:
            new_results = _POOL.map(lambda process, key: _in_process(process, *key), missing)
            results.update(zip(missing, new_results, strict=True))
        for key, outcome in results.items():
            self._results[key] = outcome
            self._results.move_to_end(key)
        while len(self._results) > _MAX_CACHED:
            self._results.popitem(last=False)
        return [results[key] for key in keys]


_POOL = _Pool()
_SLOW = _Slow()


def _in_process(
    process: Worker, function: Callable[..., Result], smiles: str, limits: MoleculeLimits, *arguments: object
) -> Result | DataError:
    seconds = limits.molecule_timeout
    try:
        # A busy machine may take longer for the same work, and must not reject other rows for that.
        result: Result = process.call(
            *(_of_molecule, smiles, function, *arguments), timeout=10 * seconds, cpu_timeout=seconds
        )
        return result
    except DataError as error:
        return error
    except TimeoutError:
        return DataError(
            f"{_start(smiles)}: RDKit takes longer than {seconds:g} seconds for its "
            f"{plural(count_atoms(smiles), 'atom')}; "
            "--molecule-timeout raises the bound."
        )
    except ProcessDiedError as error:
        return DataError(f"{_start(smiles)}: RDKit crashes on it: {error}.")


def _start(smiles: str) -> str:
    return repr(smiles if len(smiles) <= 60 else smiles[:60] + "…")
