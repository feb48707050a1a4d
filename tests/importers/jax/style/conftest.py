"""These modules are run by `tests/jax_suite.py`, not by pytest."""

collect_ignore_glob = ["*_test.py"]
