"""What a model, or any other function, does and why: its symmetries, where it attends, what changes its predictions."""
