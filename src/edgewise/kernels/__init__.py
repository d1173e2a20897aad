"""How a kernel is compiled, and how it becomes an operator of torch."""
