"""Times of a DataFrame: rows are sorted by them, gaps and repeats are refused or filled, and predictions have them."""

import numpy as np
import pandas as pd
import pytest

from edgewise import DataError, SettingError
from edgewise.learn.estimators import Forecaster
from edgewise.learn.readers.graphs.clock import in_time

SMALL = {
    "model": "gru",
    "horizon": 3,
    "context": 4,
    "epochs": 1,
    "split_sizes": (0.6, 0.2, 0.2),
    "model_dim": 8,
    "random_state": 0,
}
HOURS = pd.date_range("2024-03-30 12:00", periods=60, freq="h", name="when")
VALUES = np.stack([np.sin(np.arange(60.0) / 3), np.cos(np.arange(60.0) / 3)], axis=1)
TABLE = pd.DataFrame(VALUES, columns=["a", "b"], index=HOURS)


@pytest.fixture(scope="module")
def fitted():
    return Forecaster(**SMALL).fit(TABLE)


def test_predictions_have_the_times_behind_the_last(fitted):
    found, plain = fitted.predict(TABLE), Forecaster(**SMALL).fit(VALUES).predict(VALUES)
    assert found.index.equals(pd.date_range("2024-04-02 00:00", periods=3, freq="h", name="when"))
    assert found.index.name == "when" and list(found.columns) == ["a", "b"]
    np.testing.assert_allclose(found.to_numpy(), plain, atol=1e-6)
    zoned = fitted.predict(TABLE.tz_localize("UTC").tz_convert("Europe/Berlin"))  # the clocks go forward in between
    assert zoned.index[0] == pd.Timestamp("2024-04-02 02:00", tz="Europe/Berlin")
    assert len(fitted.predict(TABLE.tz_localize(None).set_index(HOURS.as_unit("ms"))).index) == 3


def test_rows_out_of_order_are_sorted_and_said(fitted):
    turned = TABLE.iloc[::-1]
    with pytest.warns(UserWarning, match="predict: 60 rows were out of order and sorted by time"):
        found = fitted.predict(turned)
    pd.testing.assert_frame_equal(found, fitted.predict(TABLE))
    with pytest.warns(UserWarning, match="fit: 60 rows were out of order and sorted by time"):
        again = Forecaster(**SMALL).fit(turned)
    pd.testing.assert_frame_equal(again.predict(TABLE), found)


@pytest.mark.parametrize(
    ("index", "step"),
    [
        (pd.date_range("2024-01-01", periods=60, freq="D"), "1 day"),
        (pd.date_range("2024-01-01", periods=60, freq="MS"), "1 month"),
        (pd.date_range("2024-01-01", periods=60, freq="90min"), "01:30:00"),
    ],
)
def test_another_step_of_time_than_that_of_the_training_is_said(fitted, index, step, tmp_path):
    """Hours were learned and days predicted without a word."""
    fitted.save(tmp_path / "run")
    for model in (fitted, Forecaster.load(tmp_path / "run")):
        with pytest.warns(UserWarning, match=f"predict: a step is {step}, but was 01:00:00 in the training."):
            model.predict(TABLE.set_index(index), **({} if model is fitted else {"edges": np.zeros((2, 0), int)}))


def test_gaps_and_repeats_are_refused_or_filled_and_said():
    lacking = TABLE.drop(HOURS[[20, 21]])
    with pytest.raises(DataError, match=r"2 steps are missing, the first after '2024-03-31 07:00:00'.* gaps"):
        Forecaster(**SMALL).fit(lacking)
    with pytest.warns(UserWarning, match="fit: 2 steps are missing, .*: interpolated"):
        Forecaster(**SMALL, gaps="interpolate").fit(lacking)
    repeated = pd.concat([TABLE, TABLE.iloc[[5]]])
    with pytest.raises(DataError, match=r"rows 5 and 60 both have the time '2024-03-30 17:00:00'"):
        Forecaster(**SMALL).fit(repeated)
    with (
        pytest.warns(UserWarning, match="1 time occurs in several rows, which are averaged"),
        pytest.warns(UserWarning, match="rows were out of order"),
    ):
        Forecaster(**SMALL, gaps="mask").fit(repeated)


def test_a_column_has_the_times(fitted, tmp_path):
    table = TABLE.reset_index()[["b", "when", "a"]]
    with pytest.raises(DataError, match="column 'when' of X holds times, not a node; pass time_column='when'"):
        Forecaster(**SMALL).fit(table)
    model = Forecaster(**SMALL, time_column="when").fit(table)
    assert model.feature_names_in_.tolist() == ["b", "a"]
    model.save(tmp_path / "run")
    for each in (model, Forecaster.load(tmp_path / "run")):
        found = each.predict(table[["a", "b", "when"]])
        assert found.index[0] == pd.Timestamp("2024-04-02 00:00") and list(found.columns) == ["b", "a"]
    np.testing.assert_allclose(model.predict(table[["b", "a"]]), found.to_numpy(), atol=1e-6)
    with pytest.raises(DataError, match="X has no column 'when' of times; its columns are b, a"):
        Forecaster(**SMALL, time_column="when").fit(table[["b", "a"]])
    with pytest.raises(SettingError, match="time_column is 'when', but X is not a DataFrame"):
        Forecaster(**SMALL, time_column="when").fit(VALUES)
    steps = Forecaster(**SMALL, time_column="step").fit(TABLE.reset_index(drop=True).assign(step=np.arange(60) * 5))
    assert steps.predict(TABLE.assign(step=np.arange(60) * 5)).index.tolist() == [300, 305, 310]


def test_scores_are_compared_by_time(fitted):
    ahead = fitted.predict(TABLE)
    noisy = ahead + np.arange(6.0).reshape(3, 2) / 10
    assert fitted.score(TABLE, noisy.iloc[::-1]) == pytest.approx(fitted.score(TABLE, noisy.to_numpy()))
    with pytest.raises(DataError, match="y lacks 2024-04-02 02:00:00, which is predicted"):
        fitted.score(TABLE, noisy.iloc[:2])


DAYS = pd.date_range("2024-01-05", periods=63)


@pytest.mark.parametrize(
    "cells",
    [
        DAYS,
        DAYS.date,
        DAYS.astype(str),
        DAYS.strftime("%d.%m.%Y"),
        DAYS.strftime("%Y%m%d").astype(int),
        pd.period_range("2024-01", periods=63, freq="M"),
        np.arange(63) * 5,
        np.arange(63) / 10,
        pd.date_range("2024-01-01", periods=63, freq="20min").strftime("%H:%M:%S"),
        pd.date_range("2024-01-01 23:00", periods=63, freq="min").strftime("%I:%M %p"),
    ],
    ids=["dates", "date", "text", "day first", "digits", "months", "numbers", "tenths", "seconds", "past midnight"],
)
@pytest.mark.filterwarnings("ignore:.* is read as 2024")
def test_scores_are_compared_by_the_time_column(cells):
    """Times of y in a column were dropped: its rows were compared in the order in which they stood."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(63, 2)), columns=["a", "b"]).assign(when=cells)
    observed, ahead = table[:60], table[60:]
    model = Forecaster(**SMALL, time_column="when").fit(observed)
    expected = model.score(observed, ahead[["a", "b"]].to_numpy())
    for y in (ahead, ahead[::-1], ahead[["when", "b", "a"]], table[::-1]):
        assert model.score(observed, y) == pytest.approx(expected)
    for y in (observed[:3], ahead[1:]):
        with pytest.raises(DataError, match=r"score: y lacks .*, which is predicted; it has .* to "):
            model.score(observed, y)
    with pytest.raises(DataError, match=r"score: y has .* in several rows; give one for each time"):
        model.score(observed, pd.concat([ahead, ahead[:1]]))


def test_scores_refuse_other_kinds_of_times(fitted):
    numbers = Forecaster(**SMALL, time_column="when").fit(TABLE.assign(when=range(60)))
    dated = TABLE[:3].assign(when=HOURS[:3])
    with pytest.raises(DataError, match="the times of y are dates, but those of X are numbers"):
        numbers.score(TABLE.assign(when=range(60)), dated)
    dates = Forecaster(**SMALL, time_column="when").fit(TABLE.assign(when=HOURS))
    with pytest.raises(DataError, match="the times of y are numbers, but those of X are dates"):
        dates.score(TABLE.assign(when=HOURS), dated.assign(when=range(3)))
    with pytest.raises(DataError, match="column 'other' of y holds times, not a node"):
        fitted.score(TABLE, dated.rename(columns={"when": "other"}).reset_index(drop=True))


@pytest.mark.parametrize("freq", ["D", "W-SAT", "MS", "ME", "h"])
def test_days_and_months_are_counted_by_the_clock_on_the_wall(freq):
    """Clocks go forward on 31 March: days behind it were predicted at one in the morning, and months that begin at
    midnight lay at no equal distances."""
    index = pd.date_range(end="2024-04-02", periods=63, freq=freq, tz="Europe/Berlin")
    table = pd.DataFrame(VALUES[np.arange(63) % 60], columns=["a", "b"], index=index)
    model = Forecaster(**SMALL).fit(table[:60])
    assert model.predict(table[:60]).index.equals(index[60:])
    in_column = Forecaster(**SMALL, time_column="when").fit(table[:60].rename_axis("when").reset_index())
    assert in_column.predict(table[:60].rename_axis("when").reset_index()).index.equals(index[60:])
    scores = [model.score(table[:60], y) for y in (table[60:].to_numpy(), table[:59:-1], table[60:].tz_convert("UTC"))]
    assert scores == pytest.approx([scores[0]] * 3)
    texts = table.set_index(pd.Index([time.isoformat() for time in index]))
    assert model.score(texts[:60], texts[:59:-1]) == pytest.approx(scores[0])


def test_times_of_the_day_have_no_date():
    """They had that of the day on which they were read: a period counted from another time on each."""
    index = pd.date_range("2024-01-01 06:00", periods=60, freq="10min").strftime("%H:%M:%S")
    table = TABLE.set_index(index)
    model = Forecaster(**SMALL, period=6).fit(table)
    assert model.predict(table).index.tolist() == ["16:00:00", "16:10:00", "16:20:00"]
    assert model.trained.encoder.origin == 6 * 3600


@pytest.mark.parametrize(
    ("cells", "following", "origin"),
    [
        (["06:00", "07:00"], "08:00", 21600),
        (["06:00:00", "06:00:30"], "06:01:00", 21600),
        (["06:00:00.5", "06:00:01.0"], "06:00:01.500000", 21600.5),
        (["10:00 AM", "11:00 AM"], "12:00 PM", 36000),
        (["10:00PM", "11:00PM"], "12:00AM", 79200),
        (["06:00Z", "07:00Z"], "08:00Z", 21600),
        (["06:00+01:00", "07:00+01:00"], "08:00+01:00", 18000),
    ],
)
def test_times_of_the_day_go_on_as_they_are_written(cells, following, origin):
    clock = in_time(cells, np.zeros((2, 1)), range(2, 4), "error", "series.csv, column 'time'").clock
    assert (clock.at(2), clock.origin) == (following, origin)


@pytest.mark.parametrize("cells", [["22:00", "23:00", "00:00", "01:00"], ["10:59 PM", "11:59 PM", "12:59 AM"]])
def test_times_of_the_day_past_midnight_are_refused(cells):
    values = np.arange(float(len(cells)))[:, None]
    with pytest.raises(DataError, match=r"the time goes back from '.*' in line \d to '.*' in line \d, past midnight"):
        in_time(cells, values, range(2, 2 + len(cells)), "error", "series.csv, column 'time'")
    timed = in_time(["21:00", "22:00", "23:00"], values[:3], range(2, 5), "error", "series.csv, column 'time'")
    assert timed.clock.at(3) == "00:00"


@pytest.mark.parametrize(
    "index",
    [
        pd.period_range("2024-01-01", periods=63, freq="D"),
        pd.Index([day.date() for day in pd.date_range("2024-01-01", periods=63)], dtype=object),
        pd.Index([day.to_pydatetime() for day in pd.date_range("2024-01-01", periods=63)], dtype=object),
        pd.Index([str(day.date()) for day in pd.date_range("2024-01-01", periods=63)]),
    ],
    ids=["periods", "dates", "datetimes", "texts"],
)
def test_an_index_of_times_in_any_form(index):
    table = pd.DataFrame(VALUES, columns=["a", "b"], index=index[:60])
    model = Forecaster(**SMALL).fit(table)
    found = model.predict(table)
    assert found.index.equals(pd.date_range("2024-03-01", periods=3))
    with pytest.warns(UserWarning, match="predict: 60 rows were out of order and sorted by time"):
        pd.testing.assert_frame_equal(model.predict(table.iloc[::-1]), found)
    with pytest.raises(DataError, match="1 step is missing, the first after '2024-01-05"):
        Forecaster(**SMALL).fit(table.drop(index[5]))
    noisy = (found + np.arange(6.0).reshape(3, 2) / 10).set_axis(index[60:])
    assert model.score(table, noisy.iloc[::-1]) == pytest.approx(model.score(table, noisy.to_numpy()))


@pytest.mark.parametrize("index", [range(60), [str(row) for row in range(60)], [f"row {row}" for row in range(60)]])
def test_an_index_that_counts_or_names_rows_is_no_time(index):
    table = pd.DataFrame(VALUES, columns=["a", "b"], index=index)
    assert isinstance(Forecaster(**SMALL).fit(table).predict(table), np.ndarray)


def test_a_period_counts_from_the_first_time_of_the_training(tmp_path):
    """It counted from the first row of each table: a table that begins at noon was read as if at midnight."""
    values = np.random.default_rng(0).normal(size=(80, 2)) + np.sin(np.arange(80) * np.pi / 12)[:, None]
    for index in (pd.date_range("2024-01-01", periods=80, freq="h"), pd.date_range("2020-01", periods=80, freq="MS")):
        table = pd.DataFrame(values, index=index, columns=["a", "b"])
        settings = {"context": 4, "horizon": 2, "model_dim": 4, "epochs": 1, "period": 12, "threads": 1}
        model = Forecaster(model="gru", **settings).fit(table, edges=np.zeros((2, 0), dtype=np.int64))
        for rows in (slice(5, None), slice(70, None)):
            pd.testing.assert_frame_equal(model.predict(table.iloc[rows]), model.predict(table))
        folder = tmp_path / index.freqstr
        model.save(folder)
        no_edges = np.zeros((2, 0), dtype=np.int64)
        again = Forecaster.load(folder).predict(table.iloc[7:], edges=no_edges)
        pd.testing.assert_frame_equal(again, model.predict(table))
    with pytest.warns(UserWarning, match="1 node has no value in the last 4 steps, 'b': the mean of the training"):
        model.predict(table.assign(b=np.nan))
