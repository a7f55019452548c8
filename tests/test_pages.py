"""The built pages, read as text: nothing is missing, nothing is left raw, every link leads somewhere."""

import json
import re
import subprocess
import sys
from functools import cache
from urllib.parse import unquote, urlsplit

import pytest
from book_site import ROOT, SITE, article, parse, toc_pages

PAGES = toc_pages()
every_page = pytest.mark.parametrize("name", PAGES)
pytestmark = pytest.mark.usefixtures("site")

RAW_MYST = re.compile(
    r":::|```|\{(?:[a-z]+:)?[a-z-]+\}`|\$\$|\$\\?\w[^$]*\$|^\s*:(?:label|class|name|nonumber):|\{(?:note|tip|exercise|solution)[a-z-]*\}",
    re.M,
)
# attributes that make a browser load something at once
LOADED = [("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("object", "data")]


def prose(name):
    """The text of a page without code and formulas."""
    body = parse(SITE / f"{name}.html").__copy__().select_one("article.bd-article")
    for element in body.select("pre, code, script, style, .math"):
        element.decompose()
    return body.get_text()


@every_page
def test_the_page_exists_and_has_one_title(name):
    assert (SITE / f"{name}.html").exists()
    titles = article(name).find_all("h1")
    assert len(titles) == 1 and titles[0].get_text(strip=True)


@every_page
def test_headings_do_not_skip_a_level(name):
    """Screen readers move by headings."""
    levels = [int(h.name[1]) for h in article(name).find_all(re.compile("^h[1-6]$"))]
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:])), levels


@every_page
def test_every_picture_is_described(name):
    for image in article(name).find_all("img"):
        assert image.get("alt", "").strip(), image
    for figure in article(name).select("figure.ictd-figure"):
        caption = figure.find("figcaption")
        assert caption and caption.get_text(strip=True), "a figure without a caption"
        assert figure.find_all("svg") or figure.find_all("img")
        for drawing in figure.find_all("svg"):
            title = drawing.find("title")
            words = drawing.get("aria-label") or (title and title.get_text(strip=True))
            assert drawing.get("role") == "img" and words, (
                f"a drawing above {caption.get_text()[:40]!r} has no description"
            )


@every_page
def test_no_raw_myst_is_left(name):
    assert [match.group() for match in RAW_MYST.finditer(prose(name))] == []


def test_raw_myst_would_be_found():
    for text in ("see {eq}`a`", "{prf:ref}`b`", ":::{note}", "```{tip}", "$$ x $$", "where $x$ is", "\n:label: c\n"):
        assert RAW_MYST.search(text), text
    assert not RAW_MYST.search("a price of $5, a set {1, 2}, and a slice a[1:2]")


@cache
def ids(path):
    """Every place in a file that a link can lead to."""
    return {
        e.get("id") or e.get("name")
        for e in parse(path).find_all(lambda e: e.get("id") or (e.name == "a" and e.get("name")))
    }


@every_page
def test_links_within_the_book_lead_somewhere(name):
    page, broken = SITE / f"{name}.html", []
    for link in parse(page).find_all("a", href=True):
        url = urlsplit(link["href"])
        if url.scheme or url.netloc:
            continue
        target = (page.parent / unquote(url.path)).resolve() if url.path else page
        if not target.exists() or SITE not in target.parents:
            broken.append(f"no such file: {link['href']}")
        elif url.fragment and target.suffix == ".html" and unquote(url.fragment) not in ids(target):
            broken.append(f"no such place: {link['href']}")
    assert broken == []


@every_page
def test_referenced_equations_carry_the_number_that_is_shown(name):
    page = SITE / f"{name}.html"
    for link in article(name).select('a[href*="#equation-"]'):
        url = urlsplit(link["href"])
        target = parse((page.parent / url.path).resolve() if url.path else page).find(id=unquote(url.fragment))
        assert target is not None, link["href"]
        assert link.get_text(strip=True) in target.get_text(), f"{link['href']} shows {link.get_text()}"


@every_page
def test_nothing_is_loaded_from_another_machine(name):
    page = parse(SITE / f"{name}.html")
    urls = [e[attribute] for tag, attribute in LOADED for e in page.find_all(tag, attrs={attribute: True})]
    urls += [
        e["href"]
        for e in page.find_all("link", href=True)
        if set(e["rel"]) & {"stylesheet", "icon", "preload", "modulepreload", "preconnect"}
    ]
    assert [url for url in urls if urlsplit(url).scheme not in ("", "data") or urlsplit(url).netloc] == []


@pytest.mark.parametrize("name", [name for name in PAGES if (ROOT / f"{name}.ipynb").exists()])
def test_the_notebook_of_a_page_can_be_downloaded(name):
    links = [a["href"] for a in parse(SITE / f"{name}.html").find_all("a", href=True) if a["href"].endswith(".ipynb")]
    assert links
    stored = (SITE / f"{name}.html").parent / links[0]
    assert json.loads(stored.read_text(encoding="utf-8"))["nbformat"] == 4


def test_the_front_page_leads_to_the_book():
    assert PAGES[0] in (SITE / "index.html").read_text(encoding="utf-8")


def test_carried_libraries_are_the_ones_in_the_manifest():
    """The JavaScript in the repository is what its publishers released, plus the listed patches."""
    check = subprocess.run([sys.executable, ROOT / "book/_vendor/refresh.py"], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr
