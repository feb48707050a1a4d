"""Programs kept for other processes are found again, and never trusted blindly."""

import contextlib
import errno
import json
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from hashlib import sha256

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import graphc
import graphc.tensor as gt
from graphc.runtime.cache import cache_room, program_cache
from graphc.runtime.cache.jax_cache import Executables
from graphc.runtime.pipeline import Pipeline
from tests.fuzz.generator import generate

KINDS = {"dims": "pad"}, {"dims": {"n": graphc.Pad()}}, {"check": True}
OTHERS = {"jit": True}, {"casting": "same_kind"}, {"dims": "specialize"}


@pytest.fixture
def kept(tmp_path):
    """A cache of the test's own; earlier reports about files are forgotten."""
    before = graphc.config.cache_dir
    graphc.config.cache_dir = tmp_path / "cache"
    program_cache._reported.clear()
    yield tmp_path / "cache" / program_cache.PROGRAMS
    graphc.config.cache_dir = before


@pytest.fixture
def planned(monkeypatch):
    """The graphs for which plans have been made."""
    made = []
    first = Pipeline._make_first
    note = lambda self: made.append(self.written) or first(self)
    monkeypatch.setattr(Pipeline, "_make_first", note)
    return made


def example(scale=2.0, shift=0):
    x = gt.tensor("x", "float32", ("n",))
    k = gt.iscalar("k")
    y = gt.tanh(x)[k:] * scale + shift
    return [x, k], {"rows": y, "all": gt.sum(x)}


A = np.arange(5, dtype="float32")


def test_a_program_that_is_kept_needs_no_plan(kept, planned):
    f = graphc.function(*example())
    g = graphc.function(*example())
    assert len(planned) == 1 and g.source == f.source
    for _ in range(2):
        found, same = g(A, 2), f(A, 2)
        np.testing.assert_array_equal(found["rows"], same["rows"])
    assert len(planned) == 1  # calls of one size need no plan
    assert str(g.stats()).split(":")[0] == str(f.stats()).split(":")[0]
    assert g.explain(full=True) == f.explain(full=True)
    assert len(planned) == 2 and [str(a) for a in g.rewrites] == [
        str(a) for a in f.rewrites
    ]


def test_sizes_that_vary_are_padded_as_without_the_cache(kept, planned):
    x = gt.tensor("x", "float32", ("n",))
    programs = [graphc.function([x], gt.cumsum(x * 3)) for _ in range(2)]
    for n in (3, 5, 6, 100, 7):
        a = np.arange(n, dtype="float32")
        one, other = (np.asarray(f(a)) for f in programs)
        np.testing.assert_array_equal(one, other)
    first, second = (f.stats() for f in programs)
    assert first.changes == second.changes != []
    reasons = [[c.reason for c in s.compilations] for s in (first, second)]
    assert reasons[0] == reasons[1]
    assert len(planned) == 2  # the second when a second size came


@pytest.mark.parametrize("how", [{}, *KINDS, *OTHERS, {"backend": "numpy"}])
def test_options_are_part_of_the_key(kept, planned, how):
    x = gt.tensor("x", "float32", ("n",))
    y = gt.take(x, gt.argsort(x), axis=0)
    for options in ({"rewrites": graphc.rewrites.none}, how, how):
        f = graphc.function([x], y, **options)
    assert len(planned) == 2
    np.testing.assert_array_equal(f(A[::-1].copy()), A)


def test_everything_about_a_graph_is_part_of_the_key(kept, planned):
    x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    named = gt.tensor("other", "float32", ("n",))
    wide = gt.tensor("x", "float64", ("n",))
    many = np.arange(100, dtype="float32")
    steps = [lambda c, v: (c + v, c), lambda c, v: (c + v, v), lambda c, v: (c - v, c)]
    outputs = [gt.sum(x), gt.sum(x, keepdims=True), x + 1, x + 2, gt.arange(k)]
    outputs += [gt.cumsum(gt.tile(many, k)), gt.cumsum(gt.tile(many[::-1].copy(), k))]
    outputs += [gt.scan(step, gt.sum(x), x)[1] for step in steps]
    programs = [([x, k], y) for y in outputs]
    programs += [([x], x * 2), ([named], named * 2), ([wide], wide * 2), ([x], [x * 2])]
    programs += [([k, x], x * 2), ({"a": x}, x * 2), ([x], {"a": x * 2})]
    for given in programs * 2:
        graphc.function(*given, unused="ignore")
    assert len(planned) == len(programs)


def test_functions_rules_and_budgets_of_users_are_not_kept(kept, planned):
    x = gt.tensor("x", "float32", ("n",))
    turned = graphc.rewrite(lambda a: gt.tanh(a) + 1, exact=True)
    rule = turned(lambda a: 1 + gt.tanh(a))
    blocks = graphc.rewrites.blocking(block_bytes=2**10)
    others = graphc.rewrites.default - blocks.name + blocks
    called = gt.tanh(x) + 1
    for options in (
        {"rewrites": graphc.rewrites.default + rule},
        {"rewrites": others},
        {"dims": graphc.Budget(compilations=3)},
        {"tier": "auto"},
    ):
        graphc.function([x], called, **options)
    assert not kept.exists() and len(planned) == 4


def test_generated_programs_have_the_same_facts(kept):
    """Each process that shares them sees these facts, whatever it built before."""
    for seed in range(40):
        made = []
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                p = generate(seed)
                outputs = [known.symbolic for known in p.made]
                made.append(graphc.function(p.inputs, outputs, unused="ignore"))
        f, g = made
        planned, read = (one._programs.newest.prepared for one in (f, g))
        assert not read.planned and read.facts == planned.facts
        assert g.plan.static_inputs == read.facts.statics
        known = {name: symbol.name for name, symbol in planned.sizes.items()}
        found = {name: symbol.name for name, symbol in read.sizes.items()}
        assert found.items() <= known.items()


SCRIPT = """
    import sys, numpy as np, graphc, graphc.tensor as gt
    from graphc.runtime.pipeline import Pipeline
    first = Pipeline._make_first
    Pipeline._make_first = lambda self: print("planned") or first(self)
    def step(c, v):
        w = gt.where(v > 0, v, c[0])
        return {0: c[0] + w, 1: c[1] * 2}, w
    x = gt.tensor("x", "float32", ("n",))
    last, rows = gt.scan(step, {0: 0.0, 1: 1.0}, x)
    y = {"rows": rows[rows > 1], "grad": graphc.grad(last[0], x)}
    f = graphc.function([x], y)
    print(f(np.arange(4, dtype="float32"))["grad"])
"""


def run(script, directory, seed):
    env = os.environ | {"GRAPHC_CACHE_DIR": str(directory), "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True)


def test_another_process_finds_program_and_executables(tmp_path):
    """The program loops and reads sizes; the seed of hashes does not matter."""
    first = run(SCRIPT, tmp_path, "1").stdout.splitlines()
    files = sorted(p.name for p in tmp_path.rglob("*"))
    second = run(SCRIPT, tmp_path, "2").stdout.splitlines()
    assert first == ["planned", second[-1]] and second == ["[0. 1. 1. 1.]"]
    made = [name for name in files if name.startswith("jit_segment")]
    assert len(made) >= 2
    found = sorted(p.name for p in tmp_path.rglob("*") if "atime" not in p.name)
    assert found == [name for name in files if "atime" not in name]


def digested(body, head="graphc program 1"):
    return f"{head} {sha256(body).hexdigest()}\n".encode() + body


def changed(content, **new):
    return digested(json.dumps(json.loads(content.split(b"\n", 1)[1]) | new).encode())


HARM = "raise SystemExit('run')"
DAMAGED = "it is damaged or cut off: its digest does not match"
BAD = {
    "cut off": (lambda c: c[:-5], DAMAGED),
    "changed": (lambda c: c.replace(b"tanh", b"sinh"), DAMAGED),
    "empty": (lambda c: b"", "it is not a program of graphc"),
    "foreign": (lambda c: HARM.encode(), "it is not a program of graphc"),
    "newer": (
        lambda c: b"graphc program 2 0\n{}",
        "a newer graphc wrote it, in format 2; this is 1",
    ),
    "of another": (
        lambda c: changed(c, key="0", text=HARM),
        "it is the program of another graph",
    ),
    "no text": (lambda c: changed(c, text=None), "it is not a program of graphc"),
    "no numbers": (
        lambda c: changed(c, statics=["0"]),
        "it is not a program of graphc",
    ),
    "more": (lambda c: changed(c, more=1), "it is not a program of graphc"),
    "a list": (lambda c: digested(b"[]"), "it is not a program of graphc"),
    "deep": (lambda c: digested(b"[" * 10**6), "it is not a program of graphc"),
    "no json": (lambda c: digested(b"\xff{"), "it is not a program of graphc"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_told_once_not_run_and_replaced(kept, planned, kind):
    damage, reason = BAD[kind]
    f = graphc.function(*example())
    (path,) = kept.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    with pytest.warns(graphc.CacheWarning) as told:
        g = graphc.function(*example())
    assert [w.message.args[0] for w in told] == [
        f"not used as a cache: {path}\n  {reason}",
    ]
    assert told[0].filename == __file__
    assert g.source == f.source and len(planned) == 2
    assert path.read_bytes() == whole


def test_files_that_others_may_write_are_not_run(kept, planned):
    graphc.function(*example())
    (path,) = kept.iterdir()
    for shared, told in ((path, "it"), (kept, "the directory")):
        shared.chmod(0o777)
        program_cache._reported.clear()
        message = f"not used as a cache: {path}\n  others can write {told}: chmod go-w"
        with pytest.warns(graphc.CacheWarning) as found:
            graphc.function(*example())
        assert found[0].message.args[0] == message
        shared.chmod(0o700)
    assert len(planned) == 3
    path.unlink()
    path.symlink_to(__file__)
    program_cache._reported.clear()
    with pytest.warns(graphc.CacheWarning, match="it cannot be read: "):
        graphc.function(*example())


def test_a_file_of_another_user_is_not_run(kept, monkeypatch):
    graphc.function(*example())
    (path,) = kept.iterdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    reason = f"the directory belongs to another user, number {os.getuid()}"
    with pytest.warns(graphc.CacheWarning) as told:
        graphc.function(*example())
    assert told[0].message.args[0] == f"not used as a cache: {path}\n  {reason}"


def test_a_directory_that_cannot_be_written_is_told_once(tmp_path, kept):
    (tmp_path / "file").write_text("")
    graphc.config.cache_dir = str(tmp_path / "file")
    with pytest.warns(graphc.CacheWarning) as told:
        for _ in range(2):
            graphc.function(*example())(A, 1)
    reason = "it cannot be written: File exists"
    folders = "programs", "executables"
    paths = [tmp_path / "file" / name for name in folders]
    texts = [w.message.args[0] for w in told]
    assert all(f"not used as a cache: {p}\n  {reason}" in texts for p in paths)


def test_writers_at_once_leave_one_whole_file(kept):
    threads = [
        threading.Thread(target=lambda: graphc.function(*example())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (path,) = kept.iterdir()
    assert program_cache.read(graphc.config.cache_dir, path.stem) is not None


@contextlib.contextmanager
def option(name, value):
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    yield
    jax.config.update(name, before)


def test_the_settings_of_jax_are_as_they_were(tmp_path, kept):
    own = tmp_path / "own"
    with (
        option("jax_compilation_cache_dir", str(own)),
        option("jax_persistent_cache_min_compile_time_secs", 0.0),
    ):
        graphc.config.cache_dir = None
        compilation_cache.reset_cache()  # JAX opens one directory, once
        jax.jit(lambda x: x * 3.25)(jnp.ones(7))
        before = {p.name for p in own.iterdir()}
        graphc.config.cache_dir = tmp_path / "cache"
        f = graphc.function(*example(3.5))
        for n in range(1, 4):
            f(np.arange(n, dtype="float32"), 0)
        with contextlib.suppress(graphc.CallError):
            f(np.ones((3, 3), "float32"), 0)
        assert not {p for p in own.iterdir() if "segment" in p.name}
        assert list((tmp_path / "cache" / "executables").glob("jit_segment_0-*"))
        assert jax.config.jax_compilation_cache_dir == str(own)
        assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.0
        jax.jit(lambda x: x * 4.25)(jnp.ones(7))
        assert {p.name for p in own.iterdir()} > before
    compilation_cache.reset_cache()


def test_a_call_that_is_refused_after_a_compilation_ends_it(kept):
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sort(x[x > 0.75]), dims="specialize")
    before = jax.config.jax_compilation_cache_dir
    with graphc.assert_compiles(at_most=1), pytest.raises(graphc.NoCompileError):
        f(np.ones(3, "float32"))  # has two segments
    assert jax.config.jax_compilation_cache_dir == before
    assert [one.segment for one in f.stats().compilations] == [0]


def test_compilations_ahead_are_kept(kept):
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.tanh(x) * 1.75, dims="specialize")
    f.compile({"n": [3, 4]})
    found = (kept.parent / "executables").glob("jit_segment_0-*-cache")
    assert len(list(found)) == 2


def test_threads_open_and_close_one_cache(kept):
    """JAX closes its cache in two steps, between which another thread may open it."""
    kept.parent.mkdir()
    jitted, states = jax.jit(jnp.sin), jax._src.config.config_states
    failures = []

    def compile_some(times, context):
        try:
            for n in range(times):
                with context():
                    jitted.lower(jnp.ones(n + 1)).compile()
        except AssertionError as error:
            failures.append(error)

    cases = [Executables(jax).kept] * 3
    cases.append(lambda: states["jax_compilation_cache_dir"](str(kept.parent)))
    threads = [threading.Thread(target=compile_some, args=(30, case)) for case in cases]
    switched = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switched)
    assert not failures
    assert jax._src.compilation_cache._cache is None
    assert list((kept.parent / "executables").glob("jit_sin-*"))


def test_no_directory():
    for wrong in ("", 3, b"x"):
        with pytest.raises(graphc.GraphError) as told:
            graphc.config.cache_dir = wrong
        assert str(told.value).split("\n  at ")[0] == (
            "config: cache_dir is the path of a directory, or None\n"
            f"  got: {wrong!r}"
        )


def refuse_locks(*_):
    raise OSError(errno.ENOLCK, "no locks available")


@pytest.mark.parametrize("locks", [True, False])
def test_what_was_not_used_for_longest_leaves(kept, monkeypatch, locks):
    if not locks:  # as on some file systems over a network
        monkeypatch.setattr("fcntl.flock", refuse_locks)
    monkeypatch.setattr(cache_room, "PAUSE", -1.0)
    monkeypatch.setattr(graphc.config, "cache_bytes", 2**32)
    for scale in (1.5, 2.5, 3.5):
        graphc.function(*example(scale))(A, 2)
    programs, executables = kept, kept.parent / program_cache.EXECUTABLES
    files = [*programs.iterdir(), *executables.iterdir()]
    for age, path in enumerate(files):
        os.utime(path, (age + 1, age + 1))
    used, oldest = files[0], files[1]
    cache_room.touch(used)
    monkeypatch.setattr(graphc.config, "cache_bytes", sum(map(size_of, files)))
    graphc.function(*example(4.5))(A, 2)
    left = [*programs.iterdir(), *executables.iterdir()]
    assert used.exists() and not oldest.exists()
    assert sum(map(size_of, left)) <= graphc.config.cache_bytes


def size_of(path):
    return path.stat().st_size


WRITING = """
import sys
from graphc.ir.graph.build import config
from graphc.runtime.cache import cache_room, program_cache
from graphc.runtime.cache.jax_cache import Executables
from graphc.runtime.cache.prepared_program import ProgramFacts

directory, name = sys.argv[1:]
config.cache_bytes, cache_room.PAUSE = 40_000, -1.0
for i in range(40):
    facts = ProgramFacts("x" * 4000, True, False, False, (), 1, ())
    program_cache.write(directory, f"{name}{i}", facts)
    for j in range(i + 1):
        found = program_cache.read(directory, f"{name}{j}")
        assert found is None or found == facts
print("whole")
"""


def test_processes_write_and_remove_at_once(kept):
    code = [sys.executable, "-W", "error", "-c", WRITING, str(kept.parent)]
    started = [
        subprocess.Popen([*code, name], stdout=subprocess.PIPE, text=True)
        for name in "abc"
    ]
    assert [p.communicate()[0] for p in started] == ["whole\n"] * 3
    assert sum(map(size_of, kept.iterdir())) <= 60_000


def test_the_room_is_a_number_of_bytes():
    for wrong in (-1, 2.5, True, "1G"):
        with pytest.raises(graphc.GraphError, match="cache_bytes is a number of bytes"):
            graphc.config.cache_bytes = wrong
