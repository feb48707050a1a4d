"""Thresholds of Python's garbage collector are restored, however a context is left."""

import gc
from threading import Event, Thread

import pytest

from graphc.ir.garbage import NEVER, YOUNG, only_young_garbage


def test_thresholds_come_back_after_an_error_and_after_the_last_of_several():
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="own"), only_young_garbage():
        with only_young_garbage():
            assert gc.get_threshold() == (max(before[0], YOUNG), before[1], NEVER)
        assert gc.get_threshold()[2] == NEVER
        raise ValueError("own")
    assert gc.get_threshold() == before


def test_a_thread_that_ends_later_gives_back_what_was_before_all():
    before, entered, end = gc.get_threshold(), Event(), Event()

    def other():
        with only_young_garbage():
            entered.set()
            end.wait(10)

    thread = Thread(target=other)
    with only_young_garbage():
        thread.start()
        assert entered.wait(10)
    assert gc.get_threshold()[2] == NEVER
    end.set()
    thread.join()
    assert gc.get_threshold() == before
