"""Special functions (`gt.special`)."""
