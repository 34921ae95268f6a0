"""What jaxtyping checks the package with while testing."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is welcome where a float is
