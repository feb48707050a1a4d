"""The texts of `explain()` and the numbers of `stats()`."""

import numpy as np

import graphc
import graphc.tensor as gt
from tests.transform.uncovered import uncovered


def masked(**how):
    x = gt.tensor("x", "float32", ("n", 3))
    k = gt.iscalar("k")
    kept = x[x[:, 0] > 0]
    head = gt.sum(kept[:k], axis=0)
    return graphc.function([x, k], head, rewrites=graphc.rewrites.none, **how)


def test_every_cut_has_its_line_its_reason_and_a_way_out():
    text = masked().explain(full=True)
    assert text.startswith("JAX program of (x: float32[n, 3], k: int64[])")
    assert "2 compiled segments, 1 glue step" in text
    assert "static arguments, used as sizes: k" in text
    read = text[text.index("glue:") : text.index("segment 1")]
    assert "nonzero needs the size kept_count, which depends on data" in read
    assert "test_report.py" in read and "kept = x[x[:, 0] > 0]" in read
    assert "to remove it: " in read
    last = text[text.index("segment 1") :]
    assert "static argument k" in last and "head = gt.sum(kept[:k], axis=0)" in last


def test_the_short_form_has_a_line_per_segment_and_per_reason():
    lines = masked().explain().splitlines()
    assert lines[0] == "JAX program of (x: float32[n, 3], k: int64[])"
    assert lines[1].startswith("  segment 0: ") and lines[1].endswith("compiled per n")
    assert lines[2].endswith("compiled per k (static), kept_count, n")
    assert lines[3].startswith("  read at ") and "nonzero needs the size" in lines[3]
    assert lines[4:] == ["explain(full=True) has each step, with your lines"]
    assert "kept = x" not in "".join(lines)


def test_the_short_form_names_sizes_that_dims_takes():
    x = gt.tensor("x", "float32", ("n", 3))
    outputs = [uncovered(x), gt.linalg.lu_factor(x.T)[0], gt.sort(x, 0)]
    text = graphc.function([x], outputs, dims={"n": "pad"}).explain()
    assert "\n  n: padded to 16, 32, 64 ...\n" in text and "n_capacity" not in text
    assert "true size of n" in text and "capacity of n" in text
    assert text.count("needs true sizes") == 2


def test_guards_are_told():
    x = gt.tensor("x", "float32", ("n",))
    y = gt.tensor("y", "float32", ("m",))
    f = graphc.function([x, y], x + y)
    text = f.explain(full=True)
    assert "guard n == m: shapes do not broadcast" in text
    assert "declare both axes with the same name" in text


def test_numpy_programs_are_one_piece():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], x[x > 0], backend="numpy")
    for text in (f.explain(), f.explain(full=True)):
        assert "NumPy program" in text and "nothing is compiled" in text


def test_plan_is_the_same_as_data():
    f = masked()
    assert [s.index for s in f.plan.segments] == [0, 1]
    (read,) = f.plan.glue
    assert read.place.code == "kept = x[x[:, 0] > 0]"
    assert read.reason in f.explain(full=True) and read.remedy in f.explain(full=True)


def test_the_log_names_size_numbers_and_line():
    f = masked(dims="specialize")
    x = np.array([[1, 2, 3], [4, 5, 6], [-1, 0, 0]], "float32")
    f(x, 1)
    f(x, 2)
    f(x, 1)
    f(-x, 1)
    stats = f.stats()
    assert stats.calls == 4
    assert [c.segment for c in stats.compilations] == [0, 1, 1, 1]
    reasons = [c.reason for c in stats.compilations]
    assert reasons[0] == reasons[1] == "first call"
    assert reasons[2].startswith("k changed from 1 to 2, asked for by basic_index at")
    assert "kept_count changed from 2 to 1" in reasons[3]
    assert "k changed from 2 to 1" in reasons[3]
    assert all(c.seconds > 0 for c in stats.compilations)
    assert str(stats).splitlines()[0] == "4 calls, 4 compilations"


def test_axes_recompile_like_jit_and_repeats_do_not():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sin(x), dims="specialize")
    for n in (2, 3, 2, 3):
        f(np.ones(n, "float32"))
    reasons = [c.reason for c in f.stats().compilations]
    assert len(reasons) == 2 and reasons[1].startswith("n changed from 2 to 3")


def test_messages_of_checks_have_dots_for_numbers():
    x = gt.vector("x", dtype="int64")
    f = graphc.function([x], gt.bincount(x), check=True)
    for text in (f.explain(), f.explain(full=True)):
        assert "bincount: a number is negative: ..." in text
