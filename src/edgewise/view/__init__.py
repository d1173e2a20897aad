"""Pictures and pages: pure functions from numbers to SVG, PNG and HTML; what made the numbers is not known here."""
