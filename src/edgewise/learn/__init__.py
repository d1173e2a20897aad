"""From files to trained, explained models. It imports the operator, layers and graphs, which import nothing of it."""
