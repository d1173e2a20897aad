"""Scales learned on training rows."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edgewise.errors import DataError
from edgewise.learn.tables.magnitude import MIN_SPREAD
from edgewise.learn.tables.scale import ColumnScaler, DescriptorScaler, TargetScaler
from edgewise.learn.training.document import read_value, to_document

SOME = st.floats(-1e6, 1e6, allow_subnormal=False)


def is_refused(scaler, values, rows) -> bool:
    """Whether a column varies too little to be scaled, and is refused."""
    varies = np.ptp(values[rows], axis=0) > 0
    if not (np.std(values[rows], axis=0)[varies] < MIN_SPREAD).any():
        return False
    with pytest.raises(DataError, match="too small to be scaled; give the column in another unit"):
        scaler.fit(values, rows)
    return True


def test_target_by_hand():
    values = np.array([[1.0, 5.0], [3.0, np.nan], [100.0, 7.0]])
    scaler = TargetScaler.fit(values, [0, 1])
    assert scaler == TargetScaler(mean=(2.0, 5.0), std=(1.0, 1.0))
    np.testing.assert_array_equal(scaler.transform(values), [[-1, 0], [1, np.nan], [98, 2]])
    np.testing.assert_array_equal(scaler.inverse(scaler.transform(values)), values)


def test_a_row_counts_in_the_scale_as_much_as_it_weighs():
    """It counted once, whatever it weighed."""
    values = np.array([[1.0, 5.0], [3.0, np.nan], [8.0, 7.0], [100.0, 7.0]])
    weights = np.array([0.5, 1.0, 1.5, 9.0])
    scaler = TargetScaler.fit(values, [0, 1, 2], weights=weights)
    repeated = TargetScaler.fit(values, [0, 1, 1, 2, 2, 2])
    np.testing.assert_allclose(scaler.mean, repeated.mean)
    np.testing.assert_allclose(scaler.std, repeated.std)
    assert TargetScaler.fit(values, [0, 1, 2], weights=np.full(4, 7.0)) == TargetScaler.fit(values, [0, 1, 2])


def test_a_constant_target_keeps_its_unit():
    # The computed deviation of three equal numbers is not zero but a rounding error.
    scaler = TargetScaler.fit(np.full((3, 1), 0.1), [0, 1, 2])
    assert scaler.std == (1.0,)
    np.testing.assert_allclose(scaler.transform(np.array([[0.1]])), 0, atol=1e-12)


def test_a_target_without_a_value_and_no_rows():
    with pytest.raises(DataError) as caught:
        TargetScaler.fit(np.array([[1.0, np.nan], [2.0, 3.0]]), [0])
    assert str(caught.value) == "Every training row lacks target 2: there is nothing to learn; leave the target out."
    with pytest.raises(DataError, match="Every training row lacks 'b'"):
        TargetScaler.fit(np.array([[1.0, np.nan], [2.0, 3.0]]), [0], names=("a", "b"))
    for scaler in (TargetScaler, DescriptorScaler, ColumnScaler):
        with pytest.raises(DataError, match="needs at least one training row"):
            scaler.fit(np.zeros((3, 1)), [])


@settings(max_examples=50)
@given(arrays(np.float64, (7, 2), elements=SOME))
def test_targets_come_back(values):
    if is_refused(TargetScaler, values, np.arange(5)):
        return
    scaler = TargetScaler.fit(values, np.arange(5))
    scale = np.abs(values).max() + 1
    np.testing.assert_allclose(scaler.inverse(scaler.transform(values)), values, atol=1e-9 * scale)


def test_features_by_hand():
    values = np.array([[0.0, 1.0, 3.0, np.nan], [1.0, 1.0, np.nan, np.nan], [2.0, 1.0, 5.0, 1.0], [9.0, 2.0, 4.0, 2.0]])
    scaler = DescriptorScaler.fit(values, [0, 1, 2])
    assert scaler.center[:1] == (1.0,)
    # Column 0: pulled in to 0.01 ... 1.99; column 1 is constant; column 3 is NaN in most rows.
    np.testing.assert_allclose(scaler.spread, [np.std([0.01, 1, 1.99]), 0, np.std([3.01, 4.99]), 0])
    np.testing.assert_allclose(scaler.transform(values)[:, 0], np.clip([-1.2371, 0, 1.2371, 99], -4, 4), atol=1e-3)
    np.testing.assert_array_equal(scaler.transform(values)[:, [1, 3]], 0)
    assert scaler.transform(values)[1, 2] == 0


def test_a_rare_count_is_kept():
    values = np.zeros((1000, 1))
    values[:3] = 1
    scaled = DescriptorScaler.fit(values, np.arange(1000)).transform(values)
    assert scaled[0, 0] == 4.0 and abs(scaled[-1, 0]) < 0.1
    values[2] = 0
    assert not DescriptorScaler.fit(values, np.arange(1000)).transform(values).any()


@settings(max_examples=50)
@given(
    arrays(np.float64, (6, 3), elements=st.floats(width=64, allow_infinity=False)),
    arrays(np.float64, (4, 3), elements=st.floats(width=64)),
)
def test_features_are_bounded_whatever_comes(values, unseen):
    scaled = DescriptorScaler.fit(values, np.arange(5), limit=3.0).transform(unseen)
    assert np.isfinite(scaled).all()
    assert np.abs(scaled).max() <= 3.0


def test_conditions_by_hand():
    values = np.array([[300.0, 1.0, 5.0], [320.0, 100.0, 5.0], [1e6, -3.0, 6.0]])
    scaler = ColumnScaler.fit(values, [0, 1])
    assert scaler.log_columns == (1,) and scaler.num_features == 4
    np.testing.assert_allclose(scaler.transform(values[:2]), [[-1, -1, 0, -1], [1, 1, 0, 1]], atol=1e-12)
    # Below what was seen the logarithm stays at the smallest training value.
    np.testing.assert_allclose(scaler.transform(values)[2, 3], -1)
    np.testing.assert_allclose(scaler.transform(np.array([[310.0, 10.0, 5.0]]))[0, [0, 3]], 0, atol=1e-12)


@pytest.mark.parametrize(
    ("column", "has_logarithm"),
    [([1.0, 10.0], True), ([1.0, 9.9], False), ([0.0, 100.0], False), ([-1.0, 100.0], False), ([2.0, 2.0], False)],
)
def test_which_conditions_have_a_logarithm(column, has_logarithm):
    scaler = ColumnScaler.fit(np.array(column)[:, None], [0, 1])
    assert scaler.log_columns == ((0,) if has_logarithm else ())


def test_a_few_zeros_do_not_take_the_logarithm_from_all_other_rows():
    """Twelve rows without pressure among 25,386 made all others predict worse."""
    pressure = np.array([0.0, 1.0, 10.0, 100.0])[:, None]
    scaler = ColumnScaler.fit(pressure, np.arange(4))
    assert (scaler.log_columns, scaler.log_smallest, scaler.zero_columns) == ((0,), (1.0,), (0,))
    _, logs, is_zero = scaler.transform(pressure).T
    expected = np.log([1.0, 1.0, 10.0, 100.0])
    np.testing.assert_allclose(logs, (expected - expected.mean()) / expected.std())
    assert is_zero.tolist() == [1, 0, 0, 0]
    assert scaler.note(["P"]) == "P and its logarithm, where zeros count as 1 and are marked"
    # All other rows are as they are without the zero, up to the shift and the scale of a column.
    without = ColumnScaler.fit(pressure, np.arange(1, 4))
    assert without.zero_columns == () and without.num_features == 2
    steps = np.diff(without.transform(pressure[1:])[:, 1]), np.diff(logs[1:])
    np.testing.assert_allclose(steps[0] / steps[0][0], steps[1] / steps[1][0])
    assert ColumnScaler.fit(pressure - 1e-9, np.arange(4)).log_columns == (), "negative values have no logarithm"
    rare = np.array([0.0, 0.0, 0.0, 1.0, 10.0])[:, None]
    assert ColumnScaler.fit(rare, np.arange(5)).log_columns == (), "most of them are zeros"


@settings(max_examples=50)
@given(arrays(np.float64, (6, 2), elements=SOME), arrays(np.float64, (4, 2), elements=SOME))
def test_conditions_are_finite_for_finite_values(values, unseen):
    if is_refused(ColumnScaler, values, np.arange(4)):
        return
    scaler = ColumnScaler.fit(values, np.arange(4))
    scaled = scaler.transform(unseen)
    assert scaled.shape == (4, scaler.num_features)
    assert np.isfinite(scaled).all()


def test_no_conditions_and_no_features():
    assert ColumnScaler.fit(np.zeros((3, 0)), [0]).transform(np.zeros((3, 0))).shape == (3, 0)
    assert DescriptorScaler.fit(np.zeros((3, 0)), [0]).transform(np.zeros((3, 0))).shape == (3, 0)


def test_conditions_of_unreadable_rows_are_refused():
    """Where nothing fills them, such as those of a store."""
    with pytest.raises(DataError) as caught:
        ColumnScaler.fit_parts(lambda: [np.array([[1.0], [np.nan]])])
    assert str(caught.value) == ("ColumnScaler: the training rows hold values that are not finite; fit on usable rows.")


@pytest.mark.parametrize("kind", [TargetScaler, DescriptorScaler, ColumnScaler])
@settings(max_examples=25)
@given(values=arrays(np.float64, (5, 3), elements=st.floats(1e-3, 1e6)))
def test_json_brings_back_the_very_same_numbers(kind, values):
    scaler = kind.fit(values, np.arange(4))
    read = read_value(kind, json.loads(json.dumps(to_document(scaler))), "")
    assert read == scaler
    np.testing.assert_array_equal(read.transform(values), scaler.transform(values))


@pytest.mark.parametrize("kind", [TargetScaler, DescriptorScaler, ColumnScaler])
def test_other_rows_do_not_count(kind):
    values = np.random.default_rng(0).random((20, 3))
    changed = values.copy()
    changed[10:] = 1e9
    assert kind.fit(values, np.arange(10)) == kind.fit(changed, np.arange(10))
    assert kind.fit(values, np.arange(10)) != kind.fit(values, np.arange(20))
