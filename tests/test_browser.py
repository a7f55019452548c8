"""The book in a real browser: what a reader sees on a desk and on a phone, by day and by night."""

import threading
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from book_site import toc_pages

PAGES = toc_pages()
EXTRA_PAGES = ["search", "genindex"]
VIEWS = {
    f"{name}-{scheme}": {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
    for name, (width, height) in {"desk": (1280, 800), "phone": (375, 812)}.items()
    for scheme in ("light", "dark")
}

# Formulas, fonts and widgets have been drawn once this returns.
SETTLED = """async () => {
  if (window.MathJax?.startup) await MathJax.startup.promise;
  await document.fonts.ready;
}"""

# Whether the page is wider than its window, and what sticks out: boxes that scroll by themselves may.
TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth, scrolls = e => getComputedStyle(e).overflowX !== "visible";
  if (document.documentElement.scrollWidth <= width) return [];
  const inBox = e => { for (let p = e.parentElement; p && p !== document.body; p = p.parentElement) if (scrolls(p)) return true; };
  return [`document: ${document.documentElement.scrollWidth} px in a window of ${width} px`].concat(
    [...document.querySelectorAll("body *")]
      .filter(e => e.getBoundingClientRect().right > width + 1 && e.checkVisibility() && !inBox(e))
      .map(e => `${e.tagName}.${e.getAttribute("class")}: ${e.textContent.trim().slice(0, 40)}`));
}"""

# Formulas that were not drawn, that MathJax did not understand, or that were never handed to MathJax.
MATH = """() => {
  const faults = [], article = document.querySelector("article, main");
  for (const e of article.querySelectorAll(".math")) {
    if (!e.querySelector("mjx-container")) faults.push("not drawn: " + e.textContent.slice(0, 80));
  }
  for (const e of document.querySelectorAll("mjx-merror, [data-mjx-error]")) faults.push("error: " + e.textContent);
  for (const e of document.querySelectorAll("mjx-container mjx-mtext[style*=red], mjx-container [mathcolor=red]"))
    faults.push("unknown command: " + e.textContent);
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (/\\\\[()[\\]]|\\$[^$]*\\$/.test(node.data) && !node.parentElement.closest("pre, code, script, style, textarea"))
      faults.push("raw: " + node.data.trim().slice(0, 80));
  }
  return faults;
}"""

# Pictures that a screen reader would pass over in silence.
UNNAMED = """() => [...document.querySelectorAll("article svg, article img")]
  .filter(e => e.checkVisibility() && !e.closest("[aria-hidden=true], button, summary, mjx-container"))
  .filter(e => e.tagName === "IMG" ? !e.alt.trim()
      : e.getAttribute("role") !== "img" || !(e.getAttribute("aria-label") || e.querySelector("title")?.textContent))
  .map(e => e.outerHTML.slice(0, 120))"""

# What an explorer shows now: the pictures and texts of the output that holds the given control.
SHOWN = """e => [...e.closest(".cell_output, .output, .jupyter-widgets-view, body").querySelectorAll("svg, img, .widget-html-content")]
  .filter(p => p.checkVisibility() && !p.closest("button")).map(p => p.outerHTML).join("\\n")"""


@dataclass
class Visit:
    """What was noticed while a page was open."""

    console: list = field(default_factory=list)
    failed: list = field(default_factory=list)
    outside: list = field(default_factory=list)
    too_wide: list = field(default_factory=list)
    math: list = field(default_factory=list)
    unnamed: list = field(default_factory=list)
    axe: list = field(default_factory=list)


@pytest.fixture(scope="module")
def address(site):
    """The book behind a small web server of this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def tabs(browser):
    """One browser tab for each view."""
    contexts = {name: browser.new_context(**options) for name, options in VIEWS.items()}
    yield {name: context.new_page() for name, context in contexts.items()}
    for context in contexts.values():
        context.close()


def open_page(tab, url):
    """Go to a page, wait until it is drawn, and return the list that collects console errors and failed requests."""
    console, failed, requests = [], [], []
    listeners = {
        "console": lambda m: console.append(m.text) if m.type == "error" else None,
        "pageerror": lambda e: console.append(str(e)),
        "requestfailed": lambda r: failed.append(f"{r.url}: {r.failure}"),
        "response": lambda r: failed.append(f"{r.url}: {r.status}") if r.status >= 400 else None,
        "request": lambda r: requests.append(r.url),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    tab.goto(url, wait_until="load")
    if tab.query_selector("script[type='application/vnd.jupyter.widget-state+json']"):
        tab.wait_for_selector(".jupyter-widgets", timeout=20_000)
    tab.evaluate(SETTLED)
    tab.wait_for_timeout(100)
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    return console, failed, requests


def axe_options(view):
    """All rules, also the one that axe leaves off. Colours are those of the desk on a phone too, and slow to check."""
    rules = {"label-content-name-mismatch": {"enabled": True}, "color-contrast": {"enabled": view.startswith("desk")}}
    return {"resultTypes": ["violations"], "rules": rules}


@pytest.fixture(scope="module")
def visit(tabs, address):
    """Open a page in a view, once, and note everything that the tests ask about."""
    from axe_playwright_python.sync_playwright import Axe

    axe, seen = Axe(), {}

    def look(page, view):
        if (page, view) not in seen:
            tab = tabs[view]
            console, failed, requests = open_page(tab, f"{address}/{page}.html")
            found = axe.run(tab, options=axe_options(view)).response["violations"]
            seen[page, view] = Visit(
                console=console,
                failed=failed,
                outside=[url for url in requests if not url.startswith((address, "data:", "blob:"))],
                too_wide=tab.evaluate(TOO_WIDE),
                math=tab.evaluate(MATH),
                unnamed=tab.evaluate(UNNAMED),
                axe=[
                    f"{v['id']} ({v['impact']}): {node['html'][:160]}"
                    for v in found
                    if v["impact"] in ("serious", "critical")
                    for node in v["nodes"]
                ],
            )
        return seen[page, view]

    return look


everywhere = pytest.mark.parametrize("view", VIEWS)
every_page = pytest.mark.parametrize("page", PAGES + EXTRA_PAGES)


@everywhere
@every_page
def test_a_page_loads_without_an_error(visit, page, view):
    noticed = visit(page, view)
    assert noticed.console == []
    assert noticed.failed == []


@everywhere
@every_page
def test_a_page_asks_no_other_machine_for_anything(visit, page, view):
    assert visit(page, view).outside == []


@everywhere
@every_page
def test_nothing_sticks_out_of_the_window(visit, page, view):
    assert visit(page, view).too_wide == []


@everywhere
@every_page
def test_every_formula_is_drawn(visit, page, view):
    assert visit(page, view).math == []


@everywhere
@every_page
def test_every_picture_has_words_for_those_who_do_not_see_it(visit, page, view):
    assert visit(page, view).unnamed == []


@everywhere
@every_page
def test_axe_finds_nothing_serious(visit, page, view):
    assert visit(page, view).axe == []


@pytest.mark.parametrize("page", PAGES)
def test_the_file_opens_without_a_server(tabs, site, page):
    """Readers double-click the file. Formulas, fonts and explorers must work from the disk too."""
    tab = tabs["desk-light"]
    console, failed, requests = open_page(tab, (site / f"{page}.html").as_uri())
    assert console == [] and failed == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert tab.evaluate(MATH) == []


@pytest.mark.parametrize("view", ["desk-light", "phone-dark"])
@pytest.mark.parametrize("page", PAGES)
def test_every_control_of_an_explorer_moves_its_picture_by_keyboard(tabs, address, page, view):
    tab = tabs[view]
    open_page(tab, f"{address}/{page}.html")
    controls = tab.query_selector_all(".jupyter-widgets [role=slider], .jupyter-widgets select")
    for control in controls:
        name = control.get_attribute("aria-label") or control.evaluate("e => e.labels?.[0]?.textContent")
        before = control.evaluate(SHOWN)
        assert before.strip(), f"{name}: the explorer shows no picture"
        control.scroll_into_view_if_needed()
        control.focus()
        for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):  # one of them, where the control is at an end
            tab.keyboard.press(key)
            tab.wait_for_timeout(60)
            if control.evaluate(SHOWN) != before:
                break
        else:
            pytest.fail(f"{name}: no arrow key changes what the explorer shows")


@pytest.mark.parametrize("page", PAGES)
def test_an_explorer_tells_a_screen_reader_its_names_values_and_news(tabs, address, page):
    tab = tabs["desk-light"]
    open_page(tab, f"{address}/{page}.html")
    for explorer in tab.query_selector_all(".ictd-explorer"):
        names = explorer.eval_on_selector_all(".ictd-slider-name", "es => es.map(e => e.textContent)")
        handles = explorer.query_selector_all("[role=slider]")
        assert [handle.get_attribute("aria-label") for handle in handles] == names
        assert len(set(names)) == len(names) > 0
        assert explorer.query_selector("[contenteditable=true]") is None
        readouts = explorer.eval_on_selector_all(".widget-readout", "es => es.map(e => e.textContent.trim())")
        assert [handle.get_attribute("aria-valuetext") for handle in handles] == readouts
        status = explorer.query_selector("[role=status]")
        assert status.text_content() == ""  # nothing is said before something changes
        for handle in handles:
            handle.focus()
            tab.keyboard.press("Home")
            tab.keyboard.press("ArrowRight")
            tab.wait_for_timeout(100)
            visible = [e.text_content() for e in explorer.query_selector_all(".ictd-reading") if e.is_visible()]
            assert [status.text_content()] == visible


def test_the_reader_s_choice_of_dark_mode_is_kept_on_the_next_page(browser, address):
    context = browser.new_context(**VIEWS["desk-light"])
    tab = context.new_page()
    open_page(tab, f"{address}/{PAGES[0]}.html")
    for _ in range(3):
        if tab.evaluate("document.documentElement.dataset.mode") == "dark":
            break
        tab.click("button.theme-switch-button >> visible=true")
    open_page(tab, f"{address}/{PAGES[1]}.html")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    context.close()


def test_search_finds_a_page(tabs, address):
    tab = tabs["desk-light"]
    open_page(tab, f"{address}/search.html?q=notation")
    tab.wait_for_selector("#search-results li a", timeout=10_000)
    links = tab.eval_on_selector_all("#search-results li a", "links => links.map(a => a.getAttribute('href'))")
    assert any("notation" in link for link in links)
