"""Which carries a gradient keeps, and which it computes again."""
