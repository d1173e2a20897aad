"""The type checker that jaxtyping's import hook runs on every annotated function; a whole number is a float, too."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
