"""The entries of docs/troubleshooting.md, and the modules whose errors they explain."""

# The entry of docs/troubleshooting.md that explains the errors of a module or room;
# where several names fit, the longest one counts.
ENTRIES = {
    "backends": "function",
    "checking": "rules",
    "control": "loops",
    "errors": "operation",
    "explain": "plan",
    "importers": "jit",
    "importers.jax.call.exact_export": "export",
    "importers.jax.call.export": "export",
    "importers.jax.ragged": "ragged",
    "importers.numpy": "numpy",
    "importers.numpy.export": "export",
    "ir": "operation",
    "ir.config": "settings",
    "ir.sizes": "size",
    "ir.text": "text",
    "ops": "operation",
    "pymc": "pymc",
    "pytensor": "pytensor",
    "rewriting": "rules",
    "runtime": "function",
    "runtime.ahead_of_calls": "ahead",
    "runtime.cache": "text",
    "runtime.driver.devices": "device",
    "runtime.driver.meshes": "device",
    "runtime.ragged": "ragged",
    "runtime.save": "export",
    "runtime.shards": "sharding",
    "runtime.stretching": "size",
    "runtime.variants.decisions": "jit",
    "show": "plan",
    "tensor": "operation",
    "testing": "compilations",
    "transform": "batching",
    "transform.derivatives": "gradient",
    "transform.derivatives.vectorize": "batching",
    "transform.loops": "loops",
    "transform.padding": "padding",
    "transform.planning": "policy",
    "transform.policies": "policy",
    "transform.sharding": "sharding",
}


def entry_of(module: str) -> str:
    """The entry for the errors of a module of graphc, "" for other modules."""
    package, _, name = module.partition(".")
    while name and name not in ENTRIES:
        name = name.rpartition(".")[0]
    return ENTRIES.get(name, "") if package == "graphc" else ""


def pointing(message: str, entry: str) -> str:
    """The message with a last line that names the command explaining it."""
    return f"{message}\n  help: graphc help {entry}" if entry else message
