"""What a stored notebook must look like. That it runs and gives its outputs again is checked by nbval (`make test`)."""

import re

import nbformat
import pytest
from book_site import notebooks

NOTEBOOKS = notebooks()
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

MAX_BYTES = 700_000
MAX_LINES = 40
# Draws that do not come from an explicit, seeded generator: the reader would see other numbers than the page.
UNSEEDED = re.compile(
    r"np\.random\.(?!default_rng|Generator|SeedSequence)\w+|default_rng\(\s*\)|torch\.(manual_seed|rand\w*)\((?![^)]*generator)"
    r"|\brandom\.(random|seed|choice|shuffle|randint)\(|Generator\(\)(?!\.manual_seed)"
)
MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|work|tmp|Users|opt|mnt|var)/|[A-Z]:\\\\?Users")


def code_cells(path):
    """The code cells of a notebook that are not empty."""
    return [
        cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code" and cell.source.strip()
    ]


def first_line(cell):
    return cell.source.strip().splitlines()[0]


def test_the_book_has_notebooks():
    """An empty list would make every test below pass."""
    assert NOTEBOOKS


@every_notebook
def test_it_was_run_once_from_top_to_bottom(path):
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@every_notebook
def test_it_holds_no_error_and_no_warning(path):
    """A warning on stderr is what readers would have to explain away. A wanted error is tagged raises-exception."""
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.get("name") != "stderr", f"stderr below {first_line(cell)!r}"
            if output.output_type == "error":
                assert "raises-exception" in cell.metadata.get("tags", []), f"error below {first_line(cell)!r}"


@every_notebook
def test_it_is_small_enough_to_review(path):
    """No widget state, no pictures as large as a book, no cell longer than a screen."""
    assert "widgets" not in nbformat.read(path, as_version=4).metadata
    assert path.stat().st_size < MAX_BYTES
    assert [first_line(cell) for cell in code_cells(path) if len(cell.source.splitlines()) >= MAX_LINES] == []


@every_notebook
def test_every_random_draw_is_seeded(path):
    found = [match.group() for cell in code_cells(path) for match in UNSEEDED.finditer(cell.source)]
    assert found == []


@every_notebook
def test_no_path_of_the_author_s_machine_is_left(path):
    text = path.read_text(encoding="utf-8")
    assert [text[max(0, m.start() - 30) : m.end() + 30] for m in MACHINE_PATH.finditer(text)] == []


@every_notebook
def test_cells_have_names_that_do_not_change(path):
    """Cell ids keep differences between versions readable; a kernel of another name would not start for a reader."""
    notebook = nbformat.read(path, as_version=4)
    ids = [cell.get("id") for cell in notebook.cells]
    assert None not in ids and len(set(ids)) == len(ids)
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize(
    "source, seeded",
    [
        ("rng = np.random.default_rng(3)", True),
        ("rng: np.random.Generator", True),
        ("g = torch.Generator().manual_seed(0)", True),
        ("torch.randn(3, generator=g)", True),
        ("rng.random(3)", True),
        ("np.random.default_rng()", False),
        ("np.random.rand(3)", False),
        ("np.random.seed(0)", False),
        ("torch.manual_seed(0)", False),
        ("torch.randn(3)", False),
        ("random.seed(1)", False),
    ],
)
def test_the_search_for_unseeded_draws_finds_them(source, seeded):
    assert (UNSEEDED.search(source) is None) == seeded
