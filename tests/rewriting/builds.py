"""Values in which rules fire that need more than their pattern says."""

BUILDS = {}
