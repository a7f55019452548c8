"""Shared fixtures. Page tests need a built book (`make test` builds it); browser tests also need Chromium."""

import os
import shutil

# Small matrices: threads would only wait for each other. Before NumPy and torch are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest  # noqa: E402
from book_site import SITE  # noqa: E402

REQUIRED = os.environ.get("ICTD_REQUIRE_BROWSER") == "1"
NOT_TESTED = "!!! NOT TESTED: "


def pytest_collection_modifyitems(items):
    """Put first what takes long, files marked as long and notebooks: started last, it would run alone at the end."""
    items.sort(key=lambda item: item.path.suffix == ".py" and item.get_closest_marker("long") is None)


def pytest_terminal_summary(terminalreporter):
    """One loud line for each kind of test that could not run: a skipped test must not look like a passed one."""
    reasons = {report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", ())}
    for reason in sorted(reasons):
        if reason.startswith(NOT_TESTED):  # also what the processes of pytest-xdist report
            terminalreporter.write_line(reason, yellow=True, bold=True)


def cannot_run(reason):
    """Skip the test and say so at the end; fail instead where the test is required."""
    if REQUIRED:
        pytest.fail(reason, pytrace=False)
    pytest.skip(NOT_TESTED + reason)


@pytest.fixture(scope="session")
def site():
    """The folder of the built book."""
    if not (SITE / "index.html").exists():
        cannot_run("the built pages, because there is no _build/html: run `make book` first")
    return SITE


@pytest.fixture(scope="session")
def browser():
    """One headless Chromium for all tests. Set CHROMIUM to the program if it is not found."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = [os.environ.get("CHROMIUM")] + [shutil.which(name) for name in names]
    program = next((path for path in found if path), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        cannot_run("the pages in a browser, because playwright is not installed")
    with sync_playwright() as playwright:
        if program is None and os.path.exists(playwright.chromium.executable_path):
            program = playwright.chromium.executable_path
        if program is None:
            cannot_run("the pages in a browser, because there is no Chromium: install it or set CHROMIUM")
        chromium = playwright.chromium.launch(
            executable_path=program,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        yield chromium
        chromium.close()
