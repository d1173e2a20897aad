"""Every page opens on what removing a unit changes, not on attention, whatever kind of data it shows."""

import pytest

from edgewise.learn.tasks.graphs.explainable import explain_graph
from edgewise.learn.tasks.links.explainable import explain_link
from edgewise.learn.tasks.nodes.task import explain_node
from explain_cases import (
    SONG,
    explain_prompt,
    explain_sentence,
    explain_text,
    graph_model,
    language_model,
    link_model,
    node_model,
    tagger,
    text_model,
)


def of_a_graph():
    trained, table, *_ = graph_model("gat")
    return explain_graph(trained, table, 0)


EXPLAINED = {
    "language": lambda: explain_prompt(language_model(), SONG[:6]),
    "tagging": lambda: explain_sentence(tagger(), "the film was great ."),
    "text": lambda: explain_text(text_model(), "the film"),
    "node": lambda: explain_node(*node_model("gat"), 3),
    "link": lambda: explain_link(link_model("gat"), 0, 1),
    "graph": of_a_graph,
}


@pytest.mark.parametrize("kind", EXPLAINED)
def test_occlusion_comes_first_and_attention_last(kind):
    found = [each.name for each in EXPLAINED[kind]().attributions]
    assert found[0] == "occlusion"
    attention = [name for name in found if name in ("attention", "rollout")]
    assert attention and found[-len(attention) :] == attention
