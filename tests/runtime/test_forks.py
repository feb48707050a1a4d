"""Real processes, forked after JAX has run, or started anew."""

import subprocess
import sys
import textwrap

import pytest

START = """
import multiprocessing, sys, threading, warnings
import numpy as np
import graphc, graphc.tensor as gt

BIG = np.ones((400, 400), "float32")  # what XLA gives to its threads


def in_child(how, target):
    context = multiprocessing.get_context(how)
    answers = context.SimpleQueue()
    child = context.Process(target=target, args=(answers,))
    child.start()
    child.join(60)
    assert child.exitcode == 0, child.exitcode
    return answers.get()


def outcome(call):
    try:
        return float(np.asarray(call()).sum())
    except graphc.GraphError as error:
        return f"{type(error).__name__}: {error}"


def compiled(**options):
    x = gt.tensor("x", "float32", ("n", "m"))
    return graphc.function([x], gt.sum(x @ x.T), **options)


@graphc.jit
def product(x):
    return (x @ x.T).sum()
"""


# The parts run in one process after the start above, in this order. JAX runs in it from
# the third part on.
CHILD_RUNS_JAX = """
        def child(answers):
            f = compiled()
            answers.put([outcome(lambda: f(BIG)), outcome(lambda: product(BIG))])

        print(*in_child("fork", child))
"""
LOCKS_ARE_HELD = """
        from graphc.ir import garbage
        from graphc.ir.garbage import only_young_garbage

        held, go = threading.Event(), threading.Event()

        def hold():
            with only_young_garbage(), garbage._LOCK:
                held.set()
                go.wait()

        threading.Thread(target=hold, daemon=True).start()
        held.wait()

        def child(answers):
            import gc
            answers.put([outcome(lambda: compiled(backend="numpy")(BIG)),
                         gc.get_threshold()[2] < garbage.NEVER])

        print(*in_child("fork", child))
        go.set()
"""
PARENT_HAS_RUN_JAX = """
        f, on_numpy = compiled(), compiled(backend="numpy")
        f(BIG), product(BIG), product(BIG[:300])

        def child(answers):
            again = lambda: compiled()(BIG)
            calls = lambda: f(BIG), lambda: f.lend(BIG), again, lambda: product(BIG)
            other = lambda: product(BIG[:200])
            numpy = compiled(backend="numpy")
            calls += other, lambda: on_numpy(BIG), lambda: numpy(BIG[:200])
            answers.put([outcome(call) for call in calls])

        for told in in_child("fork", child):
            print(repr(told))
        print(outcome(lambda: f(BIG)))
"""
MODEL = """
        import graphc_serving

        f = compiled(dims="specialize")
        f.export(PATH, {"n": 4, "m": 4})
        model = graphc_serving.load(PATH)
        X = np.ones((4, 4), "float32")

        def outcome_of_model():
            try:
                return float(np.asarray(model(X)))
            except graphc_serving.ModelError as error:
                return str(error)

        def child(answers):
            answers.put(outcome_of_model())

        print(outcome_of_model())
        print(in_child("fork", child))
"""
PARTS = (CHILD_RUNS_JAX, LOCKS_ARE_HELD, PARENT_HAS_RUN_JAX, MODEL)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The lines that one process prints, by part."""
    path = str(tmp_path_factory.mktemp("forks") / "product.model")
    parts = map(textwrap.dedent, PARTS)
    text = "print('next')".join([f"{START}\nPATH = {path!r}\n", *parts])
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    printed = [part.splitlines() for part in done.stdout.split("next\n")[1:]]
    return dict(zip(PARTS, printed, strict=True))


def test_functions_on_jax_refuse_to_run_in_a_forked_child(answers):
    *refused, first, second, parent = answers[PARENT_HAS_RUN_JAX]
    assert len(refused) == 5
    for told in refused:
        assert "ForkError" in told and "was forked from" in told
        assert 'mp_ctx="spawn"' in told and 'backend="numpy"' in told
    assert [float(v) for v in (first, second, parent)] == [64e6, 16e6, 64e6]


def test_a_child_runs_jax_where_the_parent_has_not(answers):
    assert answers[CHILD_RUNS_JAX] == ["64000000.0 64000000.0"]


def test_locks_that_threads_hold_are_free_in_a_child(answers):
    assert answers[LOCKS_ARE_HELD] == ["64000000.0 True"]


def test_a_model_refuses_to_run_in_a_forked_child(answers):
    here, *there = answers[MODEL]
    assert here == "64.0"
    assert "forked from: JAX would hang" in there[0]
    assert "after the fork" in there[1]
