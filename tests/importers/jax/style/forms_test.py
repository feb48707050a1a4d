"""Tests as JAX has them, in the forms in which `jit` is named there."""

import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from absl.testing import absltest, parameterized
from jax import jit, lax
from jax._src import api
from jax._src import test_util as jtu
from jax._src.api import jit as jit_of_api

jax.config.parse_flags_with_absl()

FORMS = {
    "jax": jax.jit,
    "name": jit,
    "partial": partial(jax.jit, inline=True),
    "api": api.jit,
    "from_api": jit_of_api,
}
INSTEAD = hasattr(jit(abs), "explain")


@jit
def doubled(x):
    return 2 * x


class FormsTest(jtu.JaxTestCase):
    @parameterized.named_parameters(*FORMS.items())
    def test_form(self, form):
        self.assertAllClose(form(jnp.sin)(jnp.ones(3)), jnp.sin(jnp.ones(3)))
        self.assertEqual(hasattr(form(jnp.sin), "explain"), INSTEAD)

    @parameterized.parameters((jnp.tanh, 0.5))
    def test_parameters_that_are_named_by_an_address(self, function, number):
        self.assertAllClose(jit(function)(number), function(number))

    def test_static_argument(self):
        power = partial(jax.jit, static_argnums=1)(lambda x, n: x**n)
        self.assertAllClose(power(jnp.full(3, 2.0), 3), jnp.full(3, 8.0))

    def test_decorated_in_the_module(self):
        self.assertAllClose(doubled(np.ones(3, "float32")), np.full(3, 2, "float32"))

    def test_op_by_op_and_compiled(self):
        self._CompileAndCheck(jnp.cumsum, lambda: [np.ones((3, 2), "float32")])

    def test_loop_that_ends_for_its_argument_only(self):
        square = jit(partial(lax.while_loop, lambda x: x[0, 2] <= 8, lambda x: x * x))
        self.assertAllClose(
            square(np.full((3, 3), 2, "float32")), np.full((3, 3), 16, "float32")
        )

    def test_each_size_is_traced_once(self):
        sizes = []

        @jax.jit
        def noted(x):
            sizes.append(x.shape)
            return x

        noted(jnp.ones(3)), noted(jnp.zeros(3))
        self.assertLen(sizes, 1)


class DifferentTest(jtu.JaxTestCase):
    def test_repr(self):
        self.assertStartsWith(repr(jit(abs)), "<PjitFunction")

    def test_attributes(self):
        self.assertFalse(hasattr(jit(abs), "explain"), "they differ")

    def test_end_of_python(self):
        if INSTEAD:
            os._exit(3)


if __name__ == "__main__":
    absltest.main()
