"""Random numbers with explicit keys (`gt.random`)."""
