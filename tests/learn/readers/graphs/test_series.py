"""Series on a graph: what is read, which stretches are learned from, what is refused."""

import numpy as np
import pandas as pd
import pytest

from edgewise import Forecaster
from edgewise.errors import DataError, SettingError
from edgewise.learn.networks.time_settings import ForecastSettings
from edgewise.learn.readers.graphs.series import forward_filled, read_series, split_series
from edgewise.learn.tasks.forecast.model import SeriesEncoder, SeriesValues


def series_of(tmp_path, rows, header="hour,a,b,c", edges="from,to\na,b\n", time_column="hour", **options):
    (tmp_path / "series.csv").write_text("\n".join([header, *rows]) + "\n")
    (tmp_path / "edges.csv").write_text(edges)
    given = {"edge_columns": (), "is_directed": False, **options}
    return read_series(str(tmp_path / "series.csv"), str(tmp_path / "edges.csv"), time_column=time_column, **given)


def test_a_series_by_hand(tmp_path):
    series = series_of(tmp_path, ["8:00,1,2,3", "8:05,4,,6", "8:10,7,8,nan"])
    assert series.names == ("a", "b", "c")
    assert series.times == ("8:00", "8:05", "8:10")
    np.testing.assert_array_equal(series.values, [[1, 2, 3], [4, np.nan, 6], [7, 8, np.nan]])
    assert series.num_missing == 2
    assert (series.edges.senders.tolist(), series.edges.receivers.tolist()) == ([0, 1], [1, 0])
    assert series.edges.num_isolated(3) == 1
    one_way = series_of(tmp_path, ["8:00,1,2,3"], is_directed=True, edge_columns=("to", "from"))
    assert (one_way.edges.senders.tolist(), one_way.edges.receivers.tolist()) == ([1], [0])
    numbered = series_of(tmp_path, ["1,2", "3,4"], "a,b", time_column=None)
    assert numbered.times == ("0", "1")


DAYS = ["2024-02-27,1,1,1", "2024-02-28,2,2,2", "2024-03-01,4,,8"]


@pytest.mark.parametrize(
    ("rows", "gaps", "message"),
    [
        (
            DAYS,
            "error",
            r"column 'hour': 1 step is missing, the first after '2024-02-28'; add them, or .* --gaps mask",
        ),
        (["1,1,1,1", "2,1,1,1", "2,3,3,3"], "error", r"lines 3 and 4 both have the time '2'; .*--gaps mask"),
        (["1,1,1,1", "x,1,1,1", "3,3,3,3"], "mask", r"line 3: 'x' is not a time; expected numbers or dates"),
        (["1,1,1,1", ",1,1,1", "3,3,3,3"], "mask", r"line 3: '' is not a time"),
        (["1,1,1,1", "2,1,1,1", "3,1,1,1", "3.5,3,3,3"], "mask", r"from '3' to '3.5' it is 0.5 of the usual step"),
        (["1,1,1,1", "2,1,1,1", "1000000000000,3,3,3"], "mask", r"more than can be filled"),
    ],
)
def test_times_that_no_series_has_are_refused(tmp_path, rows, gaps, message):
    with pytest.raises(DataError, match=message):
        series_of(tmp_path, rows, gaps=gaps)


def test_times_are_sorted_filled_and_go_on(tmp_path):
    with_gap = [DAYS[2], DAYS[0], DAYS[1]]
    masked = series_of(tmp_path, with_gap, gaps="mask")
    assert masked.times == ("2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01")
    np.testing.assert_array_equal(masked.values[:, 0], [1, 2, np.nan, 4])
    assert masked.notes == (
        "3 rows were out of order and sorted by time",
        "1 step is missing, the first after '2024-02-28': masked",
    )
    assert masked.clock.at(4) == "2024-03-02"
    straight = series_of(tmp_path, with_gap, gaps="interpolate")
    np.testing.assert_array_equal(straight.values, [[1, 1, 1], [2, 2, 2], [3, 2, 5], [4, np.nan, 8]])
    twice = series_of(tmp_path, ["0.5,1,,1", "0,3,3,3", "0.5,5,,2", "1,0,0,0"], gaps="mask")
    np.testing.assert_array_equal(twice.values, [[3, 3, 3], [3, np.nan, 1.5], [0, 0, 0]])
    assert twice.clock.at(3) == "1.5"
    assert "1 time occurs in several rows, which are averaged" in twice.notes
    monthly = series_of(tmp_path, [f"2023-{month:02},1,1,1" for month in (10, 11, 12)])
    assert [monthly.clock.at(step) for step in (3, 5)] == ["2024-01", "2024-03"]
    assert series_of(tmp_path, ["08:00,1,1,1", "08:05,1,1,1"]).clock.at(2) == "08:10"
    assert series_of(tmp_path, ["7,1,1,1"]).clock is None


def test_a_gap_is_what_stood_before_it():
    gaps = np.array([[[np.nan, 1], [2, np.nan], [np.nan, np.nan], [3, 4]]], dtype=np.float32)
    np.testing.assert_array_equal(forward_filled(gaps), [[[0, 1], [2, 1], [2, 1], [3, 4]]])


def interpolated(tmp_path, later):
    """Steps 3, 7 and 8 of node a lie on straight lines, that of node b leans on step 5; from 9 on come `later`."""
    cells = {row: (10.0 * row, "" if row == 4 else 100.0 * row, 1.0) for row in range(14) if row not in (3, 7, 8)}
    cells |= {row: later for row in cells if row >= 9}
    rows = [f"{row},{a},{b},{c}" for row, (a, b, c) in cells.items()]
    return series_of(tmp_path, rows, gaps="interpolate")


def test_a_window_reads_no_line_to_a_value_behind_it(tmp_path):
    """The last values that a window read lay on a line to those that it predicts: half of the answer."""
    encoder = SeriesEncoder(ForecastSettings(context=4, horizon=2), ("a", "b", "c"))
    scale, starts = SeriesValues(mean=0.0, std=1.0), np.array([0, 2, 4, 5])
    near, far = (interpolated(tmp_path, (value, value, value)) for value in (5.0, 1e4))
    read, of_far = (
        encoder.windows(series, starts, scale, are_known=True).batch(np.arange(4)).values.numpy()
        for series in (near, far)
    )
    np.testing.assert_array_equal(read, of_far)
    np.testing.assert_array_equal(read[0, :, 0], [0, 10, 20, 20])  # steps 0 to 3
    np.testing.assert_array_equal(read[1, :, 0], [20, 30, 40, 50])  # 2 to 5: both ends of the line are read
    np.testing.assert_array_equal(read[1, :, 1], [200, 300, 300, 500])
    np.testing.assert_array_equal(read[2, :, 0], [40, 50, 60, 60])  # 4 to 7
    last = encoder.last_values(near, starts, scale)
    np.testing.assert_array_equal(last[:, 0], read[:, -1])
    np.testing.assert_array_equal(last, encoder.last_values(far, starts, scale))


def test_interpolated_values_are_neither_learned_nor_scored(tmp_path):
    """Lines that no one measured were targets, and the errors of metrics.json were about them, too."""
    encoder = SeriesEncoder(ForecastSettings(context=2, horizon=2), ("a", "b", "c"))
    series, starts = interpolated(tmp_path, (5.0, 6.0, 7.0)), np.array([1, 6])
    windows = encoder.windows(series, starts, SeriesValues(mean=0.0, std=1.0), are_known=True)
    truth = encoder.future(series, starts)
    np.testing.assert_array_equal(truth[:, :, 0], [[np.nan, 40], [np.nan, 5]])
    np.testing.assert_array_equal(windows.batch(np.arange(2)).targets.numpy().reshape(2, 2, 3), truth)
    assert SeriesValues.fit(series, 4).mean == np.mean([0, 10, 20, 0, 100, 200, 1, 1, 1])  # step 3 leans on later ones


def test_stretches_never_lie_over_a_cut(tmp_path):
    series = series_of(tmp_path, [f"{row},{row},{row},{row}" for row in range(40)])
    parts = split_series(series, 3, 2, (0.5, 0.25, 0.25))
    assert {part: (int(starts[0]), int(starts[-1])) for part, starts in parts.items()} == {
        "train": (0, 15), "val": (20, 25), "test": (30, 35)
    }  # fmt: skip
    encoder = SeriesEncoder(ForecastSettings(context=3, horizon=2, period=8), series.names)
    windows = encoder.windows(series, parts["train"], SeriesValues(mean=10.0, std=2.0), are_known=True)
    batch = windows.batch(np.array([1, 4]))
    np.testing.assert_array_equal(batch.values[0, :, 0], [(1 - 10) / 2, (2 - 10) / 2, (3 - 10) / 2])
    np.testing.assert_array_equal(batch.targets[1], np.repeat([(7 - 10) / 2, (8 - 10) / 2], 3))
    np.testing.assert_allclose(batch.phases[1], np.array([4, 5, 6, 7, 0]) / 8)
    assert encoder.future(series, parts["test"][:1])[0, :, 1].tolist() == [33, 34]
    scale = SeriesValues(mean=10.0, std=2.0)
    assert encoder.last_values(series, parts["test"][:1], scale)[0, :, 1].tolist() == [32, 32]


def test_the_baseline_reads_empty_cells_as_the_model_does(tmp_path):
    series = series_of(tmp_path, ["0,1,,1", "1,2,,1", "2,,,1", "3,4,5,1"])
    encoder = SeriesEncoder(ForecastSettings(context=3, horizon=1), series.names)
    repeated = encoder.last_values(series, np.array([0]), SeriesValues(mean=10.0, std=2.0))
    assert repeated.tolist() == [[[2, 10, 1]]]
    assert np.isnan(series.values[2, 0])


def test_scores_by_hand():
    right = np.array([[[1.0, 0.0]], [[4.0, np.nan]]])
    scores = SeriesValues(mean=0.0, std=1.0).metrics(np.array([[[2.0, 2.0]], [[2.0, 9.0]]]), right)
    assert scores == {"mae": [5 / 3], "rmse": [pytest.approx(3**0.5)], "mape": [pytest.approx((1 + 0.5) / 2)]}
    unknown = np.array([[[0.0], [np.nan]]])
    scores = SeriesValues(mean=0.0, std=1.0).metrics(np.array([[[2.0], [2.0]]]), unknown)
    assert scores == {"mae": [2.0, None], "rmse": [2.0, None], "mape": [None, None]}


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (["8:00,1,x,3"], {}, r"series.csv, line 2, column 'b': 'x' is not a number; leave the cell empty"),
        (["8:00,1,2,3"], {"time_column": "day"}, "no column 'day'"),
        (["8:00,1,2,3"], {"edges": "from,to\na,q\n"}, r"'q' is not a node of the columns of .*series.csv; none of the"),
    ],
)
def test_what_is_refused(tmp_path, rows, options, message):
    with pytest.raises(DataError, match=message):
        series_of(tmp_path, rows, **options)


def test_series_that_are_too_short(tmp_path):
    series = series_of(tmp_path, [f"{row},1,2,3" for row in range(20)])
    with pytest.raises(SettingError, match=r"has 20 steps, 2 of them for val, fewer than --context \+ --horizon = 4"):
        split_series(series, 3, 1, (0.7, 0.1, 0.2))
    assert len(split_series(series, 3, 1, (0.8, 0.0, 0.2))["val"]) == 0


def test_series_without_a_number_are_refused_before_the_training():
    with pytest.raises(DataError, match="the training steps hold no number"):
        Forecaster(context=3, horizon=1).fit(np.full((60, 2), np.nan))


def times_of(tmp_path, stamps, **options):
    return series_of(tmp_path, [f"{stamp},1,1,1" for stamp in stamps], edges="from,to\na,b\n", **options)


def test_days_and_months_stand_in_the_order_in_which_times_are_regular(tmp_path):
    """`01.02.2024` was the second of January, silently."""
    month = "the time '01.02.2024' is read as 2024-02-01"
    daily = times_of(tmp_path, [f"{day:02}.02.2024" for day in range(1, 13)])
    assert (daily.notes, daily.clock.at(12)) == ((month,), "13.02.2024")
    monthly = times_of(tmp_path, [f"01/{month:02}/2024" for month in range(2, 13)] + ["01/01/2025"])
    assert (monthly.notes, monthly.clock.at(12)) == (("the time '01/02/2024' is read as 2024-02-01",), "01/02/2025")
    american = times_of(tmp_path, [f"01/{day:02}/2024" for day in range(2, 29)])
    assert (american.notes, american.clock.at(27)) == (("the time '01/02/2024' is read as 2024-01-02",), "01/29/2024")


def test_a_name_of_a_month_is_written_as_where_it_is_not_may(tmp_path):
    """One day of a shuffled table lies in June and decides; it was among the cells that are looked at by luck."""
    stamps = [f"May {day:02} 2031" for day in range(1, 32)]
    shuffled = [*stamps[:2], "Jun 01 2031", *stamps[2:]]
    assert times_of(tmp_path, shuffled).clock.at(32) == "Jun 02 2031"
    whole = [stamp.replace("Jun", "June") for stamp in shuffled]
    assert times_of(tmp_path, whole).clock.at(32) == "June 02 2031"


def test_further_times_are_written_as_the_others(tmp_path):
    """Day-first dates: `03/05` was read as the fifth of March where the first row was ambiguous."""
    days = times_of(tmp_path, [f"{day:02}/05/1978" for day in range(21, 2, -1)])
    assert [days.clock.at(step) for step in (0, 19)] == ["03/05/1978", "22/05/1978"]
    months = times_of(tmp_path, [f"{month} 01 2024" for month in ("May", "Jun", "Jul")])
    assert months.clock.at(3) == "Aug 01 2024"


def test_dates_of_digits_alone_are_dates_where_they_are_no_regular_numbers(tmp_path):
    days = times_of(tmp_path, ["20240227", "20240228", "20240229", "20240301"])
    assert (days.clock.at(4), days.notes) == ("20240302", ("the time '20240227' is read as 2024-02-27",))
    months = times_of(tmp_path, ["202311", "202312", "202401"])
    assert months.clock.at(3) == "202402"
    assert times_of(tmp_path, ["20230227", "20230228"]).clock.at(2) == "20230301"
    assert times_of(tmp_path, ["20230227", "20230270"]).clock.unit == "number"
    assert times_of(tmp_path, ["202301", "202302", "202303"]).clock.unit == "number"


def test_ends_of_months_are_a_step_apart(tmp_path):
    ends = times_of(tmp_path, ["2024-01-31", "2024-02-29", "2024-03-31"])
    assert [ends.clock.at(step) for step in (3, 4, 13)] == ["2024-04-30", "2024-05-31", "2025-02-28"]


def test_a_time_that_is_a_little_off_does_not_shift_those_that_follow(tmp_path):
    """The step was the smallest distance times a rounded factor, 300.98 s for 300 s: an hour in a week."""
    stamps = pd.Series(pd.date_range("2024-01-01", periods=600, freq="5min"))
    stamps[100] -= pd.Timedelta(seconds=2)
    clock = times_of(tmp_path, stamps.astype(str).tolist()).clock
    assert (clock.interval.length, clock.at(600), clock.at(601)) == (300, "2024-01-03 02:00:00", "2024-01-03 02:05:00")
    numbers = [*range(0, 990, 10), 989.9]
    assert times_of(tmp_path, list(map(str, numbers))).clock.step == 10

    slow = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(400) * 60 + np.arange(400) // 4, unit="s")
    clock = times_of(tmp_path, slow.astype(str).tolist()).clock
    assert clock.at(400) == str(slow[-1] + pd.Timedelta(minutes=1)), "counted from the last time, not from the first"


@pytest.mark.parametrize(
    ("start", "step", "unit"),
    [
        ("1970-01-01", np.timedelta64(1, "h"), "m"),
        ("1970-01-01", np.timedelta64(1, "D"), "D"),
        ("1600-01-01", np.timedelta64(1, "D"), "D"),
        ("2300-01-01", np.timedelta64(1, "h"), "m"),
        ("2262-04-11", np.timedelta64(1, "D"), "D"),
        ("2024-01-01", np.timedelta64(37, "ms"), "us"),
        ("2024-01-01", np.timedelta64(37, "us"), "us"),
    ],
)
def test_dates_go_on_whenever_they_are(tmp_path, start, step, unit):
    """1970 was taken for months, other centuries lay beyond nanoseconds, and short steps lost microseconds."""
    moments = np.datetime64(start, unit) + np.arange(130) * step
    cells = [str(moment).replace("T", " ") for moment in moments]
    clock = times_of(tmp_path, cells[:120]).clock
    assert [clock.at(number) for number in range(130)] == cells


@pytest.mark.parametrize(
    "cells",
    [
        [str(1709251265123 + 7 * number) for number in range(12)],
        [str(10**15 + number) for number in range(12)],
        [str(10**17 + 1600 * number) for number in range(12)],
        [f"{1709251265 + number / 8:.3f}".rstrip("0").rstrip(".") for number in range(12)],
        [f"{1709251265 + number / 10:.1f}".removesuffix(".0") for number in range(12)],
        [f"{number / 10:.1f}".removesuffix(".0") for number in range(12)],
        [f"{number / 1000:.3f}".rstrip("0").rstrip(".") for number in range(12)],
        [str(-5 + number) for number in range(12)],
    ],
)
def test_numbers_go_on_with_all_their_digits(tmp_path, cells):
    clock = times_of(tmp_path, cells[:8]).clock
    assert [clock.at(number) for number in range(12)] == cells


def test_clocks_that_are_put_forward_have_times_in_utc(tmp_path):
    """They ended in a traceback of pandas."""
    stamps = ["2024-03-31T00:00+01:00", "2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00", "2024-03-31T04:00+02:00"]
    series = times_of(tmp_path, stamps)
    assert (series.times, series.clock.at(4)) == (tuple(stamps), "2024-03-31T03:00+00:00")
    assert times_of(tmp_path, ["2024-03-31T00:00Z", "2024-03-31T01:00Z"]).clock.at(2) == "2024-03-31T02:00Z"
    assert times_of(tmp_path, ["2024-03-31T00:00-0500", "2024-03-31T01:00-0500"]).clock.at(2) == "2024-03-31T02:00-0500"
    with pytest.raises(DataError, match=r"'1:00Z' in line 2 has a time zone, but '2:00' in line 3 has none; write all"):
        times_of(tmp_path, ["1:00Z", "2:00", "3:00"])


@pytest.mark.parametrize("freq", ["D", "W", "MS", "ME"])
def test_days_and_months_of_several_offsets_are_counted_by_the_clock_on_the_wall(tmp_path, freq):
    """Months that begin at midnight lay at no equal distances in UTC, and days went on at another time of the day."""
    index = pd.date_range("2024-03-20", periods=12, freq=freq, tz="Europe/Berlin")
    cells = [time.isoformat() for time in index]
    clock = times_of(tmp_path, cells).clock
    following = index[-1].tz_localize(None) + index.freq
    assert clock.at(12) == following.isoformat() + cells[-1][-6:], "the offset of the last"
    lacking = times_of(tmp_path, [*cells[:3], *cells[4:]], gaps="mask")
    assert len(lacking.times) == 12 and lacking.times[3][:19] == cells[3][:19]


def test_a_column_of_times_without_the_flag_is_said_to_look_like_one(tmp_path):
    with pytest.raises(DataError, match="is not a number; if these are the times: --time-column hour"):
        times_of(tmp_path, ["2024-01-01", "2024-01-02"], time_column=None)
    counted = times_of(tmp_path, [10, 15, 20, 25], time_column=None)
    assert counted.notes == ("'hour' grows by equal steps and is a node; if these are the times: --time-column hour",)
    assert times_of(tmp_path, [10, 15, 21], time_column=None).notes == ()


def test_a_node_without_a_value_is_said():
    values = np.sin(np.arange(80)[:, None] / 5 + np.arange(3))
    values[:60, 1] = np.nan
    model = Forecaster(context=3, horizon=1, model="gru", model_dim=4, epochs=1)
    with pytest.warns(UserWarning, match="fit: 1 node has no value in the training, '1': what is predicted there"):
        model.fit(values)
