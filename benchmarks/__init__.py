"""Speed of graphc against hand-written JAX; `python -m benchmarks` runs all."""
