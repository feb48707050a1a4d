"""Processes that are forked where JAX has run, and those that are not: real ones."""

import subprocess
import sys
import textwrap

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


def answers_of(script):
    """What a process prints that runs a script after the start above."""
    text = START + textwrap.dedent(script)
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_functions_on_jax_refuse_to_run_in_a_forked_child():
    refused = """
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
    *refused, first, second, parent = answers_of(refused)
    assert len(refused) == 5
    for told in refused:
        assert "ForkError" in told and "was forked from" in told
        assert 'mp_ctx="spawn"' in told and 'backend="numpy"' in told
    assert [float(v) for v in (first, second, parent)] == [64e6, 16e6, 64e6]


def test_a_child_runs_jax_where_the_parent_has_not():
    lines = answers_of("""
        def child(answers):
            f = compiled()
            answers.put([outcome(lambda: f(BIG)), outcome(lambda: product(BIG))])

        print(*in_child("fork", child))
    """)
    assert lines == ["64000000.0 64000000.0"]


def test_locks_that_threads_hold_are_free_in_a_child():
    lines = answers_of("""
        from graphc.ir import garbage
        from graphc.ir.garbage import young_garbage

        held, go = threading.Event(), threading.Event()

        def hold():
            with young_garbage(), garbage._LOCK:
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
    """)
    assert lines == ["64000000.0 True"]


def test_a_model_refuses_to_run_in_a_forked_child(tmp_path):
    path = str(tmp_path / "product.model")
    forked = f"""
        import graphc_serving

        f = compiled(dims="specialize")
        f.export({path!r}, {{"n": 4, "m": 4}})
        model = graphc_serving.load({path!r})
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
    here, *there = answers_of(forked)
    assert here == "64.0"
    assert "forked from: JAX would hang" in there[0]
    assert "after the fork" in there[1]
