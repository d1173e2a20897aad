"""`python -m edgewise` is the command line too, as a module is found where no folder of programs is on the path."""

from edgewise.cli.main import program

if __name__ == "__main__":
    raise SystemExit(program())
