"""Plans of large runs: the simulation against sums worked by hand, and the page against the committed numbers."""

import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import distributed  # noqa: E402
import plan  # noqa: E402
from plan import Machine, Stage, simulate  # noqa: E402

sys.path.remove(str(FOLDER))

RATES = {
    "sampled_edges": 10e6,
    "edges_a_seed": 100.0,
    "nodes_a_seed": 50.0,
    "trained_seeds": 1000.0,
    "weight_bytes": 4e6,
    "sent_by_weights": 2.0,
    "bytes_an_edge": 8.0,
    "bytes_a_node": 16.0,
    "molecules": 500.0,
    "bytes_a_molecule": 100.0,
}


def test_the_slowest_stage_sets_the_pace():
    flow = simulate([Stage("first", 1.0, 2), Stage("second", 0.8), Stage("third", 0.1)], 1000)
    assert flow.bottleneck == "second"
    assert flow.batches_a_second == pytest.approx(1 / 0.8, rel=5e-3)
    assert flow.busy == pytest.approx({"first": 0.625, "second": 1.0, "third": 0.125}, rel=5e-3)


def test_batches_by_hand():
    """Two servers, then one: they end at 1 and 1, then at 3 and 5; the third begins at 1 and ends at 7."""
    flow = simulate([Stage("first", 1.0, 2), Stage("second", 2.0)], 3)
    assert flow.batches_a_second == 3 / 7
    assert flow.busy == {"first": 3 * 1.0 / 2 / 7, "second": 6 / 7}


def test_a_full_queue_stops_the_stage_before():
    """Without room the first stage holds a batch until the second takes it, which costs nothing in the end."""
    stages = [Stage("first", 1.0), Stage("second", 3.0)]
    assert simulate(stages, 100, room=1).batches_a_second == pytest.approx(100 / 301)
    blocked = simulate([Stage("a", 1.0), Stage("b", 1.0), Stage("c", 3.0)], 100, room=1)
    assert blocked.batches_a_second == pytest.approx(100 / 302)


def test_more_machines_exchange_and_less_memory_reads():
    machine = Machine(cores=4, network=8.0, latency=0.0, disk_reads=1000.0)
    assert plan.exchange_seconds(machine, 1, 4e6, 2.0) == 0
    assert plan.exchange_seconds(machine, 2, 4e6, 2.0) == pytest.approx(2 * 4e6 / 1e9)
    assert plan.exchange_seconds(machine, 4, 4e6, 2.0) == pytest.approx(3 * 4e6 / 1e9)

    def times(in_memory):
        how = {"sampling": 1, "batch_size": 10, "feature_bytes": 256, "in_memory": in_memory}
        return {each.name: each.seconds for each in plan.graph_stages(RATES, machine, 2, **how)}

    assert times(True) == pytest.approx(
        {
            "sampling": 1e-4,
            "reads of the store": 0.0,
            "training steps": 10 / 1000 / 3,
            "exchange of gradients": 0.008,
        }
    )
    assert times(False)["reads of the store"] == pytest.approx(2 * 500 / 1000)


def test_plans_of_known_rates():
    text = plan.page(RATES)
    lines = text.splitlines()
    assert "The store has 100 GiB: 75 of edges (8.0 bytes each), 25 of nodes" in text
    assert "with 64 GiB of memory it is read from the disk" in text
    assert "it is kept in memory" in plan.page(RATES, Machine(memory=256))
    hours = 1e9 / 500 / 16 / 3600
    found = [line for line in lines if line.startswith(f"| 1 | {hours:,.3g} | {hours:,.3g} | predictions | 100% |")]
    assert len(found) == 1
    [first] = [line for line in lines if line.startswith("| 1 |") and "| 7 |" not in line and "reads" in line]
    assert "reads of the store | 100%" in first


def test_what_is_not_measured_is_named():
    known = {name: value for name, value in RATES.items() if name not in ("molecules", "bytes_an_edge")}
    text = plan.page(known)
    assert "| molecules predicted, one thread | not measured yet | `make bench-distributed` |" in text
    assert (
        "**Scoring a billion molecules.** Not planned yet: molecules predicted, one thread will come from "
        "`make bench-distributed`." in text
    )
    assert "Not planned yet: bytes of the store an edge will come from `make bench-large`." in text


def test_rates_are_found_in_the_files(tmp_path):
    rounds = {"power law, 10 nodes": {"rates": {"edgewise, 1 thread": [3.0, 1.0, 2.0]}}}
    (tmp_path / "sampling.json").write_text(json.dumps({"machine": {}, **rounds}))
    (tmp_path / "distributed.json").write_text(
        json.dumps({"core": {"predicted molecules": {"molecules_a_second": None, "bytes_a_molecule": 50}}})
    )
    # 8 bytes an edge, 16 a node, and 20 of features.
    records = [
        {"num_nodes": n, "num_edges": e, "bytes": {"store": 8 * e + 16 * n + 20, "features": 20}}
        for n, e in ((10, 100), (30, 50))
    ]
    stores = tmp_path / "large_graph.json"
    stores.write_text(json.dumps(records[:1]))
    assert plan.measured(tmp_path, stores) == {"sampled_edges": 2.0, "bytes_a_molecule": 50.0}
    stores.write_text(json.dumps(records))
    assert plan.measured(tmp_path, stores) == {
        "bytes_an_edge": 8.0,
        "bytes_a_node": 16.0,
        "sampled_edges": 2.0,
        "bytes_a_molecule": 50.0,
    }


@pytest.mark.parametrize("script", [plan, distributed], ids=lambda script: script.__name__)
def test_the_page_is_that_of_the_committed_numbers(script):
    docs = Path(__file__).parents[1] / "docs"
    shown = (docs / "scaling.md").read_text().split(script.BEGIN)[1].split(script.END)[0].strip()
    if script is plan:
        assert shown == plan.page(plan.measured()).strip()
    else:
        assert shown == distributed.table(json.loads((docs / "results/distributed.json").read_text())).strip()


def test_the_kernel_counts_what_a_socket_sends():
    import socket
    import time

    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        other, _ = server.accept()
        with other:
            before = distributed.bytes_sent()
            client.sendall(b"x" * 12_345)
            left = 12_345
            while left:
                left -= len(other.recv(left))
            for _ in range(200):  # the last acknowledgment is on its way
                if (sent := distributed.bytes_sent() - before) == 12_345:
                    break
                time.sleep(0.01)
            assert sent == 12_345
