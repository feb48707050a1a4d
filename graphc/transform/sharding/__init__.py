"""Shards: sizes that are spread over the devices of a mesh, as a policy.

In: the policies that users state, and a mesh.
Out: policies with capacities that all devices share evenly, and which axes lie where.
Begin at `shards`, then `layout`.
"""
