"""A Sphinx extension: what a notebook writes to stderr fails the build with its text, and is not kept in the cache.

myst-nb says only that there was such an output, and jupyter-cache keeps it: a message that a machine gives once, at the
first import of a library, would fail every later build as well.
"""

from docutils import nodes
from jupyter_cache import get_cache
from sphinx.util import logging

logger = logging.getLogger(__name__)


def stderr_texts(notebook):
    """The texts that the cells of an executed notebook wrote to stderr."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.text for output in outputs if output.get("name") == "stderr"]


def forget(app, *_):
    """Remove executions with an output on stderr from the cache, also those that an interrupted build left behind."""
    cache = get_cache(app.env.mystnb_config.execution_cache_path)
    for record in cache.list_cache_records():
        if stderr_texts(cache.get_cache_bundle(record.pk).nb):
            cache.remove_cache(record.pk)


def report(app, doctree):
    """One error for each output on stderr, with its text."""
    for block in doctree.findall(nodes.literal_block):
        if "stderr" in block["classes"]:
            cell = block.line // 10_000  # how myst-nb counts
            logger.error(
                "cell %d wrote to stderr:\n%s",
                cell,
                block.astext().rstrip(),
                location=app.env.docname,
            )


def setup(app):
    app.connect("env-before-read-docs", forget)
    app.connect("doctree-read", report)
    app.connect("build-finished", forget)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
