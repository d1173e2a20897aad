"""Stages: what a monitor sees of them; without a monitor, they do nothing."""

import pytest

from edgewise.learn.progress import Stage, counted, is_monitored, monitored, say, stage


class Recorder:
    """Notes all that it is shown."""

    def __init__(self):
        self.seen = []

    def begin(self, stage):
        self.seen.append(("begin", stage.name, stage.total))

    def end(self, stage):
        self.seen.append(("end", stage.name, stage.done))

    def say(self, line):
        self.seen.append(line)


def test_without_a_monitor_stages_only_count():
    with stage("alone") as current:
        current.done += 2
        say("nobody reads this")
    assert current == current and current.done == 2 and not is_monitored()
    assert list(counted(range(3), "three")) == [0, 1, 2]


def test_stages_nest_and_end_however_they_end():
    recorder = Recorder()
    with monitored(recorder):
        assert is_monitored()
        with stage("outer"):
            assert sum(counted([1, 2], "inner")) == 3
            say("a line")
        with pytest.raises(ValueError, match="broken"), stage("bad", 7):
            raise ValueError("broken")
    assert recorder.seen == [
        ("begin", "outer", None), ("begin", "inner", 2), ("end", "inner", 2), "a line", ("end", "outer", 0),
        ("begin", "bad", 7), ("end", "bad", 0),
    ]  # fmt: skip
    assert not is_monitored()
    assert Stage("a") != Stage("a"), "two stages of one name are two"
