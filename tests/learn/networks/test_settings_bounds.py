"""No size of a network is so large that it is built until memory ends."""

import dataclasses

import pytest

from edgewise.errors import SettingError
from edgewise.learn.networks.graph_settings import GraphSettings, LinkSettings, NodeSettings, PropertySettings
from edgewise.learn.networks.text_settings import RecurrentSettings, TransformerSettings
from edgewise.learn.networks.time_settings import DynamicsSettings, ForecastSettings

REACH = {"window", "local_window", "period"}
"""How far something looks, at no cost: beyond the data is everywhere."""


@pytest.mark.parametrize(
    "settings",
    [
        NodeSettings,
        GraphSettings,
        LinkSettings,
        PropertySettings,
        TransformerSettings,
        RecurrentSettings,
        DynamicsSettings,
        ForecastSettings,
    ],
)
def test_no_size_is_absurd(settings, shapes_unchecked):
    """A mistyped number is refused before anything is built."""
    sizes = [
        field.name for field in dataclasses.fields(settings) if field.type in (int, int | None, "int", "int | None")
    ]
    assert sizes or settings is LinkSettings
    for name in set(sizes) - REACH:
        with pytest.raises(SettingError, match="at most"):
            settings(**{name: 10**12})
