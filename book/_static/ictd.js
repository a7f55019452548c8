/* FontAwesome replaces <i> elements by <svg>. The widget manager still needs its <i> (the Play buttons): nest instead. */
window.FontAwesomeConfig = { autoReplaceSvg: "nest" };

/* Names and roles that the theme and the widget manager leave out and a screen reader needs. */
(() => {
  const playButtons = { "fa-play": "Play", "fa-pause": "Pause", "fa-stop": "Stop", "fa-repeat": "Repeat", "fa-retweet": "Repeat" };

  const name = (element, label) => {
    if (label && element.getAttribute("aria-label") !== label) element.setAttribute("aria-label", label);
  };

  // The sliders of our explorers stand behind their name; other widgets have a label of their own.
  const nameOf = (element) =>
    (element.closest(".ictd-slider")?.querySelector(".ictd-slider-name") ||
      element.closest(".jupyter-widgets").querySelector(".widget-label"))?.textContent.trim();

  function nameWidgets() {
    for (const handle of document.querySelectorAll(".jupyter-widgets [role=slider]")) {
      name(handle, nameOf(handle) || "slider");
      // a SelectionSlider reads out its text, not its index
      const readout = handle.closest(".jupyter-widgets").querySelector(".widget-readout")?.textContent.trim();
      if (readout && handle.getAttribute("aria-valuetext") !== readout) handle.setAttribute("aria-valuetext", readout);
    }
    // What is typed into the read-out of a selection slider is ignored: it is text, not a field.
    for (const readout of document.querySelectorAll(".ictd-slider .widget-readout:not([contenteditable=false])")) {
      readout.setAttribute("contenteditable", "false");
      readout.setAttribute("aria-hidden", "true");
    }
    for (const readout of document.querySelectorAll(".jupyter-widgets .widget-readout[contenteditable=true]")) {
      readout.setAttribute("role", "textbox");
      name(readout, `${nameOf(readout) || "slider"}, typed`);
    }
    for (const button of document.querySelectorAll(".widget-play button")) {
      const icon = Object.keys(playButtons).find((key) => button.querySelector(`.${key}`));
      name(button, playButtons[icon] || button.title);
    }
    for (const select of document.querySelectorAll(".jupyter-widgets select:not([aria-label])")) {
      name(select, nameOf(select) || "choice");
    }
  }

  // Each explorer says what its new frame shows: only the sentence below the picture, and only when it changes.
  function announceReadings() {
    for (const explorer of document.querySelectorAll(".ictd-explorer")) {
      const reading = [...explorer.querySelectorAll(".ictd-reading")].find((e) => e.checkVisibility())?.textContent;
      if (!reading) continue; // not drawn yet
      let status = explorer.querySelector(":scope > [role=status]");
      if (!status) {
        status = explorer.appendChild(document.createElement("div"));
        status.setAttribute("role", "status");
        status.className = "ictd-status";
        status.dataset.shown = reading;
      }
      if (reading !== status.dataset.shown) status.textContent = status.dataset.shown = reading;
    }
  }

  // A line must not begin with the mark after a formula, or end with the bracket before it: what touches an inline formula
  // stays with it. After a hyphen or a dash a line may end.
  const SIDES = {
    previousSibling: (text) => text.splitText(text.data.search(/[^\s\-\u2010-\u2014/]*$/)),
    nextSibling: (text) => {
      text.splitText(text.data.match(/^[^\s\-\u2010-\u2014/]*[\-\u2010-\u2014/]?/)[0].length);
      return text;
    },
  };

  // The text that touches a node, cut off from the words beyond; it may stand outside of the emphasis that the node ends.
  function touching(node, side) {
    while (!node[side] && node.parentElement.matches("em, strong")) node = node.parentElement;
    return node[side]?.nodeType === Node.TEXT_NODE ? SIDES[side](node[side]) : "";
  }

  function bindMarks(formula) {
    let node = formula;
    const isWrapped = ({ parentElement: parent }) => parent.matches("span, em, strong") && parent.childNodes.length === 1;
    while (isWrapped(node)) node = node.parentElement;
    const before = touching(node, "previousSibling"), after = touching(node, "nextSibling");
    if (!before.data && !after.data) return;
    const whole = document.createElement("span");
    whole.className = "ictd-whole";
    node.replaceWith(whole);
    whole.append(before, node, after);
  }

  // A formula inside a line cannot be broken: one that is wider than its paragraph gets a scrolling box of its own.
  function boxWideFormulas(formulas) {
    formulas.forEach((formula) => formula.classList.remove("ictd-wide"));
    const isWide = (formula) => {
      const whole = formula.closest(".ictd-whole") || formula;
      const room = whole.parentElement.closest("p, li, td, th, dd, figcaption, div")?.clientWidth;
      return room && whole.getBoundingClientRect().width > room;
    };
    formulas.filter(isWide).forEach((formula) => formula.classList.add("ictd-wide"));
  }

  // What scrolls sideways in a box of its own shows that it goes on, and can be reached with the keyboard.
  function markMore(box) {
    const scrolls = box.scrollWidth > box.clientWidth + 2 && /auto|scroll/.test(getComputedStyle(box).overflowX);
    box.classList.toggle("ictd-more", scrolls && box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
    if (!scrolls || box.onscroll) return;
    box.tabIndex = 0;
    box.onscroll = () => markMore(box);
  }

  const bound = new WeakSet();

  function fit() {
    const formulas = [...document.querySelectorAll(".bd-article mjx-container:not([display=true])")];
    for (const formula of formulas.filter((formula) => !bound.has(formula))) {
      bindMarks(formula);
      bound.add(formula);
    }
    boxWideFormulas(formulas);
    document.querySelectorAll(".bd-article :is(div, pre, mjx-container)").forEach(markMore);
  }

  // Paper is white: the style sheet makes all text black there, this keeps the colours of the light theme.
  let theme;
  window.addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => (document.documentElement.dataset.theme = theme));

  // Screen readers get every formula as hidden MathML. MathJax's own formula explorer is another thing: switched on from
  // the menu of a formula, version 3.2.2 stops with "MathJax retry" and the formulas vanish. So the menu does not offer it.
  window.addEventListener("load", async () => {
    await window.MathJax?.startup?.promise;
    window.MathJax?.startup?.document.menu?.menu.findID("Accessibility")?.disable();
    // the article's height changes with the window, and when something in it opens
    new ResizeObserver(fit).observe(document.querySelector("article.bd-article, main"));
  });

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".citation-list").forEach((list) => {
      list.querySelectorAll(":scope > .citation").forEach((item) => item.setAttribute("role", "listitem"));
    });
    // What is printed in columns keeps them, and scrolls where there is no room; sentences wrap.
    document.querySelectorAll(".bd-article div.cell_output pre").forEach((pre) => {
      const lines = pre.textContent.split("\n").filter((line) => line.trim());
      const inColumns = lines.filter((line) => /\S {2,}\S/.test(line));
      pre.classList.toggle("ictd-columns", lines.length > 1 && inColumns.length > lines.length / 2);
    });
    // A name in a narrow column breaks after a dot or an underscore, not in the middle of a word.
    document.querySelectorAll(".bd-article :is(td, th) code .pre").forEach((code) => {
      const parts = code.textContent.split(/(?<=[\w][._])(?=\w)/);
      code.replaceChildren(...parts.flatMap((part) => [document.createElement("wbr"), part]).slice(1));
    });
    // "Toggle hidden content" instead of the words that are seen on the summary, such as "Show code cell source"
    document.querySelectorAll("summary[aria-label]").forEach((summary) => summary.removeAttribute("aria-label"));
    const sidebar = document.querySelector("#pst-primary-sidebar");
    if (sidebar) { sidebar.setAttribute("role", "complementary"); name(sidebar, "Book"); }

    if (document.querySelector("script[type='application/vnd.jupyter.widget-state+json']")) {
      const attend = () => { nameWidgets(); announceReadings(); };
      attend();
      new MutationObserver(attend).observe(document.querySelector("main"), {
        childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ["aria-valuenow", "contenteditable"],
      });
    }
  });
})();
