"""A model that is served in tests: it counts, refuses, fails and dawdles on demand, and notes what it was asked."""

import copy
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

from edgewise.errors import DataError, SettingError
from edgewise.explain.explanation import Attribution, Explanation, Faithfulness, Layer, TargetPrediction, Unit
from edgewise.learn.readers.molecules.limits import SlowMoleculeError

MOLECULE = [{"name": "smiles", "type": "smiles"}, {"name": "temperature / K", "type": "number"}]
TEXT = [{"name": "text", "type": "text"}]
NODE = [{"name": "id", "type": "node"}]


class StandIn:
    """Tells the length of the first text, and half the numbers beside it."""

    def __init__(self, kind="molecule", fields=MOLECULE, seconds=0.0):
        self.kind, self.fields, self.seconds = kind, fields, seconds
        self.facts = {"kind": kind, "rows": f"{kind}s", "model": "counting", "targets": ["length"], "classes": {}}
        self.batches, self.threads = [], set()
        self.gate = threading.Event()
        self.gate.set()
        self.is_quick = False
        self.has_process = False
        """Whether it is alone in a process, which may hang or end; generated texts hold every word that stands here."""

    @property
    def quick(self):
        model = copy.copy(self)
        model.is_quick = True
        return model

    def predict(self, rows):
        self.batches.append(len(rows))
        self.threads.add(threading.current_thread().name)
        self.gate.wait(20)
        time.sleep(self.seconds)
        return [self._told(row) for row in rows]

    def statuses(self, rows):
        return ["ok, but guessed" if "guess" in next(iter(row.values())) else "ok" for row in rows]

    def unread(self, row):
        (text, *_) = row.values()
        return "9 tokens, of which the model reads 8" if "endless" in text else ""

    def explain(self, row, *, target=None, label=None, top=None):
        if label is not None:
            raise SettingError("label is given, but length is a number; leave it out.")
        predicted = self._told(row)
        (text, *_) = row.values()
        units = tuple(Unit(sign, next(iter(row)), place, place + 1) for place, sign in enumerate(text[:50]))
        count = len(units)
        layer = Layer("readout", np.arange(count), np.zeros(count, int), np.full((1, count), 1 / count), True, top)
        return Explanation(
            kind=self.kind,
            title=text[:40],
            sources={next(iter(row)): text},
            predictions=predicted,
            explained=target or "length",
            units=units,
            layers=(layer,),
            attributions=(Attribution("occlusion", np.ones(count)),),
            faithfulness=Faithfulness((), {"attention": float("nan")}),
        )

    def _told(self, row):
        (text, *others) = row.values()
        numbers = [each for each in others if not isinstance(each, str)]
        if "bad" in text or not text.strip():
            raise DataError(f"{next(iter(row))}: {text[:20]!r} cannot be read.")
        if "dense" in text and self.is_quick:
            raise SlowMoleculeError(text)
        if "hang" in text and self.has_process:
            time.sleep(60)
        if "die" in text and self.has_process:
            os.kill(os.getpid(), signal.SIGKILL)
        if "boom" in text:
            raise RuntimeError("/srv/secret/model.py went wrong")
        return (TargetPrediction("length", float(len(text)), std=float("nan"), low=0.0, high=sum(numbers, 0.0) / 2),)


def molecule_row(smiles="CCO", temperature=300):
    """A row as a client sends it."""
    return {"smiles": smiles, "temperature / K": temperature}


def open_stand_in(folder, max_atoms=None, molecule_timeout=None):
    """The model of a "folder", which is how many seconds it takes; also in a process that a server starts."""
    model = StandIn(seconds=float(folder))
    model.has_process = True
    return model


SERVED = """
import sys, types
from stand_in import open_stand_in
explaining = types.ModuleType("edgewise.learn.tasks.explainer")
explaining.Explainer = types.SimpleNamespace(open=open_stand_in)
sys.modules["edgewise.learn.tasks.explainer"] = explaining
from edgewise.cli.main import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""


def command_of(*words):
    """Starts `edgewise serve` over a stand-in."""
    return [sys.executable, "-W", "error", "-c", SERVED, *map(str, words)]


def environment(**more):
    """In which the stand-in is found."""
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return {**os.environ, "PYTHONPATH": paths, **more}
