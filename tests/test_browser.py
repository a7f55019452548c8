"""The book in a real browser: what a reader sees on a desk and on a phone, by day and by night."""

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import pytest
from book_site import SITE, parse, toc_pages

pytestmark = pytest.mark.long

PAGES = toc_pages()
EXTRA_PAGES = ["search", "genindex"]
SERVER = "http://book.test"
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
  const inBox = e => {
    for (let p = e.parentElement; p && p !== document.body; p = p.parentElement) if (scrolls(p)) return true;
  };
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
SHOWN = """e => [...e.closest(".cell_output, .output, .jupyter-widgets-view, body")
  .querySelectorAll("svg, img, .widget-html-content")]
  .filter(p => p.checkVisibility() && !p.closest("button")).map(p => p.outerHTML).join("\\n")"""


# All that can be opened is open: dropdowns hide formulas, tables and code.
OPEN_ALL = """() => {
  document.querySelectorAll("details").forEach(e => e.open = true);
  document.querySelectorAll(".toggle-button").forEach(e => e.click());
}"""

# Lines that begin with what touches the end of an inline formula, or end with what touches its beginning.
TORN = """() => {
  const faults = [];
  const text = (node, side, child) => {  // the text next to a node, also beyond the emphasis or span that it ends
    while (!node[side] && getComputedStyle(node.parentElement).display.startsWith("inline")) node = node.parentElement;
    let next = node[side];
    while (next && next.nodeType !== Node.TEXT_NODE) next = next[child];
    return next;
  };
  const place = (node, from, to) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return range.getBoundingClientRect();
  };
  for (const formula of document.querySelectorAll(".bd-article mjx-container:not([display=true])")) {
    if (!formula.checkVisibility()) continue;
    const box = formula.getBoundingClientRect();
    const after = text(formula, "nextSibling", "firstChild");
    const before = text(formula, "previousSibling", "lastChild");
    if (after?.length && /^\\S/.test(after.data)) {
      const mark = place(after, 0, 1);
      if (mark.width && (mark.top > box.bottom - 2 || mark.right < box.left))
        faults.push("begins a line: " + after.data.slice(0, 30));
    }
    if (before?.length && /[^\\s\\-\u2010-\u2014/]$/.test(before.data)) {
      const mark = place(before, before.length - 1, before.length);
      if (mark.width && mark.bottom < box.top + 2)
        faults.push("ends a line: " + before.data.slice(-30));
    }
  }
  return faults;
}"""

# Boxes whose content is cut off at the side, without the sign that it goes on and a way to get there by keyboard.
CUT = """() => [...document.querySelectorAll(".bd-article :is(div, pre, td, th, p, mjx-container)")]
  .filter(e => e.checkVisibility() && e.clientWidth && e.scrollWidth > e.clientWidth + 3)
  .filter(e => !e.closest("mjx-assistive-mml, .ictd-status"))
  .filter(e => getComputedStyle(e).overflowX !== "visible" && !(e.classList.contains("ictd-more") && e.tabIndex === 0))
  .map(e => `${e.tagName}.${e.className}: ${e.scrollWidth} px in ${e.clientWidth} px: `
            + e.textContent.trim().slice(0, 40))"""

# Names in tables that are broken within a word: a name may end a line after a dot or an underscore only.
CHOPPED = """() => [...document.querySelectorAll(".bd-article :is(td, th) code .pre")].flatMap(e => {
  if (!e.checkVisibility()) return [];
  const lines = [], walker = document.createTreeWalker(e, NodeFilter.SHOW_TEXT), range = document.createRange();
  while (walker.nextNode()) for (let i = 0; i < walker.currentNode.length; i++) {
    range.setStart(walker.currentNode, i);
    range.setEnd(walker.currentNode, i + 1);
    const [{top}] = range.getClientRects(), last = lines.at(-1), letter = walker.currentNode.data[i];
    if (last && Math.abs(last.top - top) < 4) last.text += letter;
    else lines.push({top, text: letter});
  }
  return lines.slice(0, -1).map(line => line.text).filter(text => /\\w$/.test(text) && !/_$/.test(text));
})"""

# On paper: text that is pale on white or on its own background, what is cut at the right, what stays closed.
PRINTED = """() => {
  const faults = [], article = document.querySelector("article, main");
  const right = article.getBoundingClientRect().right + 13;
  const channel = c => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const parse = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  const contrast = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] !== 0) return light(colour);
    }
    return 1;
  };
  const seen = new Set(), walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(e)) continue;
    seen.add(e);
    if (e.closest("svg, script, style, mjx-container, .ictd-status") || !e.checkVisibility()) continue;
    const ink = light(parse(getComputedStyle(e).color));
    const least = Math.min(contrast(ink, 1), contrast(ink, behind(e)));
    if (least < 4.5) faults.push("pale: " + e.textContent.trim().slice(0, 40));
  }
  for (const e of article.querySelectorAll("pre, table, figure, mjx-container, dt")) {
    if (!e.checkVisibility() || e.closest("mjx-assistive-mml")) continue;
    if (e.getBoundingClientRect().right > right) faults.push(`cut: ${e.tagName} ${e.textContent.trim().slice(0, 40)}`);
    if (e.tagName === "PRE" && e.scrollWidth > e.clientWidth + 2) faults.push("cut: " + e.textContent.slice(0, 40));
  }
  for (const e of article.querySelectorAll("details pre"))
    if (!e.getBoundingClientRect().height) faults.push("closed: " + e.textContent.slice(0, 40));
  return faults;
}"""

# What the copy button of each session puts on the clipboard.
COPIED = """() => [...document.querySelectorAll(".highlight pre:has(.gp)")].map(pre => {
  let text = null;
  const read = event => { text = event.target.value; };
  document.addEventListener("copy", read);
  pre.parentElement.querySelector("button.copybtn").click();
  document.removeEventListener("copy", read);
  return text;
})"""


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
    torn: list = field(default_factory=list)
    cut: list = field(default_factory=list)
    chopped: list = field(default_factory=list)
    printed: list = field(default_factory=list)
    copied: list = field(default_factory=list)
    deaf: list = field(default_factory=list)
    mute: list = field(default_factory=list)


@pytest.fixture(scope="module")
def address(site):
    """Where a view finds the book: one on the disk, where readers double-click the file; the others on a server."""
    return lambda view: site.as_uri() if view == "desk-light" else SERVER


def serve(route):
    """The server: answers from the built book, without a thread or a port of this machine."""
    file = SITE / unquote(urlsplit(route.request.url).path).lstrip("/")
    route.fulfill(path=file) if file.is_file() else route.fulfill(status=404)


@pytest.fixture(scope="module")
def tabs(browser):
    """One browser tab for each view."""
    contexts = {name: browser.new_context(**options) for name, options in VIEWS.items()}
    for context in contexts.values():
        context.route(f"{SERVER}/**", serve)
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


def check_with_axe(axe, tab, view):
    """What axe finds serious. A colour is the same on a phone, and all but colours is the same by night.

    axe takes seconds for each thousand elements, so a desk is checked last, and without the inside of its formulas:
    their glyphs come from style sheets, where axe sees no text. Of the package page, which is long and all of a kind,
    the first sections do.
    """
    # What was opened fades in: on a busy machine axe would see pale text. Animations without an end throw.
    tab.evaluate("() => document.getAnimations().forEach(a => { try { a.finish(); } catch {} })")
    context, options = None, {"resultTypes": ["violations"]}
    if view.endswith("light"):
        desk = view.startswith("desk")
        options["rules"] = {"label-content-name-mismatch": {"enabled": True}, "color-contrast": {"enabled": desk}}
    else:
        options["runOnly"] = ["color-contrast"]
    if view.startswith("desk"):
        tab.evaluate("() => document.querySelectorAll('mjx-container').forEach(e => e.replaceChildren())")
        context = {"exclude": [["#the-package > section:nth-of-type(n+3)"]]}
    found = axe.run(tab, context=context, options=options).response["violations"]
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    return [f"{v['id']} ({v['impact']}): {node['html'][:160]}" for v in serious for node in v["nodes"]]


def at_width(tab, width, *scripts):
    """The faults that the scripts find in a window of another width."""
    size = tab.viewport_size
    tab.set_viewport_size({"width": width, "height": size["height"]})
    tab.wait_for_timeout(100)
    faults = [tab.evaluate(script) for script in scripts]
    tab.set_viewport_size(size)
    return faults


def move_controls(tab):
    """The controls of explorers that no arrow key moves, or whose picture stays the same."""
    deaf = []
    for control in tab.query_selector_all(".jupyter-widgets [role=slider], .jupyter-widgets select"):
        name = control.get_attribute("aria-label") or control.evaluate("e => e.labels?.[0]?.textContent")
        before = control.evaluate(SHOWN)
        control.scroll_into_view_if_needed()
        control.focus()
        for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):  # one of them, where the control is at an end
            tab.keyboard.press(key)
            tab.wait_for_timeout(60)
            if before.strip() and control.evaluate(SHOWN) != before:
                break
        else:
            deaf.append(name)
    return deaf


def listen(tab):
    """What an explorer says to a screen reader and should not, or does not say and should: pairs (said, right)."""
    pairs = []
    for explorer in tab.query_selector_all(".ictd-explorer"):
        names = explorer.eval_on_selector_all(".ictd-slider-name", "es => es.map(e => e.textContent)")
        handles = explorer.query_selector_all("[role=slider]")
        readouts = explorer.eval_on_selector_all(".widget-readout", "es => es.map(e => e.textContent.trim())")
        status = explorer.query_selector("[role=status]")
        pairs += [
            ([handle.get_attribute("aria-label") for handle in handles], names),
            (len(set(names)) or None, len(names)),
            (explorer.query_selector("[contenteditable=true]"), None),
            ([handle.get_attribute("aria-valuetext") for handle in handles], readouts),
            (status.text_content(), ""),  # nothing is said before something changes
        ]
        for handle in handles:
            handle.focus()
            tab.keyboard.press("Home")
            tab.keyboard.press("ArrowRight")
            tab.wait_for_timeout(100)
            visible = [e.text_content() for e in explorer.query_selector_all(".ictd-reading") if e.is_visible()]
            pairs.append(([status.text_content()], visible))
    return [pair for pair in pairs if pair[0] != pair[1]]


@pytest.fixture(scope="module")
def visit(tabs, address):
    """Open a page in a view, once, and note everything that the tests ask about."""
    from axe_playwright_python.sync_playwright import Axe

    axe, seen = Axe(), {}

    def look(page, view):
        if (page, view) in seen:
            return seen[page, view]
        tab, home = tabs[view], address(view)
        console, failed, requests = open_page(tab, f"{home}/{page}.html")
        noticed = seen[page, view] = Visit(
            console=console,
            failed=failed,
            outside=[url for url in requests if not url.startswith((home, "data:", "blob:"))],
            too_wide=tab.evaluate(TOO_WIDE),
            math=tab.evaluate(MATH),
            unnamed=tab.evaluate(UNNAMED),
        )
        if view == "desk-light":
            noticed.copied = tab.evaluate(COPIED)
            noticed.mute = listen(tab)
        if view in ("desk-light", "phone-dark"):
            noticed.deaf = move_controls(tab)
        if view == "desk-dark":
            tab.emulate_media(media="print")
            [noticed.printed] = at_width(tab, 703, PRINTED)  # a sheet of A4 between its margins
            tab.emulate_media(media="screen")
        if view in ("desk-light", "phone-light"):
            tab.evaluate(OPEN_ALL)
            widths = (1280,) if view == "desk-light" else (320, 390)
            found = [at_width(tab, width, TORN, CUT, CHOPPED, TOO_WIDE) for width in widths]
            noticed.torn, noticed.cut, noticed.chopped, wide = (sum(faults, []) for faults in zip(*found))
            noticed.too_wide += wide
        if view != "phone-dark":
            noticed.axe = check_with_axe(axe, tab, view)
        return noticed

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


opened = pytest.mark.parametrize("view", ["desk-light", "phone-light"])


@opened
@every_page
def test_a_mark_stays_with_the_formula_that_it_touches(visit, page, view):
    assert visit(page, view).torn == []


@opened
@every_page
def test_what_is_cut_at_the_side_says_so_and_can_be_scrolled(visit, page, view):
    assert visit(page, view).cut == []


@opened
@every_page
def test_names_in_tables_are_whole(visit, page, view):
    assert visit(page, view).chopped == []


@every_page
def test_a_printed_page_is_dark_on_white_and_whole(visit, page):
    """Also from dark mode, and with everything open."""
    assert visit(page, "desk-dark").printed == []


def test_a_copied_session_is_code(visit):
    copied = visit("book/api", "desk-light").copied
    assert copied
    for text in copied:
        assert ">>>" not in text
        compile(text, "copied", "exec")


@pytest.mark.parametrize("view", ["desk-light", "phone-dark"])
@pytest.mark.parametrize("page", PAGES)
def test_every_control_of_an_explorer_moves_its_picture_by_keyboard(visit, page, view):
    assert visit(page, view).deaf == []


@pytest.mark.parametrize("page", PAGES)
def test_an_explorer_tells_a_screen_reader_its_names_values_and_news(visit, page):
    assert visit(page, "desk-light").mute == []


def test_the_reader_s_choice_of_dark_mode_is_kept_on_the_next_page(browser, address):
    context = browser.new_context(**VIEWS["desk-light"])
    tab = context.new_page()
    open_page(tab, f"{address('desk-light')}/{PAGES[0]}.html")
    for _ in range(3):
        if tab.evaluate("document.documentElement.dataset.mode") == "dark":
            break
        tab.click("button.theme-switch-button >> visible=true")
    open_page(tab, f"{address('desk-light')}/{PAGES[1]}.html")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    context.close()


@pytest.mark.parametrize("view", ["desk-light", "phone-light"])  # from the disk and from a server
@pytest.mark.parametrize(
    "query, first",
    [
        ("NEU", "neu_pretraining"),
        ("TD", None),
        ("softmax", "weighted_softmax_td"),
        ("kernels", None),
        ("policies", "policy_evaluation"),
    ],
)
def test_search_shows_chapters_first_with_excerpts_and_their_sections(tabs, address, query, first, view):
    tab = tabs[view]
    console, _, _ = open_page(tab, f"{address(view)}/search.html?q={query}")
    tab.wait_for_selector("#search-results li a", timeout=10_000)
    assert console == []
    results = tab.eval_on_selector_all(
        "#search-results li",
        """items => items.map(li => [...li.querySelectorAll("a")].map(a => a.getAttribute("href")).concat(
             [[...li.querySelectorAll(".context")].map(p => p.textContent)]))""",
    )
    pages = [result[0] for result in results]
    assert first is None or first in pages[0]
    is_package = ["book/api" in page for page in pages]
    assert is_package == sorted(is_package)
    for page, *sections, excerpts in results:
        assert excerpts or "#" in page  # an entry of the package
        assert all(query[:4].lower() in excerpt.lower() for excerpt in excerpts), page
        for link in [page, *sections]:
            path, _, place = link.partition("#")
            assert not place or parse(SITE / path).find(id=place), link


def test_a_name_of_the_package_leads_to_its_entry(tabs, address):
    tab = tabs["desk-light"]
    open_page(tab, f"{address('desk-light')}/search.html?q=softmax_attention")
    assert tab.get_attribute("#search-results li a", "href").endswith("#ictd.attention.softmax_attention")
