"""A Sphinx extension: the texts of all sections as a script, from which the search page takes its excerpts.

Sphinx's own search page fetches the pages that it found, which a browser refuses for a page opened from the disk.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import desc_signature

SCRIPT = "_static/search_texts.js"
UNREAD = (
    nodes.raw,
    nodes.comment,
    nodes.image,
    nodes.target,
    nodes.pending,
    nodes.problematic,
    desc_signature,
)


def is_section(node):
    """Whether a node is a section of the page; the bodies of theorems and proofs are sections without a title."""
    return isinstance(node, nodes.section) and isinstance(node.next_node(), nodes.title)


def text(node):
    """The words of a node; not those of its subsections, of its title and of what is not prose or code."""
    if isinstance(node, nodes.Text):
        return str(node)
    read = [
        child
        for child in node.children
        if not (is_section(child) or isinstance(child, (nodes.title, *UNREAD)))
    ]
    words = "".join(text(child) for child in read)
    return words if isinstance(node, nodes.Inline) else words + " "


def sections(doctree):
    """One entry for each section of a page: [id, title, text]."""
    return [
        [
            section["ids"][0],
            section.next_node(nodes.title).astext(),
            " ".join(text(section).split()),
        ]
        for section in doctree.findall(is_section)
    ]


def collect(app, pagename, templatename, context, doctree):
    if doctree is not None:
        app.search_texts[pagename] = sections(doctree)


def write(app, exception):
    if exception is None and app.builder.format == "html":
        texts = json.dumps(app.search_texts, ensure_ascii=False, separators=(",", ":"))
        Path(app.outdir, SCRIPT).write_text(
            f"var searchTexts = {texts};\n", encoding="utf-8"
        )


def setup(app):
    app.search_texts = {}
    app.connect("html-page-context", collect)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
