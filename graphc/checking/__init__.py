"""Rules tried on graphs that they match: whether both sides are the same."""
