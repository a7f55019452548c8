/* FontAwesome replaces <i> elements by <svg>. The widget manager still needs its <i> (the Play buttons): nest instead. */
window.FontAwesomeConfig = { autoReplaceSvg: "nest" };

/* Names and roles that the theme and the widget manager leave out and a screen reader needs. */
(() => {
  const playButtons = { "fa-play": "Play", "fa-pause": "Pause", "fa-stop": "Stop", "fa-repeat": "Repeat", "fa-retweet": "Repeat" };

  const name = (element, label) => {
    if (label && element.getAttribute("aria-label") !== label) element.setAttribute("aria-label", label);
  };

  function nameWidgets() {
    for (const handle of document.querySelectorAll(".jupyter-widgets [role=slider]")) {
      const widget = handle.closest(".jupyter-widgets");
      name(handle, widget.querySelector(".widget-label")?.textContent.trim() || "slider");
      // a SelectionSlider reads out its text, not its index
      const readout = widget.querySelector(".widget-readout")?.textContent.trim();
      if (readout && handle.getAttribute("aria-valuetext") !== readout) handle.setAttribute("aria-valuetext", readout);
    }
    for (const readout of document.querySelectorAll(".jupyter-widgets .widget-readout[contenteditable=true]")) {
      const label = readout.closest(".jupyter-widgets").querySelector(".widget-label")?.textContent.trim();
      readout.setAttribute("role", "textbox");
      name(readout, `${label || "slider"}, typed`);
    }
    for (const button of document.querySelectorAll(".widget-play button")) {
      const icon = Object.keys(playButtons).find((key) => button.querySelector(`.${key}`));
      name(button, playButtons[icon] || button.title);
    }
    for (const select of document.querySelectorAll(".jupyter-widgets select:not([aria-label])")) {
      name(select, select.closest(".jupyter-widgets").querySelector(".widget-label")?.textContent.trim() || "choice");
    }
  }

  // Screen readers get every formula as hidden MathML. MathJax's own formula explorer is another thing: switched on from
  // the menu of a formula, version 3.2.2 stops with "MathJax retry" and the formulas vanish. So the menu does not offer it.
  window.addEventListener("load", () => {
    window.MathJax?.startup?.promise?.then(() => MathJax.startup.document.menu?.menu.findID("Accessibility")?.disable());
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
      nameWidgets();
      new MutationObserver(nameWidgets).observe(document.querySelector("main"), {
        childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ["aria-valuenow", "contenteditable"],
      });
    }
  });
})();
