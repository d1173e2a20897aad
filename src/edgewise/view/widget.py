"""The page of explanations as a widget, which updates in place."""

from collections.abc import Sequence
from typing import Any

from edgewise.errors import MissingExtraError
from edgewise.explain.explanation import Explanation
from edgewise.view.notebook import HEIGHT, STYLE, page_of, summary_of

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
        explanations: the explanations to show.
        height: height of the frame in pixels.
    """

    _esm = SCRIPT
    _css = STYLE
    explanations: Any = traitlets.Tuple()
    """The explanations that are shown; assign another tuple to show others. The browser gets only the page."""
    page: Any = traitlets.Unicode(read_only=True).tag(sync=True)
    """The HTML of the page."""
    height: Any = traitlets.Int(HEIGHT, min=1).tag(sync=True)
    """Height of the frame in pixels."""

    def __init__(self, *explanations: Explanation, height: int = HEIGHT):
        super().__init__(height=height)
        self.explanations = explanations

    def __repr__(self) -> str:
        # A saved notebook, or one without a kernel, shows only this.
        return f"<{type(self).__name__}: {summary_of(self.explanations)}>"

    @traitlets.validate("explanations")
    def _checked(self, proposal: Any) -> Sequence[Explanation]:
        for item in proposal["value"]:
            if not isinstance(item, Explanation):
                raise traitlets.TraitError(f"explanations holds {type(item).__name__}, expected Explanation.")
        return proposal["value"]

    @traitlets.observe("explanations")
    def _draw(self, change: Any) -> None:
        self.set_trait("page", page_of(change["new"]) if change["new"] else "")
