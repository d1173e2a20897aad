"""The page of explanations as a widget: another explanation changes the page in place."""

from collections.abc import Sequence
from typing import Any

from edgewise.errors import MissingExtraError
from edgewise.explain.explanation import Explanation
from edgewise.view.notebook import HEIGHT, STYLE, page_of, words_of

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    raise MissingExtraError("anywidget", "notebook") from error

SCRIPT = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.title = "explanation";
  frame.className = "edgewise-page";
  const draw = () => { frame.srcdoc = model.get("page"); };
  const size = () => { frame.style.height = model.get("height") + "px"; };
  model.on("change:page", draw);
  model.on("change:height", size);
  size();
  draw();
  el.append(frame);
  return () => { model.off("change:page", draw); model.off("change:height", size); };
}
export default { render };
"""


class ExplanationWidget(anywidget.AnyWidget):
    """One or several explanations in a notebook, on the page that `edgewise explain` writes.

        widget = ExplanationWidget(model.explain("CCO"))
        widget.explanations = (model.explain("CCN"),)

    Args:
        explanations: what is shown.
        height: of the frame in pixels.
    """

    _esm = SCRIPT
    _css = STYLE
    explanations: Any = traitlets.Tuple()
    """What is shown; another tuple of explanations shows those. The browser is sent the page alone."""
    page: Any = traitlets.Unicode(read_only=True).tag(sync=True)
    """The page."""
    height: Any = traitlets.Int(HEIGHT, min=1).tag(sync=True)
    """Of the frame, in pixels."""

    def __init__(self, *explanations: Explanation, height: int = HEIGHT):
        super().__init__(height=height)
        self.explanations = explanations

    def __repr__(self) -> str:
        # All that is left of a widget in a file, and without its kernel.
        return f"<{type(self).__name__}: {words_of(self.explanations)}>"

    @traitlets.validate("explanations")
    def _checked(self, proposal: Any) -> Sequence[Explanation]:
        for each in proposal["value"]:
            if not isinstance(each, Explanation):
                raise traitlets.TraitError(f"explanations holds {type(each).__name__}, expected Explanation.")
        return proposal["value"]

    @traitlets.observe("explanations")
    def _draw(self, change: Any) -> None:
        self.set_trait("page", page_of(change["new"]) if change["new"] else "")
