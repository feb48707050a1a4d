"""The primitive ops and the functions composed of them, a folder per family.

Importing a family adds it to the namespace, which happens here and only here. A folder
imports only itself and `common`; it reaches other families through `F`.

In: values, arrays and numbers, as users call functions of NumPy.
Out: nodes; all that is known about a primitive is beside its definition.
Begin at `common`, then `elementwise` and `reductions`; docs/add_an_op.md adds one.
"""

# ruff: noqa: F401, I001
# The order of these imports is the order in which messages list a name that several
# spaces have: `gt.special.softmax` comes before `gt.nn.softmax`.

import graphc.ops.special.bessel
import graphc.ops.special.functions
import graphc.ops.special.inverse
import graphc.ops.special.of_jax
import graphc.ops.arrays.create
import graphc.ops.arrays.insert_delete
import graphc.ops.arrays.join
import graphc.ops.arrays.pad
import graphc.ops.arrays.rearrange
import graphc.ops.arrays.reshape
import graphc.ops.arrays.sequences
import graphc.ops.arrays.sizes
import graphc.ops.arrays.stated_sizes
import graphc.ops.effects.assertions
import graphc.ops.effects.barriers
import graphc.ops.effects.capacities
import graphc.ops.effects.foreign
import graphc.ops.effects.guesses
import graphc.ops.effects.host_calls
import graphc.ops.effects.shardings
import graphc.ops.elementwise.compare
import graphc.ops.elementwise.declare
import graphc.ops.elementwise.dtypes
import graphc.ops.elementwise.numeric
import graphc.ops.elementwise.select
import graphc.ops.elementwise.ufuncs
import graphc.ops.fft.padding
import graphc.ops.fft.transforms
import graphc.ops.fft.frequencies
import graphc.ops.indexing.at
import graphc.ops.indexing.basic
import graphc.ops.indexing.gather
import graphc.ops.indexing.padded_positions
import graphc.ops.indexing.padding
import graphc.ops.indexing.positions
import graphc.ops.indexing.scatter
import graphc.ops.indexing.take
import graphc.ops.linalg.decompositions
import graphc.ops.linalg.det
import graphc.ops.linalg.eigh
import graphc.ops.linalg.lstsq
import graphc.ops.linalg.matrix_functions
import graphc.ops.linalg.norm
import graphc.ops.linalg.solve
import graphc.ops.linalg.tridiagonal
import graphc.ops.nn.activations
import graphc.ops.nn.conv
import graphc.ops.nn.conv_padding
import graphc.ops.nn.fused_attention
import graphc.ops.nn.layers
import graphc.ops.nn.pool
import graphc.ops.nn.pooling
import graphc.ops.products.contract
import graphc.ops.products.einsum
import graphc.ops.products.multi_dot
import graphc.ops.products.polynomials
import graphc.ops.random.choice
import graphc.ops.random.keys
import graphc.ops.random.continuous
import graphc.ops.random.discrete
import graphc.ops.random.vectors
import graphc.ops.reductions.arg_extremes
import graphc.ops.reductions.cumulative
import graphc.ops.reductions.differences
import graphc.ops.reductions.mean_var
import graphc.ops.reductions.nan
import graphc.ops.reductions.quantiles
import graphc.ops.reductions.reduce
import graphc.ops.reductions.segments
import graphc.ops.reductions.statistics
import graphc.ops.reductions.stretched_axes
import graphc.ops.sorting.partition
import graphc.ops.sorting.sets
import graphc.ops.sorting.sort_search
import graphc.ops.arrays.integer_ranges  # after the ops that its rules name
