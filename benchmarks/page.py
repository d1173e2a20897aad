"""How long a page of explanations takes to open, and to answer, in headless Chromium.

    python benchmarks/page.py

Opened means: from the beginning of the navigation until every section is drawn, and until the words or the graph are.
Answered means: from a pointer or a key to the next frame that the browser has painted. Medians of five fresh tabs.
Writes results/page.json and results/page.md beside this file.
"""

import json
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from edgewise.explain.explanation import Explanation
from edgewise.view.explanation import explanation_page

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "view"))
from explanation_cases import graph_case, long_text_case, molecule_case, text_case  # noqa: E402

CASES: dict[str, Callable[[], Explanation]] = {
    "a sentence, 15 tokens, all weights": text_case,
    "an ionic liquid": molecule_case,
    "4,096 tokens, 4 layers × 4 heads, top 8": long_text_case,
    "a graph of 5,000 nodes, 2 layers × 4 heads": lambda: graph_case(5000),
}
REPEATS = 5
SEEN = ".words, .molecules, canvas.graph[data-detail]"
FRAME = "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
MARKS = """
new MutationObserver(() => {
  if (!window.seen && document.querySelector("SEEN")) window.seen = performance.now();
  if (!window.ready && document.querySelector("main[data-ready]")) window.ready = performance.now();
}).observe(document, { subtree: true, childList: true, attributes: true });
""".replace("SEEN", SEEN)
"""Runs before the page's own script and notes when things appear, in milliseconds since the navigation began."""


def main() -> None:
    """Measure and write."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("No Chromium on this machine: apt install chromium.")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        found = {name: measured(browser, make(), Path(folder) / "page.html") for name, make in CASES.items()}
        version = browser.version
        browser.close()
    machine = f"{platform.processor() or platform.machine()}, Chromium {version}, Python {platform.python_version()}"
    report = {"machine": machine, "repeats": REPEATS, "cases": found}
    results = HERE / "results"
    (results / "page.json").write_text(json.dumps(report, indent=1) + "\n")
    (results / "page.md").write_text(table(machine, found))
    print(table(machine, found))


def measured(browser: Browser, explanation: Explanation, path: Path) -> dict[str, float]:
    """One case: what the file costs to make, its size, and medians of what the browser takes."""
    begun = time.perf_counter()
    text = explanation_page([explanation])
    made = time.perf_counter() - begun
    path.write_text(text, encoding="utf-8")
    rounds = [opened(browser, path, explanation.kind) for _ in range(REPEATS)]
    medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    return {"make_s": round(made, 3), "megabytes": round(len(text) / 1e6, 2), **medians}


def opened(browser: Browser, path: Path, kind: str) -> dict[str, float]:
    """Seconds until the input is seen and all is drawn, and milliseconds until an answer is painted, in a fresh tab."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(MARKS)
    page.goto(path.as_uri())
    page.wait_for_selector("main[data-ready]")
    page.evaluate(FRAME)
    times: dict[str, Any] = page.evaluate("({ seen: window.seen, ready: window.ready })")
    answer = answered(page, kind)
    context.close()
    return {"seen_s": round(times["seen"] / 1000, 3), "drawn_s": round(times["ready"] / 1000, 3), "answer_ms": answer}


def answered(page: Page, kind: str) -> float:
    """Milliseconds from a choice to the painted frame: the next unit, and another head."""
    target = "canvas.graph" if kind == "graph" else ".word[tabindex='0'], .atom[tabindex='0']"
    page.focus(target)
    page.evaluate(FRAME)
    key = "() => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))"
    timed = f"async () => {{ const begun = performance.now(); ({key})(); return (await ({FRAME})()) - begun; }}"
    return round(statistics.median(page.evaluate(timed) for _ in range(5)), 1)


def table(machine: str, found: dict[str, dict[str, float]]) -> str:
    """The numbers as a table."""
    lines = [
        "# How fast a page of explanations opens",
        "",
        f"{machine}; medians of {REPEATS} fresh tabs. `python benchmarks/page.py`",
        "",
        "| explanation | file, MB | made, s | input seen, s | all drawn, s | next unit painted, ms |",
        "|---|---|---|---|---|---|",
    ]
    names = ("megabytes", "make_s", "seen_s", "drawn_s", "answer_ms")
    lines += [f"| {name} | {' | '.join(str(row[each]) for each in names)} |" for name, row in found.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
