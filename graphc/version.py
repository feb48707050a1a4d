"""The version of graphc."""

VERSION = "0.1.0"
