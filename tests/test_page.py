"""Figures in a page: the texts that must be there, markup, panels, and the copy for untrusted notebooks."""

import base64
import re
import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("matplotlib")

from drawings import ALT, figure  # noqa: E402

from ictd import plots  # noqa: E402


@pytest.mark.parametrize(
    ("caption", "alt", "error", "message"),
    [
        ("", ALT, ValueError, "caption must not be empty"),
        ("  \n", ALT, ValueError, "caption must not be empty"),
        (None, ALT, TypeError, "caption must be a string, got NoneType"),
        ("Costs $x.", ALT, ValueError, "dollar sign without its partner"),
        ("A caption.", "", ValueError, "alt must not be empty"),
        ("A caption.", None, TypeError, "alt must be a string or a list of strings, got NoneType"),
        ("A caption.", "A line.", ValueError, "at least 20 characters, got 'A line.'"),
        ("The error halves each step.", "The error halves  each step", ValueError, "must not repeat the caption"),
        ("A caption.", "A line that falls as $2^{-n}$.", ValueError, "cannot hold formulas"),
        ("A caption.", [ALT, ALT], ValueError, "one for each of the 1 panels, got 2"),
        ("A caption.", [ALT[:5]], ValueError, "at least 20 characters"),
    ],
)
def test_texts_are_required(caption, alt, error, message):
    with pytest.raises(error, match=re.escape(message)):
        plots.show(figure(), caption=caption, alt=alt)


def test_texts_cannot_be_left_out():
    with pytest.raises(TypeError, match="caption"):
        plots.show(figure(), alt=ALT)
    with pytest.raises(TypeError, match="alt"):
        plots.show(figure(), caption="A caption.")


@pytest.mark.parametrize("figures", [[], None, "figure", [figure, 1]])
def test_only_figures_are_shown(figures):
    with pytest.raises(TypeError, match="figures must be a matplotlib Figure"):
        plots.show(figures, caption="A caption.", alt=ALT)


def test_markup():
    output = plots.show(figure(), caption='Errors < 1 & "more", with $a < b$.', alt='The "error" falls below 1 < 2.')
    root = ET.fromstring(re.sub(r"<img [^>]*>", "", output._repr_html_()))
    assert root.tag == "figure" and root.get("class") == "ictd-figure"
    panels, caption = root
    assert panels.get("class") == "ictd-panels" and caption.tag == "figcaption"
    assert "".join(caption.itertext()) == 'Errors < 1 & "more", with \\(a < b\\).'
    (svg,) = panels
    assert svg.get("role") == "img" and svg.get("aria-label") == 'The "error" falls below 1 < 2.'
    assert repr(output) == '[Figure: The "error" falls below 1 < 2.]'


def test_panels_share_one_text_or_have_their_own():
    one = plots.show([figure(), figure()], caption="Two panels.", alt=ALT).html
    assert one.count('role="img"') == 1 and one.count('aria-hidden="true"') == 1
    two = plots.show([figure(), figure()], caption="Two panels.", alt=[ALT, "The same line once more, unchanged."]).html
    assert two.count('role="img"') == 2 and "aria-hidden" not in two


def test_nothing_reaches_outside_the_drawing():
    text = plots.show(figure(), caption="A caption.", alt=ALT).html
    assert not re.search(r"<style|<\?xml|<metadata|<!--|<script|font-family|https?://(?!www\.w3\.org)", text)
    assert "#000000" not in text and "currentColor" in text


def test_ids_are_unique_and_resolve():
    pages = [plots.show([figure(), figure()], caption=caption, alt=ALT).html for caption in ("One.", "Two.")]
    ids = re.findall(r' id="([^"]+)"', "".join(pages))
    assert len(ids) == len(set(ids)) > 4
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', "".join(pages)))
    assert {a or b for a, b in used} <= set(ids)


def test_copy_for_untrusted_notebooks():
    text = plots.show(figure(), caption="A caption.", alt=ALT).html
    pattern = r'<desc><img alt="[^"]+" style="[^"]+" src="data:image/svg\+xml;base64,([^"]+)"></desc>'
    (source,) = re.findall(pattern, text)
    copy = ET.fromstring(base64.b64decode(source))
    assert copy.tag == "{http://www.w3.org/2000/svg}svg"
    assert "background:#fff" in copy.get("style")
    shown = ET.fromstring(re.sub(pattern, "", text)).find("div/svg")
    assert [re.sub("{.*}", "", node.tag) for node in copy.iter()] == [node.tag for node in shown.iter()]
