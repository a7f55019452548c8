"""Where the built book lies and what belongs to it; shared by the page and browser tests."""

from functools import cache
from pathlib import Path

import yaml
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"


def toc_pages():
    """Names of the book's pages in reading order, such as ``book/notation``."""

    def walk(node):
        if isinstance(node, dict):
            for key in ("root", "file"):
                if key in node:
                    yield node[key].removesuffix(".md").removesuffix(".ipynb")
            for key in ("parts", "chapters", "sections", "entries", "subtrees"):
                for child in node.get(key, []):
                    yield from walk(child)

    return list(walk(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))))


def notebooks():
    """Paths of the notebooks among the book's pages."""
    return [path for name in toc_pages() if (path := ROOT / f"{name}.ipynb").exists()]


@cache
def parse(path):
    """The parsed HTML of one built file."""
    return BeautifulSoup(Path(path).read_text(encoding="utf-8"), "html.parser")


def article(name):
    """The part of a built page that its author wrote."""
    return parse(SITE / f"{name}.html").select_one("article.bd-article")


if __name__ == "__main__":  # for the Makefile, which gives the list to pytest
    for path in notebooks():
        print(path.relative_to(ROOT))
