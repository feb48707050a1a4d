"""The mode in processes as samplers start them: NumPy where a fork has lost JAX."""

import os
import subprocess
import sys

WAYS = ["fork", "spawn"] + ["forkserver"] * ("GRAPHC_EXAMPLES" in os.environ)
SCRIPT = """
import multiprocessing, os, sys, warnings
import jax, numpy as np, pytensor, pytensor.tensor as pt
import graphc.pytensor
from pytensor.link.jax.ops import JAXOp

BIG = np.ones((300, 300))
ROOT = os.path.dirname(jax.__file__) + os.sep


def compiled(**options):
    # Of some size, a product runs on XLA's threads.
    x, s = pt.dmatrix("x"), pytensor.shared(np.array(2.0), name="s")
    drawn = pt.random.normal(rng=pytensor.shared(np.random.default_rng(1)))
    y = (x @ x.T).sum() * s
    mode = graphc.pytensor.mode(**options)
    f = pytensor.function([x], [y, y + 0 * drawn], updates={s: s + 1}, mode=mode)
    return f, s


def child(answers, f, s, in_jax):
    touched = []

    def watch(frame, event, argument):
        if frame.f_code.co_filename.startswith(ROOT):
            touched.append(frame.f_code.co_name)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sys.setprofile(watch if in_jax is None else None)
        found = [float(v) for v in [*f(BIG), *compiled()[0](BIG)]]
        found.append(float(s.get_value()))
        sys.setprofile(None)
    forked = [w.message.args[0] for w in told if "ForkWarning" in w.category.__name__]
    answers.put((found, forked, touched))


if __name__ == "__main__":
    f, s = compiled(dims="pad")
    f(BIG)
    s.set_value(np.array(2.0))
    for how in sys.argv[1:]:
        context = multiprocessing.get_context(how)
        answers = context.SimpleQueue()
        own = (f, s, None) if how == "fork" else (*compiled(), True)
        process = context.Process(target=child, args=(answers, *own))
        process.start()
        process.join(100)
        assert process.exitcode == 0, process.exitcode
        found, forked, touched = answers.get()
        print(how, found, len(forked), len(touched), *forked)
"""


def test_functions_go_on_in_processes_of_all_kinds(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    command = [sys.executable, "-W", "ignore", str(path), *WAYS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    fork, *others = done.stdout.splitlines()
    total = 2 * 300.0**3
    assert fork.startswith(f"fork {[*[total] * 4, 3.0]} 1 0 GRAPHC: NumPy computes in")
    assert 'mp_ctx="spawn"' in fork and 'backend="numpy"' in fork
    for line, how in zip(others, WAYS[1:], strict=True):
        assert line == f"{how} {[*[total] * 4, 3.0]} 0 0"
