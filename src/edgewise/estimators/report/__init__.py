"""The report of a training: what is computed of a finished run, and which sections stand on its page."""
