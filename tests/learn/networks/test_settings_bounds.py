"""No size is so large that a network is built until memory ends; none is refused for heads that no layer has."""

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


@pytest.mark.parametrize(
    ("settings", "with_heads", "without"),
    [
        (PropertySettings, {"attention", "gat", "gcn", "gin", "edge_attention", "mat"}, {"dmpnn"}),
        (NodeSettings, {"attention", "gat", "gatv2"}, {"gcn", "sage", "gin", "hop_attention"}),
        (ForecastSettings, {"gaan_gru"}, {"gru"}),
    ],
)
def test_heads_divide_the_size_of_layers_that_have_heads(settings, with_heads, without):
    """The readout of molecules has them too, but after layers over edges."""
    for name in without:
        assert settings(model=name, model_dim=30).model_dim == 30
    for name in with_heads:
        with pytest.raises(SettingError, match=r"--model-dim \(30\) must be a multiple of --num-heads"):
            settings(model=name, model_dim=30)
