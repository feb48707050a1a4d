"""Arrays made, joined, taken apart, and laid out anew."""
