"""A test that has no end, and one that follows."""

import time

from absl.testing import absltest


class SleepingTest(absltest.TestCase):
    def test_a_long_time(self):
        time.sleep(1000)

    def test_afterwards(self):
        pass
