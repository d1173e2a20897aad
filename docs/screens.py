"""Takes the pictures of docs/look.md and docs/report.md: trains four runs, explains a row of each, opens the pages.

    python docs/screens.py             all; runs that are finished in runs/screens are taken as they are
    python docs/screens.py sentence    one of them

EDGEWISE_DATA names the folder of the data sets (the dates that are translated are made here); Chromium draws (`apt
install chromium`). Where one of them is missing, a line says so, and the pictures stay as they are. Each picture keeps
the phrases that it shows (`phrases.py`): a test fails when the library no longer has one of them.
"""

import calendar
import csv
import os
import random
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from phrases import PICTURES, save_picture
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from edgewise.cli.main import main as edgewise

RUNS = Path("runs/screens")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, COLORS = 1180, 256
"""Pixels, and the colors of a palette: enough for drawings, and a tenth of the bytes."""
SETTLED = 300
"""Milliseconds after which what comes into sight has been drawn."""
REPORTED = "ionic_liquid"
"""The run whose report is shown."""
TEXTS_IN_SIGHT = """() => {
  const texts = [], range = document.createRange();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    range.selectNodeContents(walker.currentNode);
    const box = range.getBoundingClientRect();
    if (box.height && box.top >= 0 && box.bottom <= innerHeight) texts.push(walker.currentNode.textContent);
  }
  return texts.join(" ");
}"""
"""What stands in the part of a page that is visible."""


@dataclass(frozen=True)
class Screen:
    """One run, and what of it is shown."""

    data: tuple[str, ...]
    """Below the folder of the data sets; none for the dates."""
    flags: tuple[str, ...]
    """Of `edgewise train`."""
    row: tuple[str, ...]
    """The input of `edgewise explain`."""
    show: Callable[[Page], None] | None
    """What a person would do on the page before looking; None where only the further pictures are taken."""
    height: int
    """Of the picture."""
    scheme: str = "light"
    sections: tuple[tuple[str, str], ...] = ()
    """Further pictures: what is put behind the name, and the heading of the section that is shown."""


def hold_nothing(page: Page) -> None:
    """What each atom adds."""


def hold_word(page: Page) -> None:
    """What each word changes, and where one of them attends."""
    page.select_option('[data-choose="attribution"]', label="occlusion")
    page.click(".word:text-is('joy')")


def hold_month(page: Page) -> None:
    """Where the model looked as it wrote the month."""
    page.click(".word:text-is('07')")


def color_by_occlusion(page: Page) -> None:
    """What each node of the neighborhood changes."""
    page.select_option('[data-choose="attribution"]', label="occlusion")


SCREENS = {
    "sentence": Screen(
        ("sst2/train.csv", "sst2/dev.csv", "sst2/test.csv"),
        ("--text-columns", "text", "--target-columns", "label", "--seed", "0"),
        ("a dull plot , but the two actors are a joy to watch .",),
        hold_word,
        760,
        sections=(("heads", "Where it attends"), ("belief", "Can it be believed?")),
    ),
    "solubility": Screen(
        ("moleculenet/esol.csv",),
        (
            *("--smiles-columns", "smiles", "--target-columns", "log_solubility_log10_mol_per_L"),
            *("--splits-column", "mat_split_0"),
        ),
        ("CC(=O)Oc1ccccc1C(=O)O",),
        hold_nothing,
        1120,
    ),
    "ionic_liquid": Screen(
        ("co2_ionic_liquids/co2_ionic_liquids.csv",),
        (
            *("--smiles-columns", "cation_smiles", "anion_smiles"),
            *("--descriptors-columns", "temperature_K", "pressure_bar"),
            *("--target-columns", "x_co2_mole_fraction", "--bounds", "0", "1"),
            *("--split", "random", "--split-sizes", "0.72", "0.08", "0.2"),
        ),
        (
            *("CCCCn1cc[n+](C)c1", "O=S(=O)([N-]S(=O)(=O)C(F)(F)F)C(F)(F)F"),
            *("--values", "temperature_K=313", "pressure_bar=20"),
        ),
        None,
        1180,
        sections=(("curves", "If the numbers were others"),),
    ),
    "citation": Screen(
        ("planetoid/cora.npz",), ("--model", "gat", "--seed", "0"), ("2133",), color_by_occlusion, 1280, scheme="dark"
    ),
    "translation": Screen(
        (),
        (
            *("--text-columns", "date", "--target-columns", "iso", "--task-type", "translation"),
            *(
                "--model",
                "lstm",
                "--num-layers",
                "1",
                "--model-dim",
                "64",
                "--dropout",
                "0.1",
                "--vocabulary-size",
                "320",
            ),
            *("--learning-rate", "0.005", "--batch-size", "512", "--epochs", "40", "--max-length", "16"),
        ),
        ("4 July 1998",),
        hold_month,
        820,
        sections=(("heads", "Where it attends"),),
    ),
}


def write_dates(path: Path) -> Path:
    """Days as people write them, `4 July 1998`, `July 4, 1998` or `Jul 4 1998`, and as ISO 8601 does, `1998-07-04`."""
    chance, months = random.Random(0), list(calendar.month_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["date", "iso"])
        for number in range(4000):
            day, month, year = chance.randint(1, 28), chance.randint(1, 12), chance.randint(1950, 2029)
            name = months[month]
            written = (f"{day} {name} {year}", f"{name} {day}, {year}", f"{name[:3]} {day} {year}")[number % 3]
            rows.writerow([written, f"{year}-{month:02}-{day:02}"])
    return path


def train(name: str, screen: Screen, data: Path) -> Path:
    """The folder of the run; trained where it is not there yet."""
    folder = RUNS / name
    if not (folder / "metrics.json").is_file():
        files = [str(data / file) for file in screen.data] or [str(write_dates(RUNS / "dates.csv"))]
        if edgewise(["train", *files, *screen.flags, "--threads", "1", "-o", str(folder), "--overwrite"]):
            raise SystemExit(f"The run for {name} failed.")
    return folder


def keep(shown: Page | Locator, text: str, name: str) -> None:
    """A screenshot as a small picture, with the phrases of the library that it shows."""
    path = PICTURES / f"{name}.png"
    screenshot = Image.open(BytesIO(shown.screenshot())).convert("RGB")
    # The median cut would give rare colors, such as two thin lines, the same place in the palette.
    save_picture(screenshot.quantize(COLORS, method=Image.Quantize.MAXCOVERAGE), path, text)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


def take(browser: Browser, name: str, screen: Screen, folder: Path) -> None:
    """The pictures of one explanation."""
    size = {"width": WIDTH, "height": screen.height}
    page = browser.new_page(viewport=size, color_scheme=screen.scheme)
    page.goto((folder / "explained.html").resolve().as_uri())
    page.wait_for_selector("main[data-ready]")
    for end, heading in screen.sections:
        section = page.locator("section", has=page.get_by_role("heading", name=heading))
        section.scroll_into_view_if_needed()
        page.wait_for_timeout(SETTLED)
        keep(section, section.inner_text(), f"look_{name}_{end}")
    if screen.show is not None:
        page.evaluate("scrollTo(0, 0)")
        screen.show(page)
        page.wait_for_timeout(SETTLED)
        keep(page, page.evaluate(TEXTS_IN_SIGHT), f"look_{name}")
    page.close()


def take_report(browser: Browser, folder: Path) -> None:
    """The upper part of a training's report."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 1000})
    page.goto((folder / "report.html").resolve().as_uri())
    keep(page, page.evaluate(TEXTS_IN_SIGHT), "report")
    page.close()


def main(names: list[str]) -> None:
    """Train, explain, open, take."""
    data, browser_path = os.environ.get("EDGEWISE_DATA"), next(filter(None, map(shutil.which, BROWSERS)), None)
    if data is None or browser_path is None:
        missing = "EDGEWISE_DATA is not set" if data is None else "there is no Chromium (apt install chromium)"
        print(f"The pictures of pages stay as they are: {missing}.")
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for name in names or list(SCREENS):
            screen = SCREENS[name]
            folder = train(name, screen, Path(data))
            if edgewise(["explain", str(folder), *screen.row, "-o", str(folder / "explained.html"), "--overwrite"]):
                raise SystemExit(f"Explaining {name} failed.")
            take(browser, name, screen, folder)
            if name == REPORTED:
                take_report(browser, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
