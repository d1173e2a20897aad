"""Pictures and pages: pure functions from numbers to SVG, PNG and HTML, independent of models."""
