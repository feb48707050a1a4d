"""Programs of other libraries, read as graphs."""
