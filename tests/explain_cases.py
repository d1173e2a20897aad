"""Models that were never trained, with weights large enough to tell inputs apart: what explanations are tried on."""

from dataclasses import replace

import numpy as np
import torch

from edgewise.learn.fitted import Fitted
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.intervals import Intervals
from edgewise.learn.networks.language import NextTokenModel
from edgewise.learn.networks.text_settings import ReaderSettings, TextSettings, TransformerSettings
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.graphs import GraphRow, graphs_from_arrays
from edgewise.learn.readers.graphs.link_graph import LinkGraph
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.readers.graphs.nodes import nodes_from_arrays
from edgewise.learn.readers.texts.data import texts_from_arrays
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tables.split import Splits
from edgewise.learn.tasks.graphs.task import TABLE as GRAPHS
from edgewise.learn.tasks.language.explainable import EXPLAINABLE as PROMPTS
from edgewise.learn.tasks.language.task import from_network
from edgewise.learn.tasks.links.task import untrained as untrained_on_links
from edgewise.learn.tasks.nodes.task import TABLE as NODES
from edgewise.learn.tasks.registry import settings_of
from edgewise.learn.tasks.tagging.explainable import EXPLAINABLE as SENTENCES
from edgewise.learn.tasks.tagging.task import TaggingEncoder, Tags
from edgewise.learn.tasks.targets import targets_of
from edgewise.learn.tasks.text_encoder import TextEncoder
from edgewise.learn.tasks.texts.task import EXPLAINABLE as TEXTS
from edgewise.learn.tasks.translation.explainable import EXPLAINABLE as TRANSLATIONS

USUAL = {"target": None, "label": None, "top": None}


def explain_prompt(trained, prompt, **options):
    return PROMPTS.of(trained).explain((prompt,), **USUAL | options)


def explain_sentence(trained, sentence, **options):
    return SENTENCES.of(trained).explain((sentence,), **USUAL | options)


def explain_text(trained, texts, **options):
    return TEXTS.of(trained).explain(TEXTS.row(texts), **USUAL | options)


def explain_translation(trained, text, **options):
    return TRANSLATIONS.of(trained).explain((text,), **USUAL | options)


SONG = "the cat sat on the mat,\nand the dog sat."
TAGS = ("B-LOC", "B-PER", "I-PER", "O")
WORDS = ["the", "film", "was", "great", "awful", "a", "plot", ".", "!"]


def loud(trained, members, seed=0):
    """Members whose weights are drawn large."""
    torch.manual_seed(seed)
    trained.members += [aloud(trained.new_member()) for _ in range(members)]
    return trained


def aloud(model):
    """A model whose weights are drawn large."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter.copy_(torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)
    return model.eval()


def language_model(kind="characters", *, has_end=False, learned=SONG, **settings):
    """A model of the next token over the tokens of a song."""
    tokenizer = Tokenizer.fit([learned], kind, 300)
    sizes = {"num_layers": 2, "num_heads": 2, "model_dim": 16, "hidden_dim": 16, "context": 24} | settings
    torch.manual_seed(3)
    model = aloud(NextTokenModel(len(tokenizer), TransformerSettings(**sizes)))
    return from_network(tokenizer, model, has_end=has_end)


def tagger(kind="words", *, encoder="transformer", tags=TAGS, usual="O", context=64):
    """A tagger over `WORDS`."""
    tokenizer = Tokenizer.fit([" ".join(WORDS)], kind, 270)
    settings = TransformerSettings(2, 2, model_dim=16, hidden_dim=16, context=context)
    torch.manual_seed(4)
    encoded, output = TaggingEncoder(tokenizer, kind, ReaderSettings(encoder=encoder), settings), Tags(tags, usual)
    model = aloud(encoded.new_network(output))
    return Fitted(format=settings_of("tagging").format, encoder=encoded, output=output, members=[model])


def text_model(
    *, task="classification", columns=1, members=1, encoder="transformer", readout="attention", context=64, **sizes
):
    """An ensemble over texts of `WORDS`."""
    rows = [[" ".join(WORDS)] * columns, [" ".join(WORDS[:4])] * columns, [" ".join(WORDS[4:])] * columns]
    targets = [0.5, 1.5, 4.0] if task == "regression" else ["bad", "good", "bad" if task == "classification" else "so"]
    texts = np.array(rows, dtype=object)
    table = texts_from_arrays(texts if columns > 1 else texts[:, 0], targets, task_type=task)
    sizes = {"num_layers": 2, "num_heads": 2, "model_dim": 16, "hidden_dim": 16} | sizes
    settings = TransformerSettings(**sizes, context=context, num_segments=max(columns, 1))
    tokenizer = Tokenizer.fit([" ".join(WORDS)], "words")
    reader = TextSettings(encoder=encoder, readout=readout)
    output = targets_of(table.rows, np.arange(3), table.rows.columns)
    encoded = TextEncoder(tokenizer, "words", len(tokenizer), reader, settings)
    trained = FittedTable(
        format=settings_of("texts").format,
        encoder=encoded,
        output=output,
        intervals=Intervals(np.zeros((0, len(output.names)))),
    )
    return loud(trained, members)


def node_model(model="gcn", *, task="multiclass", members=1, num_nodes=40, sparse=False, edge_features=0, **settings):
    """A graph of few edges, and an ensemble over its nodes."""
    random = np.random.default_rng(1)
    senders = random.integers(0, num_nodes, num_nodes)
    receivers = (senders + random.integers(1, num_nodes, num_nodes)) % num_nodes
    dim = 80 if sparse else 5
    features = random.normal(size=(num_nodes, dim)) + 0.1
    features *= random.random((num_nodes, dim)) < (0.1 if sparse else 1)
    features = np.abs(features) if sparse else features
    known = random.normal(size=(2 * num_nodes, edge_features)).astype(np.float32)
    edges = EdgeList(np.r_[senders, receivers], np.r_[receivers, senders], known)
    targets = random.normal(size=num_nodes) if task == "regression" else [str(n % 3) for n in range(num_nodes)]
    table = nodes_from_arrays(NodeFeatures.of(features), edges, targets, task_type=task)
    settings = {"model": model, "model_dim": 8, **settings}
    if model in ("gat", "gatv2", "attention"):
        settings.setdefault("num_heads", 2)
    job = settings_of("nodes").of({**settings, "data": ("the nodes",), "task_type": task})
    everything = np.arange(num_nodes)
    trained = NODES.untrained(job, table, Splits(everything, everything[:0], everything[:0]))
    return loud(trained, members), table


def link_model(model="gcn", *, directed=False, known=True, edge_features=0, **settings):
    """A graph of few edges, some of them twice, and a model of its links."""
    random, num_nodes = np.random.default_rng(2), 30
    senders = random.integers(0, num_nodes, 40)
    receivers = (senders + random.integers(1, num_nodes, 40)) % num_nodes
    senders, receivers = np.r_[senders, senders[:3]], np.r_[receivers, receivers[:3]]
    edges = EdgeList(senders, receivers, random.normal(size=(43, edge_features)).astype(np.float32))
    features = NodeFeatures.of(random.normal(size=(num_nodes, 5 if known else 0)) + 0.1)
    names = tuple(f"n{node}" for node in range(num_nodes))
    graph = LinkGraph("the graph", names, features, edges if directed else edges.both_ways(num_nodes))
    settings = {"model": model, "model_dim": 8, "directed": directed, **settings}
    if model in ("gat", "gatv2", "attention"):
        settings.setdefault("num_heads", 2)
    trained = untrained_on_links(settings_of("links").of({**settings, "data": ("the nodes",)}), graph)
    torch.manual_seed(0)
    trained.members.append(trained.new_member())
    decoder = aloud(trained.model).decoder
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(0.3)  # else some probabilities are 0 and 1, and nothing changes them
    return trained


def some_graphs(num_graphs=6, *, edge_features=0, seed=3):
    """Graphs of 1, 2, … nodes, some edges of which repeat, none a loop."""
    random, graphs = np.random.default_rng(seed), []
    for num_nodes in range(1, num_graphs + 1):
        senders = np.repeat(np.arange(num_nodes), 2)[: 2 * num_nodes if num_nodes > 1 else 0]
        receivers = (senders + random.integers(1, max(num_nodes, 2), len(senders))) % num_nodes
        known = random.normal(size=(2 * len(senders), edge_features)).astype(np.float32)
        edges = EdgeList(np.r_[senders, receivers], np.r_[receivers, senders], known)
        graphs.append(GraphRow(random.normal(size=(num_nodes, 4)).astype(np.float32), edges))
    return graphs


def some_trees():
    """Trees of 2, 3, … nodes, whose edges lead to node 1; in the last, node 6 has two ways there."""
    random, graphs = np.random.default_rng(4), []
    senders, receivers = np.array([0, 2, 3, 4, 5, 6, 6]), np.array([1, 1, 0, 0, 2, 3, 5])
    for num_nodes in range(2, 8):
        own = (senders < num_nodes) & (receivers < num_nodes)
        edges = EdgeList(senders[own], receivers[own], np.zeros((own.sum(), 0), np.float32))
        graphs.append(GraphRow(random.normal(size=(num_nodes, 4)).astype(np.float32), edges))
    return graphs


def graph_model(
    model="attention",
    *,
    readout="attention_sum",
    task="regression",
    members=1,
    edge_features=0,
    graphs=None,
    **more,
):
    """An ensemble over many graphs, and these graphs."""
    graphs = some_graphs(edge_features=edge_features) if graphs is None else graphs
    targets = np.arange(len(graphs)) / 7 if task == "regression" else [str(n % 3) for n in range(len(graphs))]
    settings = {"model": model, "readout": readout, "model_dim": 8, "head_dim": 8, "num_variants": 2, **more}
    if model in ("gat", "gatv2", "attention") or readout in ("attention", "attention_sum", "root"):
        settings.setdefault("num_heads", 2)
    job = settings_of("graphs").of({**settings, "data": ("the graphs",), "task_type": task})
    table = graphs_from_arrays(graphs, targets, task_type=task, need_roots=readout == "root")
    everything = np.arange(len(graphs))
    splits = Splits(everything, everything[:0], everything[:0])
    trained = GRAPHS.untrained(replace(job, columns=table.rows.columns), table, splits)
    return loud(trained, members), table, graphs
