"""Explanations made by hand, for pages and pictures: a text, two molecules of one row, graphs small and large."""

import re

import numpy as np

from edgewise.explain.explanation import (
    Attribution,
    Curve,
    Explanation,
    Faithfulness,
    Layer,
    Link,
    Part,
    Removal,
    TargetPrediction,
    Unit,
)

SENTENCE = "The film is long 🎬, yet its quiet ending moved everyone who stayed."
ATOM = re.compile(r"\[[^\]]*\]|Br|Cl|[BCNOSPFIbcnosp]")
IONS = {"cation": "CCCCn1cc[n+](C)c1", "anion": "F[B-](F)(F)F"}


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def dense_layer(name, num_units, num_heads, random, sharp=3.0):
    """Everyone attends to everyone; near ones more in the first head."""
    places = np.arange(num_units)
    near = -np.abs(places[:, None] - places[None])
    scores = sharp * random.normal(size=(num_heads, num_units, num_units))
    scores[0] += 2 * near
    receivers, senders = np.divmod(np.arange(num_units**2), num_units)
    return Layer(name, senders, receivers, softmax(scores).reshape(num_heads, -1))


def readout(num_units, random):
    weights = softmax(2 * random.normal(size=(1, num_units)))
    return Layer("readout", np.arange(num_units), np.zeros(num_units, dtype=np.int64), weights, is_readout=True)


def removal(method, end=0.2, speed=4.0):
    shares = np.linspace(0, 1, 9)
    fall = np.exp(-speed * shares)
    deletion = end + (0.9 - end) * (fall - fall[-1]) / (1 - fall[-1])
    insertion = end + (0.9 - end) * (1 - (fall - fall[-1]) / (1 - fall[-1]))
    return Removal(method, shares, deletion, insertion, float(0.5 - 1 / speed))


def faithfulness():
    removals = (removal("attention", speed=2.5), removal("occlusion", speed=6.0), removal("random", speed=2.0))
    return Faithfulness(removals, {"attention": 0.31, "occlusion": 1.0, "rollout": float("nan")})


def words_of(text, source="text"):
    return tuple(Unit(m.group(), source, m.start(), m.end()) for m in re.finditer(r"\w+|[^\w\s]", text))


def text_case(text=SENTENCE, title="The film is long", seed=0):
    random = np.random.default_rng(seed)
    units = words_of(text)
    occlusion = random.normal(size=len(units)) * 0.1
    return Explanation(
        kind="text",
        title=title,
        sources={"text": text},
        predictions=(TargetPrediction("mood", 1.0, "good", probabilities={"good": 0.9, "bad": 0.07, "mixed": 0.03}),),
        explained="mood = good",
        units=units,
        layers=(
            dense_layer("layer 1", len(units), 4, random),
            dense_layer("layer 2", len(units), 4, random),
            readout(len(units), random),
        ),
        attributions=(
            Attribution("occlusion", occlusion, about="The probability less the probability without the word."),
            Attribution("attention", softmax(random.normal(size=len(units))), False, "How much the readout attends."),
        ),
        parts=(
            Part("The film is long", "sentence", (0, 1, 2, 3), -0.12),
            Part("yet its quiet ending moved everyone", "sentence", tuple(range(5, min(12, len(units)))), 0.41),
        ),
        faithfulness=faithfulness(),
        notes=("One run of one model.",),
    )


def translation_case(source="A red dog runs in the snow.", predicted="Ein roter Hund läuft im Schnee.", seed=4):
    """Two texts: the words of one, the words of the other behind them, and layers within and across."""
    random = np.random.default_rng(seed)
    read, written = words_of(source, "source"), words_of(predicted, "translation")
    size, steps = len(read), len(written)
    receivers, senders = np.divmod(np.arange(steps * size), size)
    cross = Layer("cross 1", senders, receivers + size, softmax(random.normal(size=(2, steps, size))).reshape(2, -1))
    later, earlier = np.tril_indices(steps, -1)
    decoder = Layer("decoder 1", earlier + size, later + size, random.random((2, len(later))))
    values = np.concatenate([random.normal(size=size), np.full(steps, np.nan)])
    return Explanation(
        kind="text",
        title=source,
        sources={"source": source, "translation": predicted},
        predictions=(TargetPrediction("translation", -0.4, predicted), TargetPrediction("mean ln p", -0.4)),
        explained="mean ln p of the translation",
        units=(*read, *written),
        layers=(dense_layer("encoder 1", size, 2, random), decoder, cross),
        attributions=(
            Attribution("occlusion", values, about="Without the word."),
            Attribution("attention", np.abs(values), False, "Where it looked."),
        ),
        faithfulness=faithfulness(),
    )


def molecule_case(seed=1):
    """A cation and an anion with a temperature and a pressure."""
    random = np.random.default_rng(seed)
    units, links = [], []
    for source, smiles in IONS.items():
        units += [Unit(m.group().strip("[]+-").upper()[:1], source, m.start(), m.end()) for m in ATOM.finditer(smiles)]
    bonds = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (7, 9), (9, 4)]
    bonds += [(10, 11), (11, 12), (11, 13), (11, 14)]
    links = [Link(first, second, float(random.normal())) for first, second in bonds]
    senders, receivers = np.array(bonds + [pair[::-1] for pair in bonds]).T
    layers = tuple(
        Layer(f"layer {number}", senders, receivers, random.random((2, len(senders))) ** 2) for number in (1, 2, 3)
    )
    temperatures, pressures = np.linspace(280, 340, 7), np.array([0.1, 1.0, 5.0, 10.0])
    return Explanation(
        kind="molecule",
        title=".".join(IONS.values()),
        sources=dict(IONS),
        predictions=(TargetPrediction("solubility", 0.337, std=0.021, low=0.29, high=0.384),),
        explained="solubility",
        units=tuple(units),
        links=tuple(links),
        layers=(*layers, readout(len(units), random)),
        attributions=(
            Attribution(
                "occlusion", random.normal(size=len(units)), about="The solubility less that without the atom."
            ),
            Attribution("attention", softmax(random.normal(size=len(units))), False, "The readout's weight."),
        ),
        parts=(
            Part("imidazolium", "ring", (4, 5, 6, 7, 9), 0.09),
            Part("butyl", "BRICS", (0, 1, 2, 3), 0.14),
            Part("anion", "component", (10, 11, 12, 13, 14), -0.2),
        ),
        curves=(
            Curve("temperature (K)", temperatures, 0.9 - 0.0018 * temperatures, 310.0),
            Curve("pressure (MPa)", pressures, 0.1 + 0.08 * np.log1p(pressures), 2.0),
        ),
        faithfulness=faithfulness(),
    )


def graph_case(num_nodes=34, seed=2):
    """A node and its neighborhood: a tree of short ways with some edges across."""
    random = np.random.default_rng(seed)
    width = 8 if num_nodes < 200 else 70
    ends = {(max(0, int((node - 1) / width)) if node > width else 0, node) for node in range(1, num_nodes)}
    across = random.integers(1, num_nodes, size=(num_nodes // 2, 2))
    ends |= {(int(min(pair)), int(max(pair))) for pair in across if pair[0] != pair[1]}
    pairs = sorted(ends)
    senders, receivers = np.array(pairs + [(b, a) for a, b in pairs] + [(n, n) for n in range(num_nodes)]).T
    layers = []
    for number in (1, 2):
        values = random.random((4, len(senders))) ** 3
        totals = np.stack([np.bincount(receivers, head, num_nodes) for head in values])
        layers.append(Layer(f"layer {number}", senders, receivers, values / totals[:, receivers]))
    effects = random.normal(size=num_nodes) / (1 + np.arange(num_nodes))
    return Explanation(
        kind="graph",
        title="paper 7",
        sources={},
        predictions=(
            TargetPrediction("topic", 2.0, "theory", probabilities={"theory": 0.81, "networks": 0.12, "rules": 0.07}),
        ),
        explained="topic = theory",
        units=tuple(Unit(f"paper {number}") for number in range(num_nodes)),
        links=tuple(Link(first, second) for first, second in pairs),
        layers=tuple(layers),
        attributions=(
            Attribution("occlusion", effects, about="The probability less the probability without the node."),
            Attribution("rollout", softmax(3 * random.random(num_nodes)), False, "Weights multiplied through layers."),
        ),
        faithfulness=faithfulness(),
        center=0,
    )


def long_text_case(num_tokens=4096, top=8, num_layers=4, num_heads=4, seed=3):
    """A text of many tokens of which the strongest weights are kept."""
    random = np.random.default_rng(seed)
    vocabulary = [
        "attention",
        "is",
        "a",
        "weighted",
        "mean",
        "over",
        "what",
        "one",
        "may",
        "see",
        "and",
        "nothing",
        "more",
    ]
    words = [vocabulary[number] for number in random.integers(0, len(vocabulary), num_tokens)]
    text = " ".join(words)
    units = words_of(text)
    receivers = np.repeat(np.arange(num_tokens), top * num_heads)
    layers = []
    for number in range(num_layers):
        reach = random.geometric(0.02, size=(num_tokens, top * num_heads))
        senders = np.maximum(0, np.arange(num_tokens)[:, None] - reach).reshape(-1)
        values = np.zeros((num_heads, len(senders)))
        own = np.tile(np.repeat(np.arange(num_heads), top), num_tokens)
        values[own, np.arange(len(senders))] = random.random(len(senders)) ** 2 / 2
        layers.append(Layer(f"layer {number + 1}", senders, receivers, values, top=top))
    return Explanation(
        kind="text",
        title=text[:40],
        sources={"text": text},
        predictions=(TargetPrediction("score", 0.42, std=0.1, low=0.2, high=0.6),),
        explained="score",
        units=units,
        layers=tuple(layers),
        attributions=(Attribution("gradient × input", random.normal(size=len(units)) ** 3),),
    )


HOSTILE = '<script>document.title="taken"</script><!-- </script> <img src=x onerror=alert(1)> "\'&'


def hostile_case():
    """Whatever a user may write, everywhere a user may write."""
    found = text_case(HOSTILE + " word", title=HOSTILE)
    return Explanation(
        kind="text",
        title=HOSTILE,
        sources={HOSTILE: HOSTILE + " word"},
        predictions=(TargetPrediction(HOSTILE, 0.0, HOSTILE, probabilities={HOSTILE: 1.0}),),
        explained=HOSTILE,
        units=tuple(Unit(unit.name, HOSTILE, unit.start, unit.stop) for unit in found.units),
        layers=found.layers,
        attributions=tuple(Attribution(HOSTILE, each.values, about=HOSTILE) for each in found.attributions),
        parts=(Part(HOSTILE, HOSTILE, (0, 1), 1.0),),
        curves=(Curve(HOSTILE, np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.5),),
        notes=(HOSTILE,),
    )


ALL_CASES = {"text": text_case, "translation": translation_case, "molecule": molecule_case, "graph": graph_case}
