"""A figure as a compact SVG element: the same bytes in every run, ids of its own, black in the page's text colour."""

import hashlib
import io
import re
import xml.etree.ElementTree as ET
from itertools import groupby

import numpy as np
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

from ictd._arguments import declare, instance, optional
from ictd.plots import arguments
from ictd.plots.style import PHONE_TEXT, PHONE_WIDTH, WIDTH, book_settings

_INHERITED = {"font-size: 10px", "text-anchor: start"}  # from the svg element that `svg` writes


@book_settings()
@declare(fig=instance(Figure), key=instance(str), alt=optional(instance(str)), digits=arguments.digits)
def svg(fig, *, alt=None, key="", digits=2):
    """A figure as a compact `<svg>` element for use inside a page.

    Parameters
    ----------
    fig : Figure
    alt : str, optional
        The accessible name. Without it the drawing is hidden from screen readers.
    key : str
        Makes the ids differ from those of an equal drawing elsewhere on the page.
    digits : int
        Decimals that coordinates keep, in points.

    Returns
    -------
    str
        Black is replaced by `currentColor`, fonts by those of the page; ids begin with a hash of `key` and drawing.

    Raises
    ------
    ValueError
        If text would be smaller than `PHONE_TEXT` CSS pixels on a phone.
    """
    _check_text_size(fig)
    for box in fig.findobj(Legend):
        box.set_frame_on(False)  # its white face would show on a dark page
    stream = io.StringIO()
    _settle_layout(fig)
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    fig.savefig(stream, format="svg", transparent=True, metadata=metadata)
    source = stream.getvalue()
    root = ET.fromstring(re.sub(r' xmlns(:xlink)?="[^"]*"', "", source).replace(" xlink:href=", " href="))
    _tidy(root, digits)
    width, height = root.get("viewBox").split()[2:]
    root.attrib = {
        "viewBox": root.get("viewBox"),
        "width": "100%",
        # panels share a row only where text of 10 points keeps 10 pixels
        "style": f"flex:1 1 {float(width):.0f}px;min-width:0;max-width:{1.5 * float(width):.0f}px;height:auto;"
        f"aspect-ratio:{width}/{height}",
        "fill": "currentColor",
        "font-size": "10",
        "stroke-linejoin": "round",
        **({"role": "img", "aria-label": alt} if alt else {"aria-hidden": "true"}),
    }
    root.text = None
    text = ET.tostring(root, encoding="unicode").replace(" />", "/>")
    # matplotlib's ids hash unrounded coordinates: hash the drawing without them
    digest = hashlib.sha256(f"{key}\n{_rename_ids(text, '')}".encode()).hexdigest()[:8]
    return _rename_ids(text, digest)


def _settle_layout(fig):
    """Repeat the layout until it stands still: new sizes change the ticks, and these the space for labels."""
    engine, before = fig.get_layout_engine(), None
    for _ in range(12 if engine else 0):
        engine.execute(fig)
        now = [np.round(ax.get_position().bounds, 7).tolist() for ax in fig.axes]
        if now == before:
            return
        before = now


def _check_text_size(fig):
    scale = PHONE_WIDTH / (72 * fig.get_figwidth())
    for text in fig.findobj(Text):
        if text.get_visible() and text.get_text().strip() and text.get_fontsize() * scale < PHONE_TEXT:
            raise ValueError(
                f"the text {text.get_text()!r} would be {text.get_fontsize() * scale:.1f} pixels high on a phone, "
                f"expected at least {PHONE_TEXT}: use a larger font or a figure at most {WIDTH} inches wide"
            )


def _tidy(element, digits):
    """Drop what a page does not need and shorten the rest, in place."""
    for child in list(element):
        is_style = child.tag == "defs" and child.find("style") is not None  # its rule `*{}` would reach the whole page
        if is_style or child.tag == "metadata":
            element.remove(child)
        else:
            _tidy(child, digits)
    kept = []
    for child in element:
        child.attrib = dict(_short_attributes(child, digits))
        child.tail = None
        if child.tag != "text" and child.tag != "tspan":
            child.text = None
        invisible = child.tag == "path" and child.get("style") == "fill:none"
        if child.tag == "g" and not child.attrib:
            kept.extend(child)
        elif not invisible and (child.tag not in ("g", "defs") or len(child)):
            kept.append(child)
    if element.get("id", "").startswith("matplotlib.axis"):
        kept.sort(key=lambda e: e.tag == "text")  # grid lines first, so that both can be grouped
    element[:] = _grouped(kept)


def _grouped(elements):
    """Neighbours with the same look, in one `<g>` that states it once."""
    for look, run in groupby(elements, key=lambda e: (e.tag, e.get("style"), e.get("clip-path"))):
        run = list(run)
        tag, style, clip = look
        # opacity is not inherited, and definitions keep their own look
        if len(run) > 1 and style and tag in ("path", "use", "text") and not re.search("(^|;)opacity", style):
            group = ET.Element("g", {"style": style, **({"clip-path": clip} if clip else {})})
            for element in run:
                del element.attrib["style"]
                element.attrib.pop("clip-path", None)
            group.extend(run)
            yield group
        else:
            yield from run


def _short_attributes(element, digits):
    for name, value in element.attrib.items():
        if name == "id" and element.tag == "g":
            continue
        if name in ("d", "x", "y", "width", "height", "transform"):
            value = round_numbers(value, digits)
            if name == "d":
                value = shorten_path(value)
            if value.startswith("rotate(0 "):
                continue
        elif name == "style":
            value = _shorten_style(value, digits)
            if not value:
                continue
        yield name, value


def _shorten_style(style, digits):
    """Without font families (those of the page are inherited), with black as `currentColor`."""
    rules = []
    for rule in style.split(";"):
        name, _, value = (part.strip() for part in rule.partition(":"))
        if name in ("fill", "stroke") and value == "#000000":
            value = "currentColor"
        if name == "font":  # the shorthand: [style] [weight] size family
            match = re.match(r"(?P<words>(?:[a-z0-9]+ )*?)(?P<size>[\d.]+px)", value)
            rules += [f"font-size:{match['size']}"] * (match["size"] != "10px")
            words = match["words"].split()
            rules += [f"font-weight:{word}" for word in words if word == "bold" or word.isdigit()]
            rules += [f"font-style:{word}" for word in words if word in ("italic", "oblique")]
        elif name and name != "font-family" and rule.strip() not in _INHERITED:
            rules.append(f"{name}:{round_numbers(value, digits) if not value.startswith(('#', 'url')) else value}")
    return ";".join(rules)


def round_numbers(text, digits):
    """Round the decimal numbers in `text`."""

    def short(match):
        number = f"{float(match[0]):.{digits}f}".rstrip("0").rstrip(".")
        return "0" if number in ("-0", "") else number

    return re.sub(r"-?\d+\.\d+(?:e-?\d+)?|-0(?![\d.])", short, text)


def shorten_path(path):
    """Without line breaks and repeated commands: `M 0 0 L 1 1 L 2 0` becomes `M0 0 1 1 2 0`."""
    words, before = [], None
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        implied = command == before or (command == "L" and before == "M")
        if not (implied and command in "LCQ"):
            words.append(command)
        elif words:
            words.append(" ")
        words.append(" ".join(numbers.split()))
        before = "L" if command == "M" else command
    return "".join(words)


def _rename_ids(text, prefix):
    names = {}
    for old in re.findall(r' id="([^"]+)"', text):
        names.setdefault(old, f"i{prefix}{len(names)}")
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{names[m[1]]}"', text)
    return re.sub(r"(url\(#|href=\"#)([^)\"]+)", lambda m: m[1] + names[m[2]], text)
