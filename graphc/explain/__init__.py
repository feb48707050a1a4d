"""Plans and programs told to people."""
