"""The folders of tests mirror the folders of the code that they test."""

import pathlib

import graphc

HOUSE = pathlib.Path(graphc.__file__).parent
TESTS = pathlib.Path(__file__).parents[1]

# Folders of tests that concern all rooms, or something outside of the package.
ACROSS = {
    *("architecture", "conformance", "errors", "fuzz", "samples"),
    *("benchmarks", "docs", "examples"),
}


def test_folders_of_tests_are_rooms():
    files = [f.relative_to(TESTS) for f in TESTS.rglob("test_*.py")]
    folders = {f.parent for f in files if f.parent.parts}
    strange = [
        str(folder)
        for folder in sorted(folders)
        if folder.parts[0] not in ACROSS and not (HOUSE / folder).is_dir()
    ]
    assert strange == []
    assert not [name for name in ACROSS if (HOUSE / name).is_dir()]
