"""Random calls of the operator, judged from outside: `python -m fuzz` in the folder of the tests."""
