"""What tests of graphs with several kinds share: authors, and papers whose class depends on what an edge means."""

import numpy as np

NUM_AUTHORS, NUM_PAPERS = 20, 160


def debate(seed=0):
    """Papers that cite some papers and oppose others, and the authors who write them.

    A paper is for something (1) where those it cites lean more that way than those it opposes. How a paper leans is
    seen; that says nothing of its own class, and nor does it say how many neighbors lean where, unless one knows which
    are opposed.

    Returns:
        The columns of the nodes, those of the edges, and the classes of the papers.
    """
    random = np.random.default_rng(seed)
    leaning = random.choice([-1.0, 1.0], NUM_PAPERS)
    senders, receivers, names, balance = [], [], [], np.zeros(NUM_PAPERS)
    for paper in range(NUM_PAPERS):
        others = random.permutation(np.delete(np.arange(NUM_PAPERS), paper))
        for name, heard, sign in (("cites", others[:3], 1), ("opposes", others[3:5], -1)):
            senders += [f"p{paper}"] * len(heard)
            receivers += [f"p{other}" for other in heard]
            names += [name] * len(heard)
            balance[paper] += sign * leaning[heard].sum()
        senders.append(f"a{random.integers(NUM_AUTHORS)}")
        receivers.append(f"p{paper}")
        names.append("writes")
    label = (balance > 0).astype(int)  # an odd number of ±1: never 0
    nodes = {
        "id": [*(f"a{author}" for author in range(NUM_AUTHORS)), *(f"p{paper}" for paper in range(NUM_PAPERS))],
        "kind": ["author"] * NUM_AUTHORS + ["paper"] * NUM_PAPERS,
        "age": [*random.integers(25, 70, NUM_AUTHORS).tolist(), *[""] * NUM_PAPERS],
        "leaning": [*[""] * NUM_AUTHORS, *leaning.tolist()],
        "label": [*[""] * NUM_AUTHORS, *label.tolist()],
    }
    return nodes, {"from": senders, "to": receivers, "relation": names}, label


def arrays_of(nodes, edges):
    """Features with NaN where a kind has none, edges both ways (2, edge), kinds of nodes, kinds of edges."""
    place = {name: row for row, name in enumerate(nodes["id"])}
    columns = [[float(cell) if cell != "" else np.nan for cell in nodes[name]] for name in ("age", "leaning")]
    there = np.array([[place[name] for name in edges[side]] for side in ("from", "to")])
    names = np.array([*edges["relation"], *(f"rev_{name}" for name in edges["relation"])])
    return np.array(columns).T, np.concatenate([there, there[::-1]], axis=1), np.array(nodes["kind"]), names
