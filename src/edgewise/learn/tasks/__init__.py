"""What can be trained, a folder a task: it says what is its own; run, checkpoint and report are written once."""
