"""Gathered values are reported, or refused with errors."""

from tests.on_devices import on_devices


def test_gathers_are_told_and_refused():
    file = "tests/transform/sharding/gathers_on_devices.py"
    on_devices(4, "-m", "pytest", "-q", "-W", "ignore", file)
