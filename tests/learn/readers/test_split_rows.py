"""Which rows train, validate and test."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.molecules.data import Columns, molecules_from_arrays, read_molecules
from edgewise.learn.readers.molecules.molecule import murcko_scaffold
from edgewise.learn.tables.split import Splits, groups_of, split_folds, split_rows, with_left_out
from edgewise.learn.training.conformal import interval_radius

RINGS = [
    "C1CCC1",
    "c1ccccc1",
    "C1CCCCC1",
    "c1ccncc1",
    "c1ccoc1",
    "c1ccsc1",
    "C1CCNC1",
    "C1CCOC1",
    "C1CC1",
    "c1cc[nH]c1",
]
SMILES = [f"{chain}{ring}" for ring in RINGS for chain in ("C", "CC", "F", "OC")] + ["C" * n for n in range(1, 21)]


def rows_of(*arrays, **options):
    return molecules_from_arrays(*arrays, **options, with_descriptors=False).rows


TABLE = rows_of(SMILES, np.arange(60.0), groups=[f"g{row % 12}" for row in range(60)])


def parts(splits) -> list[list[int]]:
    return [splits.train.tolist(), splits.val.tolist(), splits.test.tolist()]


def sizes_of(splits) -> list[int]:
    return [len(part) for part in parts(splits)]


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["random", "scaffold", "group"]),
    sizes=st.sampled_from([(0.8, 0.1, 0.1), (0.5, 0.25, 0.25), (1, 0, 0), (0.8, 0, 0.2), (0, 0, 1), (0.7, 0.3)]),
    seed=st.integers(0, 1000),
)
def test_every_usable_row_is_in_exactly_one_part(kind, sizes, seed):
    splits = split_rows(TABLE, kind=kind, sizes=sizes, seed=seed)
    assert sorted(row for part in parts(splits) for row in part) == list(range(60))
    for part, share in zip(parts(splits), sizes if len(sizes) == 3 else (0.6, 0.1, 0.3), strict=True):
        assert part == sorted(part)
        assert bool(part) == (share > 0)
    assert parts(splits) == parts(split_rows(TABLE, kind=kind, sizes=sizes, seed=seed))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_groups_and_scaffolds_stay_whole(seed):
    by_scaffold = split_rows(TABLE, kind="scaffold", seed=seed)
    keys = [{murcko_scaffold(SMILES[row]) or SMILES[row] for row in part} for part in parts(by_scaffold)]
    assert not (keys[0] & keys[1] or keys[0] & keys[2] or keys[1] & keys[2])
    by_group = split_rows(TABLE, kind="group", seed=seed, sizes=(0.6, 0.2, 0.2))
    keys = [{row % 12 for row in part} for part in parts(by_group)]
    assert not (keys[0] & keys[1] or keys[0] & keys[2] or keys[1] & keys[2])
    carved = split_rows(TABLE, kind="group", seed=seed, sizes=(0.8, 0.2))
    assert not {row % 12 for row in carved.train} & {row % 12 for row in carved.val}


def test_random_parts_have_their_sizes_and_depend_on_the_seed():
    assert sizes_of(split_rows(TABLE)) == [48, 6, 6]
    assert sizes_of(split_rows(TABLE, sizes=(0.8, 0.2))) == [43, 5, 12]
    assert parts(split_rows(TABLE, seed=1)) != parts(split_rows(TABLE, seed=2))
    # The same on every machine: numpy's generator promises its stream.
    assert split_rows(TABLE, seed=0).test.tolist() == [15, 29, 31, 33, 41, 56]


def test_large_scaffolds_train():
    smiles = [*SMILES[:40], *("C" * n + "C1CCCCCC1" for n in range(20))]
    table = rows_of(smiles, np.arange(60.0))
    for seed in range(5):
        splits = split_rows(table, kind="scaffold", seed=seed)
        # The 20 rows of the last ring are the largest group.
        assert set(range(40, 60)) <= set(splits.train.tolist())
        assert sizes_of(splits) == [48, 8, 4]


def test_molecules_without_a_ring_are_no_scaffold():
    """Half of FreeSolv has no ring: as one scaffold it was one fold of 320 rows beside folds of 57."""
    chains = ["C" * n + end for n in range(1, 11) for end in ("O", "N", "Cl")]
    smiles = [*chains, *chains, *SMILES[:20]]
    table = rows_of(smiles, np.arange(80.0))
    splits = [split_folds(table, kind="scaffold", num_folds=5, fold=fold) for fold in range(5)]
    assert [len(each.test) for each in splits] == [16] * 5
    for each in splits:
        # Rows of one molecule stay together, however it is written.
        assert not {smiles[row] for row in each.test} & {smiles[row] for row in each.learned}
    pairs = rows_of([("CC", "[Cl-]"), ("CCC", "[Cl-]"), ("CC", "[Cl-]"), ("C1CC1", "[Cl-]")], np.arange(4.0))
    assert pairs.contents.scaffolds(np.arange(4)) == ["CC [Cl-]", "CCC [Cl-]", "CC [Cl-]", "C1CC1 "]


def test_scaffolds_of_pairs_count_together():
    pairs = [(a, b) for a in ("Cc1ccccc1", "CCc1ccccc1", "C1CC1") for b in ("[Cl-]", "C1CCC1")]
    table = rows_of(pairs, np.arange(6.0))
    splits = split_rows(table, kind="scaffold", sizes=(0.5, 0.25, 0.25), seed=0)
    key_of_row = [(0, 0), (0, 1), (0, 0), (0, 1), (1, 0), (1, 1)]
    keys = [{key_of_row[row] for row in part} for part in parts(splits)]
    assert not (keys[0] & keys[1] or keys[0] & keys[2] or keys[1] & keys[2])


def test_unusable_rows_are_in_no_part():
    table = rows_of(["C", "xyz", "CC", "CCC"], [1.0, 2.0, np.nan, 4.0])
    splits = split_rows(table, sizes=(0.5, 0, 0.5))
    assert sorted([*splits.train, *splits.test]) == [0, 3]


def from_column(tmp_path, words: list[str], group: bool = False):
    rows = "".join(f"{'C' * (1 + row)},{row},{word},g{row % 4}\n" for row, word in enumerate(words))
    (tmp_path / "data.csv").write_text(f"smiles,y,part,group\n{rows}")
    columns = Columns(("smiles",), ("y",), splits_column="part", group_column="group" if group else None)
    return read_molecules(tmp_path / "data.csv", columns, with_descriptors=False).rows


def test_a_column_says_it(tmp_path):
    words = ["train", "Valid", "test", "", "VAL", " validation ", "training", "test"]
    splits = split_rows(from_column(tmp_path, words), kind="column")
    assert parts(splits) == [[0, 6], [1, 4, 5], [2, 7]]


def test_a_column_without_val_leaves_a_tenth_of_train(tmp_path):
    table = from_column(tmp_path, ["train"] * 20 + ["test"] * 3)
    splits = split_rows(table, kind="column", seed=3)
    assert sizes_of(splits) == [18, 2, 3]
    assert splits.test.tolist() == [20, 21, 22]
    assert parts(splits) == parts(split_rows(table, kind="column", seed=3))
    grouped = split_rows(from_column(tmp_path, ["train"] * 20 + ["test"] * 3, group=True), kind="column")
    assert sizes_of(grouped) == [15, 5, 3]
    assert len({row % 4 for row in grouped.val}) == 1


def test_another_word_in_the_column_names_its_line(tmp_path):
    with pytest.raises(DataError) as caught:
        split_rows(from_column(tmp_path, ["train", "tset"]), kind="column")
    assert str(caught.value).replace(f"{tmp_path}/", "") == (
        "data.csv, line 3, column 'part': 'tset' is not a split, expected train, val (also valid, validation) or test, "
        "or an empty cell for none."
    )


def test_a_column_without_train_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"data\.csv, column 'part': no usable row is in train\."):
        split_rows(from_column(tmp_path, ["test", "val"]), kind="column")


def test_files_are_parts(tmp_path):
    paths = []
    for name, smiles in (("a", SMILES[:20]), ("b", SMILES[20:24]), ("c", SMILES[24:30])):
        paths.append(tmp_path / f"{name}, x.csv")
        paths[-1].write_text("smiles,y\n" + "".join(f"{text},1\n" for text in smiles))
    columns = Columns(("smiles",), ("y",))
    three = read_molecules(paths, columns, with_descriptors=False).rows
    expected = [list(range(20)), list(range(20, 24)), list(range(24, 30))]
    assert parts(split_rows(three, kind="file")) == expected
    two = read_molecules(paths[::2], columns, with_descriptors=False).rows
    assert sizes_of(split_rows(two, kind="file")) == [18, 2, 6]
    with pytest.raises(DataError, match=r"split is file, but the data are 1 file; expected two \(train, test\)"):
        split_rows(TABLE, kind="file")
    paths[1].write_text("smiles,y\nxyz,1\n")
    with pytest.raises(DataError, match=r"b, x\.csv: no row can be used\."):
        split_rows(read_molecules(paths, columns, with_descriptors=False).rows, kind="file")


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ((0.8, 0.1, 0.2), "0.8 0.1 0.2"),
        ((1.2, -0.1, -0.1), "1.2 -0.1 -0.1"),
        ((1.0,), "1"),
        ((0.25, 0.25, 0.25, 0.25), "0.25 0.25 0.25 0.25"),
        ((float("nan"), 0.5, 0.5), "nan 0.5 0.5"),
        ((80, 10, 10), "80 10 10"),
    ],
)
def test_sizes_are_shares(sizes, shown):
    with pytest.raises(SettingError) as caught:
        split_rows(TABLE, sizes=sizes)
    assert str(caught.value) == (
        f"--split-sizes is {shown}, expected three numbers from 0 to 1 (train val test) or two (train test) "
        "that sum to 1."
    )


@pytest.mark.parametrize("sizes", [(0, 0, 1), (0, 0.5, 0.5), (0, 1)])
def test_folds_need_a_share_of_training_rows(sizes):
    """The shares of training and validation rows, both 0, were divided by each other."""
    with pytest.raises(SettingError, match=r"^--split-sizes leaves no row for training; give"):
        split_folds(TABLE, kind="random", num_folds=2, fold=0, sizes=sizes)


def test_what_a_kind_needs():
    bare = rows_of(["C1CC1", "CC1CC1"], [1.0, 2.0])
    with pytest.raises(SettingError, match="split is group, but --group-column is not given; name the column"):
        split_rows(bare, kind="group")
    with pytest.raises(SettingError, match="split is column, but --splits-column is not given; name the column"):
        split_rows(bare, kind="column")
    with pytest.raises(SettingError, match="split is 'time'; expected one of random, scaffold, group, column, file"):
        split_rows(bare, kind="time")
    with pytest.raises(DataError) as caught:
        split_rows(bare)
    assert str(caught.value) == ("2 usable rows cannot fill train, val, test: add rows or set a split's size to 0.")
    with pytest.raises(DataError) as caught:
        split_rows(bare, kind="scaffold", sizes=(0.5, 0, 0.5))
    assert str(caught.value) == (
        "1 group cannot fill train, test: add groups, set a split's size to 0, or split at random."
    )


def test_an_empty_group_names_its_line():
    table = rows_of(["C", "CC"], [1.0, 2.0], groups=["a", " "])
    with pytest.raises(DataError) as caught:
        split_rows(table, kind="group", sizes=(0.5, 0, 0.5))
    assert str(caught.value) == "arrays, row 1, column 'group': the group is empty."


def test_few_groups_still_fill_every_part():
    table = rows_of(["C"] * 9, np.arange(9.0), groups=list("aaabbbccc"))
    for seed in range(10):
        assert sizes_of(split_rows(table, kind="group", seed=seed)) == [3, 3, 3]


def test_molecules_on_both_sides_are_counted():
    table = rows_of(["C", "CC", "C", "N"], np.arange(4.0), groups=list("abcd"))
    leaks = {split_rows(table, kind="group", sizes=(0.5, 0, 0.5), seed=seed).leakage for seed in range(20)}
    assert leaks == {0, 1}
    assert split_rows(table, sizes=(1, 0, 0)).leakage == 0


def repeated(num_molecules: int = 30, num_test: int = 6, val: bool = False):
    """A table of molecules with three rows each, the last ones test rows by their column."""
    smiles = ["C" * (1 + number) for number in range(num_molecules)]
    table = rows_of(np.repeat(smiles, 3), np.arange(3.0 * num_molecules))
    words = ["test" if row >= 3 * (num_molecules - num_test) else "train" for row in range(3 * num_molecules)]
    if val:
        words[0] = "val"
    return with_parts(replace(table, columns=replace(table.columns, splits_column="part")), words)


def with_parts(table, words):
    return replace(table, cells=replace(table.cells, frame=table.cells.frame.assign(part=words)))


def test_new_molecules_in_the_test_rows_are_calibrated_on_new_molecules():
    table = repeated()
    splits = split_rows(table, kind="column")
    assert splits.calibration == "group"
    assert not set(table.keys(splits.train)) & set(table.keys(splits.val))
    at_random = split_rows(table, kind="column", calibration="random")
    assert at_random.calibration == "random"
    assert set(table.keys(at_random.train)) & set(table.keys(at_random.val))
    assert split_rows(repeated(9, 2), kind="column").calibration == "random", "too few molecules, it may be chance"
    classes = replace(table, columns=replace(table.columns, task_type="classification"))
    assert split_rows(classes, kind="column").calibration == "random", "classes have no intervals"
    known = with_parts(table, ["train", "train", "test"] * 30)
    assert split_rows(known, kind="column").calibration == "random", "test rows of known molecules"
    kinds = {kind: split_rows(TABLE, kind=kind).calibration for kind in ("random", "scaffold", "group")}
    assert kinds == {kind: kind for kind in kinds}


def test_the_calibration_may_differ_from_the_split():
    for splits in (
        split_rows(TABLE, calibration="scaffold"),
        split_folds(TABLE, kind="random", num_folds=5, fold=1, calibration="scaffold"),
    ):
        scaffolds = [set(TABLE.contents.scaffolds(rows)) for rows in (splits.train, splits.val)]
        assert splits.calibration == "scaffold"
        assert not scaffolds[0] & scaffolds[1]
    assert parts(split_rows(TABLE, calibration="scaffold"))[2] == parts(split_rows(TABLE))[2], "the same test rows"


@pytest.mark.parametrize("kind", ["group", "scaffold"])
def test_each_member_leaves_out_other_groups(kind):
    splits = with_left_out(TABLE, split_rows(TABLE, kind=kind, sizes=(0.6, 0.2, 0.2)), 4, 0)
    inner = sorted([*splits.train, *splits.val])
    assert splits.learned.tolist() == inner
    assert splits.left_out[0].tolist() == splits.val.tolist()
    for number in range(4):
        train, val = splits.of_member(number)
        assert sorted([*train, *val]) == inner
        assert not set(groups_of(TABLE, train, kind)) & set(groups_of(TABLE, val, kind))
    many = with_left_out(TABLE, split_rows(TABLE, kind=kind, sizes=(0.6, 0.2, 0.2)), 12, 0).left_out
    num_folds = next(number for number in range(1, 12) if many[number].tolist() == many[0].tolist())
    assert sorted(row for own in many[:num_folds] for row in own.tolist()) == inner, "each row is left out once"
    assert [own.tolist() for own in many[num_folds:]] == [own.tolist() for own in many[: 12 - num_folds]]


def test_no_member_leaves_out_groups_that_weigh_nothing():
    groups = [f"g{number}" for number in np.repeat(np.arange(10), 4)]
    weights = np.where(np.repeat(np.arange(10), 4) % 2, 1.0, 0.0)
    table = replace(rows_of(["C"] * 40, np.arange(40), groups=groups), weights=weights)
    splits = split_rows(table, kind="group", sizes=(0.8, 0.2, 0))
    left_out = with_left_out(table, splits, 8, 0).left_out
    assert left_out
    assert all(weights[rows].any() for rows in left_out)


def test_what_shares_validation_rows():
    random = split_rows(TABLE)
    assert with_left_out(TABLE, random, 5, 0) is random
    alone = split_rows(TABLE, kind="group")
    assert with_left_out(TABLE, alone, 1, 0) is alone
    assert alone.of_member(3) == (alone.train, alone.val)
    # A validation row whose molecule is in the training rows says nothing about new molecules: it moves.
    table = repeated(val=True)
    splits = with_left_out(table, split_rows(table, kind="column"), 2, 0)
    for number in range(2):
        train, val = splits.of_member(number)
        assert not set(table.keys(train)) & set(table.keys(val))


@pytest.mark.parametrize(("calibration", "low", "high"), [("random", 0.0, 0.6), ("group", 0.85, 0.97)])
def test_intervals_of_new_groups_hold_where_new_groups_calibrate(calibration, low, high):
    """Each group has its own mean, which a model knows of the groups it has seen."""
    groups = np.repeat(np.arange(100), 5)
    covered = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        y = random.normal(size=100)[groups] + 0.1 * random.normal(size=500)
        table = rows_of(["C"] * 500, y, groups=[f"g{group:02}" for group in groups])
        splits = split_rows(table, kind="group", sizes=(0.6, 0.2, 0.2), seed=seed, calibration=calibration)
        means = {group: y[splits.train][groups[splits.train] == group].mean() for group in set(groups[splits.train])}
        errors = {
            name: np.array([means.get(groups[row], 0.0) - y[row] for row in rows])
            for name, rows in (("val", splits.val), ("test", splits.test))
        }
        covered.append((np.abs(errors["test"]) <= interval_radius(errors["val"], 0.9)).mean())
    assert low < np.mean(covered) < high


def test_members_leave_out_as_many_groups_whatever_their_size():
    """Folds of the same number of rows would make the first ones of the largest groups."""
    sizes = np.array([60, 50, 40, *[2] * 57])
    groups = np.repeat([f"g{number:02}" for number in range(60)], sizes)
    table = rows_of(["C"] * len(groups), np.arange(len(groups)), groups=groups)
    splits = split_rows(table, kind="group", sizes=(0.9, 0.1, 0), seed=1)
    left_out = with_left_out(table, splits, 5, 0).left_out[1:]
    counts = [len(set(groups[rows])) for rows in left_out]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) > 15


def test_one_of_anything_is_said_in_the_singular():
    from types import SimpleNamespace

    from edgewise.learn.tasks.table_notes import described

    for smiles, words in (
        (["C", "C", "CC", "CCC"], "1 molecule is in"),
        ([("C", "N"), ("C", "N"), ("C", "C"), ("N", "N")], "1 combination of molecules is in"),
    ):
        table = rows_of(smiles, np.arange(4.0))
        splits = Splits(np.array([0, 2]), np.array([], np.int64), np.array([1, 3]), leakage=1)
        kind = SimpleNamespace(split_kind="random")
        prepared = SimpleNamespace(
            data=SimpleNamespace(rows=table), splits=splits, settings=kind, fitted=SimpleNamespace()
        )
        assert f"  {words} training and test rows alike" in described(prepared, None)
