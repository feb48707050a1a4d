"""Hooks of MkDocs, which add pages from outside docs/ to the site, and adapt links.

In the repository, pages link to files wherever these are. On the site, the examples are
pages with their text, and so are the pages in the root of the repository. MkDocs reads
this file by its path (see mkdocs.yml); the file imports nothing of graphc.
"""

import importlib
import posixpath
import re
from pathlib import Path
from typing import Any

ITEM = re.compile(r"\d+\. ")
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
LINK = re.compile(r"\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def page_of(path: str) -> str:
    """The page of the site for a file or folder of the repository; "" for none.

    >>> page_of("docs/stories/lengths.md"), page_of("examples/penguins.py")
    ('stories/lengths.md', 'examples/penguins.md')
    >>> page_of("CONTRIBUTING.md"), page_of("docs"), page_of("LICENSE")
    ('contributing.md', 'index.md', '')
    """
    folder, _, name = path.partition("/")
    if path in ("docs", "README.md"):
        return "index.md"
    if folder == "docs":
        return name
    if folder == "examples":
        return f"examples/{name.removesuffix('.py')}.md" if name else "examples.md"
    return OUTSIDE.get(path, "")


def with_site_links(text: str, source: str, page: str) -> str:
    """The text of a file of the repository, with its links as the site needs them.

    >>> with_site_links("[a](../examples/a.py), [b](b.md#c)", "docs/x.md", "x.md")
    '[a](examples/a.md), [b](b.md#c)'
    """

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        target = page_of(path)
        if not target:
            return match[0]
        relative = posixpath.relpath(target, posixpath.dirname(page) or ".")
        return f"]({relative}{match[2] or ''})"

    return LINK.sub(link, text)


def with_deeper_lists(text: str) -> str:
    """The text with numbered items apart, and as deep as Python-Markdown needs them.

    >>> print(with_deeper_lists("1. Run\\n\\n       make\\n2. Run\\n   it.\\n\\nEnd"))
    1. Run
    <BLANKLINE>
            make
    <BLANKLINE>
    2. Run
        it.
    <BLANKLINE>
    End
    """
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        begins = ITEM.match(line) is not None
        if begins and inside:
            lines.append("")
        if line and not line.startswith(" "):
            inside = begins
        lines.append(f" {line}" if inside and line.startswith("   ") else line)
    return "\n".join(lines)


def example_page(name: str, text: str) -> str:
    """An example as a page: its docstring, then its code."""
    _, doc, code = text.split('"""', 2)
    title, _, about = doc.strip().partition("\n")
    return f"# {title}\n{about}\n\n```python title={name!r}\n{code.strip()}\n```\n"


def with_fences(lines: list[str]) -> list[str]:
    """The lines of a docstring with fences around its doctests.

    >>> with_fences(["Such as:", "", ">>> 1 + 1", "2", "", "End."])
    ['Such as:', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'End.']
    """
    result: list[str] = []
    inside = False
    for line in [*lines, ""]:
        begins, ends = line.startswith(">>> ") and not inside, inside and not line
        result += ["```pycon"] * begins + ["```"] * ends + [line]
        inside = (inside or begins) and not ends
    return result[:-1]


def on_config(config: Any) -> Any:
    """Fence the doctests in docstrings, once MkDocs has read its settings."""
    markdown = importlib.import_module("markdown")

    def run(_: object, lines: list[str]) -> list[str]:
        return lines if "```" in "".join(lines) else with_fences(lines)

    def extend(_: object, md: Any) -> None:
        md.preprocessors.register(doctests(md), "doctests", 27)

    doctests = type("Doctests", (markdown.preprocessors.Preprocessor,), {"run": run})
    extension = type("Docstrings", (markdown.Extension,), {"extendMarkdown": extend})
    config.markdown_extensions.append(extension())
    return config


def root_of(config: Any) -> Path:
    """The root of the repository, which contains mkdocs.yml."""
    return Path(config.config_file_path).parent


def on_files(files: Any, config: object) -> Any:
    """Add pages from outside docs/, once MkDocs has found the files in it."""
    new = importlib.import_module("mkdocs.structure.files").File.generated
    root = root_of(config)
    for source, page in OUTSIDE.items():
        text = (root / source).read_text(encoding="utf-8")
        files.append(new(config, page, content=with_site_links(text, source, page)))
    for path in sorted((root / "examples").glob("*.py")):
        page = page_of(f"examples/{path.name}")
        text = example_page(path.name, path.read_text(encoding="utf-8"))
        files.append(new(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Adapt the links and lists of a page, before MkDocs renders it."""
    if page.file.abs_src_path is None:  # on_files made the page, and adapted its links
        return with_deeper_lists(markdown)
    path = page.file.src_uri
    return with_site_links(with_deeper_lists(markdown), f"docs/{path}", path)
