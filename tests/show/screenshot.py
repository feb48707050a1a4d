"""Write the screenshot of docs/show.md: python -m tests.show.screenshot."""

import pathlib
import tempfile

import numpy as np
from PIL import Image  # matplotlib installs it

from tests.show.browser import Browser
from tests.show.programs import masked

PICTURE = pathlib.Path(__file__).parents[2] / "docs" / "show.png"
OPEN = (
    "document.querySelector('.segment > .head').click();"
    "document.querySelector('.part.line > .head').click();"
    "document.activeElement.blur(); window.scrollTo(0, 0);"
    "new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))"
)


def main():
    f = masked(dims="specialize")
    f(np.eye(4, 3, dtype="float32") * 2, 2)
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = f.show(pathlib.Path(folder, "plan.html"), open=False)
            browser.visit(path, width=1280, height=860)
        browser.run(OPEN)
        browser.picture(PICTURE)
        Image.open(PICTURE).convert("RGB").quantize(48).save(PICTURE, optimize=True)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
