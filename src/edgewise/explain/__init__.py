"""What a model, or any other function, does and why: the symmetries it has."""
