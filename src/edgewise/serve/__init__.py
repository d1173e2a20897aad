"""A trained model as a page that answers, and as an interface for programs."""
