"""Rules and helpers that the families of ops share."""
