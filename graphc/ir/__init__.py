"""The intermediate representation: dims, types, nodes and how they are made."""
