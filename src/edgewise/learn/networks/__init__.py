"""The networks of the tasks, built from the layers."""
