"""Nothing shown is not run: the code blocks of the documentation, the docstrings, the examples, the pictures."""

import doctest
import importlib
import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import edgewise

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, shapes_unchecked):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


def modules() -> list[str]:
    """Every module of the package."""
    source = Path(edgewise.__file__).parent.parent
    parts = (path.relative_to(source).with_suffix("").parts for path in (source / "edgewise").rglob("*.py"))
    return sorted(".".join(each[:-1] if each[-1] == "__init__" else each) for each in parts)


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_print_what_they_say(name, shapes_unchecked):
    torch.manual_seed(0)
    module = sys.modules.get(name) or importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_runs_and_is_short(path, monkeypatch, capsys, shapes_unchecked):
    assert len(path.read_text().splitlines()) <= 120
    if path.name != "rejected_ideas.py":  # runs below
        monkeypatch.setattr(sys, "argv", [str(path)])
        runpy.run_path(str(path), run_name="__main__")
        assert capsys.readouterr().out.strip()


def test_the_search_example_finds_the_text_hard_and_soft():
    search = runpy.run_path(str(ROOT / "examples" / "search.py"))["search"]
    text, ranking = search("finding a flower")
    assert text.startswith("A bee")
    assert ranking[0][1] == "How bees find flowers"
    assert sum(weight for weight, _ in ranking) == pytest.approx(1)


def test_of_the_rejected_ideas_only_the_graph_says_the_same_of_a_molecule_turned_or_renumbered(
    capsys, shapes_unchecked
):
    pytest.importorskip("rdkit")
    example = runpy.run_path(str(ROOT / "examples" / "rejected_ideas.py"))
    errors, changes, verdicts = found = example["compared"]()
    example["main"].__globals__["compared"] = lambda: found
    example["main"]()
    assert capsys.readouterr().out.strip()
    assert {name: verdict.kind for name, verdict in verdicts.items()} == {
        "picture": "neither",
        "table": "neither",
        "graph": "invariant",
    }
    assert all(verdicts[name].invariance.deviation > 0.1 for name in ("picture", "table"))
    assert verdicts["graph"].invariance.deviation < 1e-5
    largest = {name: float(change.max()) for name, change in changes.items()}
    assert largest.pop(("graph", "renumbered")) < 1e-5
    assert set(largest) == {
        ("picture", "renumbered"), ("picture", "turned by 30°"), ("picture", "turned by 90°"), ("table", "renumbered")
    }  # fmt: skip
    assert all(change > 0.1 for change in largest.values())
    assert all(error < 0.6 for error in errors.values())  # what has learned nothing would be wrong by 0.8


def test_the_picture_in_the_readme_is_what_the_code_draws(tmp_path):
    pytest.importorskip("matplotlib")
    subprocess.run([sys.executable, ROOT / "docs" / "picture.py", tmp_path / "drawn.svg"], check=True, timeout=120)
    drawn, kept = (tmp_path / "drawn.svg").read_text(), (ROOT / "docs/pictures/neighborhoods.svg").read_text()
    # Fonts differ between releases of matplotlib; the filled cells and the arcs do not.
    assert [drawn.count(color) for color in ("#2a7f9e", "#d08b2c")] == [kept.count(c) for c in ("#2a7f9e", "#d08b2c")]


def test_pictures_of_pages_show_what_the_library_still_says():
    phrases = runpy.run_path(str(ROOT / "docs/phrases.py"))
    current = phrases["library_phrases"]()
    pictures = sorted((ROOT / "docs/pictures").glob("*.png"))
    assert pictures
    stale = {path.name: words for path in pictures if (words := phrases["stale_phrases"](path, current))}
    assert not stale, f"{stale}: the pages have changed since; take the pictures again with `python docs/screens.py`"


def test_a_picture_with_a_phrase_that_is_gone_is_stale(tmp_path):
    phrases = runpy.run_path(str(ROOT / "docs/phrases.py"))
    current = phrases["library_phrases"]()
    kept = max(current, key=len)
    phrases["save_picture"](Image.new("L", (1, 1)), tmp_path / "page.png", f"before {kept} after")
    assert phrases["stale_phrases"](tmp_path / "page.png", current) == []
    assert kept in phrases["stale_phrases"](tmp_path / "page.png", current - {kept})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        if path.startswith("http"):
            continue
        linked = (page.parent / path) if path else page
        assert linked.exists(), f"{page.name} links to {target}"
        if anchor:
            titles = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles], target


def test_commits_that_the_results_name_are_in_the_history():
    """One that stood there never was in this history, and nobody could look up what was measured."""
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
    if shallow.stdout.strip() != "false":
        pytest.skip("this is no clone with its history")
    text = "".join(page.read_text() for page in PAGES)
    named = re.findall(r"`(?:git show )?(?=[0-9]*[a-f])([0-9a-f]{7,9})[`:]", text)
    assert named
    known = subprocess.run(
        [*git, "cat-file", "--batch-check"], input="\n".join(named), capture_output=True, text=True, check=True
    )
    assert not [line for line in known.stdout.splitlines() if " commit " not in line]


def test_the_lists_of_tasks_are_those_of_the_program():
    lists = runpy.run_path(str(ROOT / "docs/tasks.py"))
    for file in lists["LISTS"]:
        assert (ROOT / file).read_text() == lists["written"](file), f"python docs/tasks.py writes the list of {file}"


def test_the_estimators_are_as_they_would_be_written_now():
    script = runpy.run_path(str(ROOT / "docs/estimators.py"))
    assert script["FILE"].read_text() == script["source"](), "python docs/estimators.py writes the estimators"


def test_the_first_screen_says_how_to_install_try_and_test():
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for command in ("demo", "test"):
        assert command in targets and f"`make {command}`" in screen
    for words in ("pip install", "minutes", "GB"):
        assert words in screen


APART = ["README", "molecules", "texts", "nodes", "links", "graphs", "forecast", "motion", "look"]
"""Pages whose commands run on files that a test of their own makes."""
COMMANDS = [page for page in PAGES if "\n$ edgewise " in page.read_text() and page.stem not in APART]


@pytest.mark.parametrize("page", COMMANDS, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_on_the_files_that_it_writes(page, tmp_path, monkeypatch, capsys, shapes_unchecked):
    from edgewise.cli.main import main

    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)
    lines = [line for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ edgewise ")]
    for command in (shlex.split(line)[2:] for line in lines):
        passes = ["--epochs", "2"] if command[0] == "train" else []
        assert main([*command, *passes]) == 0, capsys.readouterr().err


QUICK = ["--epochs", "2", "--model-dim", "8", "--num-heads", "2", "--head-dim", "8", "--no-baselines"]
"""Added to every training command that is shown: the same flags on a small model, two passes over the rows."""


@pytest.mark.parametrize("page", ["README.md", "docs/molecules.md"])
def test_the_commands_of_a_page_run(page, tmp_path, monkeypatch, capsys, shapes_unchecked):
    from edgewise.cli.main import main
    from edgewise.learn.readers.molecules.simulate import demo_table

    monkeypatch.chdir(tmp_path)
    molecules = demo_table(60).rename(columns={"crippen_logp": "log_solubility"})
    for name in ("molecules.csv", "solubility.csv"):
        molecules.to_csv(name, index=False)
    molecules[["smiles"]].head(5).to_csv("new.csv", index=False)
    lines = [line for block in blocks(ROOT / page, "console") for line in block.splitlines()]
    commands = [shlex.split(line)[2:] for line in lines if line.startswith("$ edgewise ")]
    assert [command[0] for command in commands][:2] == ["train", "predict"]
    for command in commands:
        assert main([*command, *(QUICK if command[0] == "train" else [])]) == 0, capsys.readouterr().err
    predictions = pd.read_csv("predictions.csv")
    assert list(predictions.columns) == [
        "smiles",
        *(f"log_solubility_{part}" for part in ("pred", "std", "low", "high")),
        "similarity",
        "status",
    ]
    assert list(predictions["status"]) == ["ok"] * 5


def test_the_commands_over_texts_run(tmp_path, monkeypatch, capsys, shapes_unchecked):
    from edgewise.cli.main import main

    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 40)
    Path("letters.txt").write_text("a dog and a cat sat on a log. " * 40)
    Path("sentences.txt").write_text("the cat sat on the mat\n\nand the dog sat on the log\n" * 20)
    Path("reviews.csv").write_text("title,text\n" + "good,it is good\nbad,it is not good\n" * 20)
    lines = [line for block in blocks(ROOT / "docs/texts.md", "console") for line in block.splitlines()]
    commands = [shlex.split(line)[2:] for line in lines]
    verbs = ["train", "generate", *["train"] * 3, *["convert"] * 2, *["train"] * 2, *["convert"] * 2]
    assert [command[0] for command in commands] == verbs
    quick = {"train": ["--model-dim", "16", "--context", "32"], "generate": ["--num-tokens", "5"]}
    for command in commands:
        passes = ["--epochs" if "masked" in command else "--steps", "2"] if command[0] == "train" else []
        assert main([*command, *quick.get(command[0], []), *passes]) == 0, capsys.readouterr().err


def test_the_commands_over_graphs_run(tmp_path, monkeypatch, capsys, shapes_unchecked):
    from edgewise.cli.main import main

    monkeypatch.chdir(tmp_path)
    nodes = pd.DataFrame({"id": range(30), "a": range(30), "label": ["red", "blue"] * 15})
    nodes.to_csv("nodes.csv", index=False)
    pd.DataFrame({"from": range(30), "to": [*range(2, 30), 0, 1]}).to_csv("edges.csv", index=False)
    nodes.assign(kind=["author", "paper", "paper"] * 10).to_csv("library.csv", index=False)
    pd.DataFrame({"from": range(30), "to": [*range(1, 30), 0], "relation": ["writes", "cites", "cites"] * 10}).to_csv(
        "links.csv", index=False
    )
    pd.DataFrame({"one": [0, 1], "other": [2, 5]}).to_csv("pairs.csv", index=False)
    pages = [ROOT / f"docs/{name}.md" for name in ("nodes", "links", "graphs", "forecast")]
    lines = [line for page in pages for block in blocks(page, "console") for line in block.splitlines()]
    commands = [shlex.split(line)[2:] for line in lines]
    verbs = "train predict fingerprint train train predict train predict train predict train train predict"
    assert [command[0] for command in commands] == verbs.split()
    molecules = {"molecule": np.repeat(range(20), 3), "id": [0, 1, 2] * 20, "charge": range(60)}
    atoms = pd.DataFrame({**molecules, "element": ["C", "O", "H"] * 20, "solubility": np.repeat(range(20), 3) / 4})
    atoms.to_csv("atoms.csv", index=False)
    trees = {"halo": "id", "tree": "molecule", "mass": "charge", "formation": "solubility"}
    pd.DataFrame({name: atoms[old] for name, old in trees.items()}).to_csv("halos.csv", index=False)
    bonds = pd.DataFrame({"molecule": np.repeat(range(20), 2), "from": [1, 2] * 20, "to": [0] * 40})
    bonds.rename(columns={"molecule": "tree"}).to_csv("mergers.csv", index=False)
    bonds.to_csv("bonds.csv", index=False)
    pd.DataFrame({"minute": range(240), "a": range(240), "b": range(240)}).to_csv("speed.csv", index=False)
    pd.DataFrame({"from": ["a"], "to": ["b"]}).to_csv("roads.csv", index=False)
    for command in commands:
        passes = ["--epochs", "2"] if command[0] == "train" else []
        passes += ["--no-baselines"] if passes and command[1] != "forecast" else []
        assert main([*command, *passes]) == 0, capsys.readouterr().err


def test_the_commands_over_motion_run(tmp_path, monkeypatch, capsys, shapes_unchecked):
    from edgewise.cli.main import main

    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks(ROOT / "docs/motion.md", "console") for line in block.splitlines()]
    commands = [shlex.split(line)[2:] for line in lines]
    assert [command[0] for command in commands] == ["simulate", "train", "predict", "simulate", "train", "report"]
    few = ["--num-trajectories", "9", "--num-steps", "1200"]
    quick = {"charges": few, "solar": few[2:], "motion": ["--epochs", "1"]}
    for command in commands:
        assert main([*command, *quick.get(command[1], [])]) == 0, capsys.readouterr().err


def test_the_commands_on_looking_run(tmp_path, monkeypatch, capsys, shapes_unchecked):
    from edgewise.cli.main import main
    from edgewise.learn.readers.molecules.simulate import demo_table

    monkeypatch.chdir(tmp_path)
    molecules = demo_table(60).rename(columns={"crippen_logp": "log_solubility"})
    molecules.to_csv("molecules.csv", index=False)
    molecules[["smiles"]].head(5).to_csv("new.csv", index=False)
    lines = [line for block in blocks(ROOT / "docs/look.md", "console") for line in block.splitlines()]
    commands = [shlex.split(line)[2:] for line in lines]
    assert [command[0] for command in commands] == ["train", *["explain"] * 4, *["train", "explain"] * 3, "explain"]
    Path("book.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 40)
    for name in ("train.conll", "test.conll"):
        Path(name).write_text("Mrs O\nLund B-PER\nlives O\nnear O\nParis B-LOC\n\n" * 20)
    pd.DataFrame({"en": ["a man", "a red shirt"] * 10, "de": ["ein Mann", "ein rotes Hemd"] * 10}).to_csv("pairs.csv")
    small = ["--model-dim", "16", "--context", "32"]
    quick = {
        "book.txt": [*small, "--steps", "2"],
        "train.conll": [*small, "--epochs", "1"],
        "translation": ["--epochs", "1", "--vocabulary-size", "280", "--max-length", "9"],
    }
    for command in commands:
        more = quick.get(command[1], QUICK) if command[0] == "train" else []
        assert main([*command, *more]) == 0, capsys.readouterr().err
    written = {"report.html", "rows.html", "ethanol.svg", "next.html", "names.html", "translation.html", "token.html"}
    assert written <= {path.name for path in tmp_path.iterdir()}


def test_the_tables_of_the_results_are_those_of_the_committed_runs():
    printed = runpy.run_path(str(ROOT / "docs/results/table.py"))["tables"]()
    page = (ROOT / "docs/results.md").read_text()
    for name, table in printed.items():
        assert table in page, f"the table {name} of docs/results.md is not what docs/results/table.py prints"
    shared = (ROOT / "benchmarks/results/shared_molecules.md").read_text().strip()
    assert shared in page


RUNS = ROOT / "docs/results/runs.py"


def test_the_file_of_runs_is_written_by_its_program_alone():
    runs = runpy.run_path(str(RUNS))
    recorded = runs["read_runs"]()
    assert runs["render"](recorded) == (ROOT / "docs/results/runs.json").read_text()
    names = [line.partition(",")[0] for line in (ROOT / "docs/results/epochs.csv").read_text().splitlines()[1:]]
    assert names == sorted(names) and set(names) <= set(recorded)


def test_a_finished_run_is_recorded_once_and_repeated_from_its_record(tmp_path, monkeypatch, capsys):
    from edgewise.cli.main import main

    monkeypatch.chdir(tmp_path)
    runs = runpy.run_path(str(RUNS))
    add, read_runs, config = (runs[name] for name in ("add", "read_runs", "config"))
    Path("book.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 40)
    few = ["--model-dim", "16", "--num-layers", "1", "--context", "16", "--steps", "3", "--learning-rate", "3e-05"]
    assert main(["train", "book.txt", *few, "-o", "runs/second"]) == 0
    Path("logs").mkdir()
    Path("logs/second.log").write_text(f"{capsys.readouterr().out}whole command: 7 s\n")

    add([Path("runs/second")], tmp_path)
    Path("config.toml").write_text(config("second", tmp_path))
    assert main(["train", "--config-path", "config.toml", "-o", "runs/first"]) == 0
    add([Path("runs/first"), Path("runs/second")], tmp_path)
    written = [Path(name).read_text() for name in ("runs.json", "epochs.csv")]
    add([Path("runs/second")], tmp_path)
    assert written == [Path(name).read_text() for name in ("runs.json", "epochs.csv")]

    recorded = read_runs(tmp_path)
    assert list(recorded) == ["first", "second"]
    for name, run in recorded.items():
        assert run["config"] == tomllib.loads(Path(f"runs/{name}/config.toml").read_text())
        assert run["metrics"] == json.loads(Path(f"runs/{name}/metrics.json").read_text())
        epochs = Path(f"runs/{name}/logs/metrics.csv").read_text().splitlines()[1:]
        assert epochs and all(f"\n{name},{line}\n" in written[1] for line in epochs)
    assert recorded["first"]["metrics"]["validation"] == recorded["second"]["metrics"]["validation"]
    assert recorded["second"]["command_seconds"] == 7
    assert any("characters" in line for line in recorded["second"]["log"])
    assert not any("perplexity" in line or "whole command" in line for line in recorded["second"]["log"])
    with pytest.raises(
        SystemExit, match=r"has no run 'third'; the closest names in it: (first, second|second, first)\."
    ):
        config("third", tmp_path)
    with pytest.raises(SystemExit, match=r"logs has no config\.toml; expected the folder of a finished run"):
        add([Path("logs")], tmp_path)
