"""Control flow: the primitives that hold graphs, below rewriting and transform."""
