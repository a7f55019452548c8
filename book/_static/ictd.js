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

  // A formula inside a line cannot be broken: one that is wider than its paragraph gets a scrolling line of its own.
  // Formulas that scroll show that they go on, and can be reached with the keyboard.
  function boxWideFormulas() {
    for (const formula of document.querySelectorAll(".bd-article mjx-container")) {
      if (formula.getAttribute("display") !== "true") {
        formula.classList.remove("ictd-wide", "ictd-more");
        const room = formula.parentElement.closest("p, li, td, th, dd, figcaption, div")?.clientWidth;
        if (room && formula.getBoundingClientRect().width > room) formula.classList.add("ictd-wide");
        else continue;
      }
      const more = () => formula.classList.toggle("ictd-more", formula.scrollLeft + formula.clientWidth < formula.scrollWidth - 2);
      more();
      if (formula.classList.contains("ictd-more")) {
        formula.tabIndex = 0;
        formula.onscroll = more;
      }
    }
  }

  // Screen readers get every formula as hidden MathML. MathJax's own formula explorer is another thing: switched on from
  // the menu of a formula, version 3.2.2 stops with "MathJax retry" and the formulas vanish. So the menu does not offer it.
  window.addEventListener("load", () => {
    window.MathJax?.startup?.promise?.then(() => {
      MathJax.startup.document.menu?.menu.findID("Accessibility")?.disable();
      boxWideFormulas();
      window.addEventListener("resize", boxWideFormulas);
    });
  });

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".citation-list").forEach((list) => {
      list.querySelectorAll(":scope > .citation").forEach((item) => item.setAttribute("role", "listitem"));
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
