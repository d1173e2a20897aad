"""What a page of explanations says, read in a browser."""

READY = "main[data-ready]"


def numbers(page, selector, name="value"):
    """A data attribute of every element as numbers."""
    found = page.eval_on_selector_all(selector, f"all => all.map(each => each.dataset.{name})")
    return [float(each) for each in found]


def downloaded(page, name):
    with page.expect_download() as waiting:
        page.click(f'[data-save="{name}"]')
    assert waiting.value.suggested_filename == name
    return waiting.value.path().read_bytes()


def arcs(page, selector=".arcs path"):
    found = page.eval_on_selector_all(selector, "all => all.map(each => ({...each.dataset}))")
    return [(int(each["from"]), int(each["to"]), float(each["value"])) for each in found]
