"""Advice for errors of JAX about values needed as sizes, choices or numbers."""

import re
from traceback import walk_tb

import jax

from graphc.errors import is_library
from graphc.importers.jax.read.unsupported import users_place

OF_SIZES = (
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
)
OF_PLACES = jax.errors.TracerIntegerConversionError  # or of sizes, if a library asks
OF_NUMBERS = jax.errors.ConcretizationTypeError  # or of sizes, if a library asks
WORDS_OF_SIZES = (  # in errors that have no class of their own
    "Slice entries must be static integers",
    "Array slice indices must have static start/stop/step",
    "Shapes must be 1D sequences of concrete values",
    "must have __hash__ and __eq__ methods",
    "Non-hashable static arguments are not supported",
    "expected a sequence of integers or a single integer",
)
WORDS_OF_KEYS = "unhashable type: 'DynamicJaxprTracer'"  # by a dict, a set or a cache
OF_TEXT = re.compile(r"format.*Tracer|Tracer.*format")  # "%d" % x, f"{x:d}"
METHODS = "core.py", "array_methods.py"  # of JAX's arrays
WAY_OUT = """

graphc can compile it: write the function with the names of numpy (np.nonzero, not
jnp.nonzero), and give it as graphc.jit(function, frontend="numpy"). Sizes may depend on
data there, as in x[mask], x[:k], np.nonzero(x), np.unique(x) and np.arange(k)."""
CHOICE = """

Python chooses by the value of an array{place}: jnp.where(test, a, b) chooses between
arrays, jax.lax.cond(test, f, g, x) between functions of x, and
jax.lax.while_loop(goes_on, step, x) takes steps as long as goes_on(x) holds."""
NUMBER = """

Python asks for the number that is in an array{place}. Leave it an array: x.astype(int)
for int(x), jnp.sqrt(x) for math.sqrt(x), x for x.item() and x.tolist();
jax.lax.fori_loop(0, n, lambda i, x: step(x), x) for a loop over range(n)."""
PLACE = """

Python looks something up by the value of an array{place}: jnp.array(xs)[i] takes one
of the numbers in a list xs, jax.lax.switch(i, functions, x) calls one of several
functions, jax.lax.fori_loop(0, n, lambda i, x: step(x), x) is a loop over range(n)."""

TEXT = """

Text cannot hold a number that is in an array{place}: jax.debug.print("{{x}}", x=x)
prints it when it is computed."""


def tell_way_out(error: Exception) -> None:
    """Add to an error of JAX what the user can write instead.

    With the names of numpy, sizes may depend on values. A number that Python itself
    asks for, as `if x > 0` and `int(x)` do, is known with neither frontend.
    """
    way = _way_for(error)
    if way is None:
        return
    line = users_place(error)
    text = way.format(place=f", at {line}" if line else "")
    if text not in str(error):
        error.args = (f"{error}{text}", *error.args[1:])


def _way_for(error: Exception) -> str | None:
    if _is_of_sizes(error):
        return WAY_OUT
    if isinstance(error, OF_PLACES) or WORDS_OF_KEYS in str(error):
        return PLACE
    if isinstance(error, OF_NUMBERS):
        of_choices = isinstance(error, jax.errors.TracerBoolConversionError)
        return CHOICE if of_choices else NUMBER
    if isinstance(error, TypeError) and OF_TEXT.search(str(error)):
        return TEXT
    return None


def _is_of_sizes(error: Exception) -> bool:
    if isinstance(error, OF_SIZES):
        return True
    if isinstance(error, (OF_NUMBERS, OF_PLACES)):
        return _is_asked_by_library(error)
    of_words = isinstance(error, (TypeError, IndexError, ValueError))
    text = str(error)
    return of_words and "Tracer" in text and any(w in text for w in WORDS_OF_SIZES)


def _is_asked_by_library(error: Exception) -> bool:
    """Whether a library function asks for the number, not the user's own code."""
    return is_library(_asking_file(error))


def _asking_file(error: Exception) -> str:
    """The file of the code that asks for a traced array's value, or "".

    Methods of JAX's arrays such as `__bool__` and `item` have files of their own, which
    are skipped.
    """
    files = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    return next((name for name in reversed(files) if not name.endswith(METHODS)), "")
