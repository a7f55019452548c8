"""A figure in a page: its drawing, the caption below it, and a description for those who cannot see it."""

import base64
import html
import re
from dataclasses import dataclass

from matplotlib.figure import Figure

from ictd.plots.style import CAPTION
from ictd.plots.vector import svg


@dataclass(frozen=True)
class FigureOutput:
    """A figure ready to be displayed; Jupyter shows `html`, a plain console shows the description."""

    html: str
    caption: str
    alt: str

    def _repr_html_(self):
        return self.html

    def __repr__(self):
        return f"[Figure: {self.alt}]"


def show(figures, *, caption, alt):
    """Caption and description around one figure or several panels, as inline SVG.

    Parameters
    ----------
    figures : Figure or sequence of Figure
        Several figures stand side by side where there is room and below each other on a phone.
    caption : str
        Stands below the figure. Formulas between dollar signs are set by MathJax.
    alt : str or sequence of str
        What the figure shows, for readers who do not see it: at least 20 characters, plain text, another text
        than the caption. One string describes all panels together; a sequence has one string for each panel.

    Returns
    -------
    FigureOutput
        Leave it as the last value of a cell.

    Raises
    ------
    TypeError, ValueError
        For a missing caption or description, and for text too small to read on a phone.
    """
    panels = list(figures) if isinstance(figures, (list, tuple)) else [figures]
    if not panels or not all(isinstance(panel, Figure) for panel in panels):
        raise TypeError("figures must be a matplotlib Figure or a non-empty list of them (new returns both)")
    caption = checked_text("caption", caption)
    alts = [alt] if isinstance(alt, str) else list(alt) if isinstance(alt, (list, tuple)) else None
    if alts is None:
        raise TypeError(f"alt must be a string or a list of strings, got {type(alt).__name__}")
    if len(alts) not in (1, len(panels)):
        raise ValueError(f"alt must be one string or one for each of the {len(panels)} panels, got {len(alts)}")
    alts = [checked_alt(text, caption) for text in alts]
    drawings = []
    for i, panel in enumerate(panels):
        text = alts[i] if i < len(alts) else None
        drawings.append(_with_picture(svg(panel, alt=text, key=f"{caption} {i}"), text or ""))
    # styles are inline for pages without the book's CSS; the font size serves `_with_picture`
    content = (
        '<figure class="ictd-figure" style="margin:1em 0">'
        '<div class="ictd-panels" style="display:flex;flex-wrap:wrap;gap:16px;justify-content:center;font-size:0">'
        f"{''.join(drawings)}</div>"
        f'<figcaption style="{CAPTION}">{caption_html(caption)}</figcaption></figure>'
    )
    return FigureOutput(content, caption, " ".join(alts))


def _with_picture(drawing, alt):
    """The drawing with a copy of itself as `<img>` inside its `<desc>`, which a browser does not show.

    JupyterLab removes the tags of SVG, but neither their text nor images, from notebooks that it does not trust
    yet. Then the copy appears, on white, and the text around it has no height.
    """
    on_white = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" ', 1)
    on_white = on_white.replace('style="', 'style="background:#fff;', 1)
    source = base64.b64encode(on_white.encode()).decode()
    width = drawing.partition("max-width:")[2].partition(";")[0]
    picture = (
        f'<img alt="{html.escape(alt)}" style="width:{width};max-width:100%" src="data:image/svg+xml;base64,{source}">'
    )
    start, end, rest = drawing.partition(">")
    return f"{start}{end}<desc>{picture}</desc>{rest}"


def caption_html(caption):
    r"""Escaped text in which ``$...$`` becomes ``\(...\)`` in the element that Sphinx marks for MathJax."""
    parts = caption.split("$")
    if len(parts) % 2 == 0:
        raise ValueError(f"caption has a dollar sign without its partner: {caption!r}")
    return "".join(
        f'<span class="math notranslate nohighlight">\\({html.escape(part)}\\)</span>' if i % 2 else html.escape(part)
        for i, part in enumerate(parts)
    )


def checked_text(name, text):
    """`text` with single spaces; an error that names the argument unless it is a string with something in it."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, got {type(text).__name__}")
    text = " ".join(text.split())
    if not text:
        raise ValueError(f"{name} must not be empty: say in a sentence what the figure shows")
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", text):
        raise ValueError(f"{name} must hold no control characters, got {text!r}")
    return text


def checked_alt(alt, caption):
    """`alt` with single spaces; an error unless it is a description of its own."""
    alt = checked_text("alt", alt)
    if len(alt) < 20:
        raise ValueError(f"alt must describe the figure in at least 20 characters, got {alt!r}")
    if alt.rstrip(".") == caption.rstrip("."):
        raise ValueError("alt must not repeat the caption: describe what can be seen")
    if "$" in alt:
        raise ValueError(f"alt is read aloud and cannot hold formulas between dollar signs: {alt!r}")
    return alt
