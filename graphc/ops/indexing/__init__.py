"""Reading and writing the elements that an index names."""
