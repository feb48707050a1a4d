"""Values that come with a check, a message, or a place on a mesh."""

import graphc.tensor as gt
from tests.samples.spec import a, call, sample

SAMPLES = [
    sample(
        "assert_",
        call(a(2, 3)),
        numpy=lambda x: x,
        ours=lambda x: gt.assert_(gt.equal(x, x), "equal to itself", x),
    ),
    sample("with_sharding", call(a(2, 3), ("data", None)), numpy=lambda x, axes: x),
    sample("debug_print", call("x is {}", a(2, 3)), numpy=lambda text, x: x),
]
