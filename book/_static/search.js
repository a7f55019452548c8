/* The search page: chapters before the package, and every page with the sections that hold the words. Sphinx ranks the
   pages; the texts come from search_texts.js, so that no server is asked. */
(() => {
  const SECTIONS = 3; // shown of a page
  const EXCERPT = 240; // characters

  // A word is found with its endings and, by its stem, in its other forms.
  const patterns = (words) => {
    const escape = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return [...words].map((word) => {
      const stem = escape(new Stemmer().stemWord(word)).replace(/i$/, "[iy]"); // of policy and policies: polici
      const end = word.length < 4 ? "(?![\\p{L}\\p{N}])" : ""; // NEU is no beginning of neural
      return new RegExp(`(?<![\\p{L}\\p{N}])(?:${escape(word)}|${stem})${end}`, "giu");
    });
  };

  // The sections of a page with most of the words in them, those that say them often for their length first.
  const bestSections = (page, words) =>
    (searchTexts[page] || [])
      .map(([id, title, text]) => {
        const counts = words.map((word) => (text.match(word) || []).length + 5 * (title.match(word) || []).length);
        const often = counts.reduce((a, b) => a + b, 0) / Math.sqrt(text.length + 100);
        return { id, title, text, found: counts.filter(Boolean).length, often };
      })
      .filter((section) => section.found)
      .sort((a, b) => b.found - a.found || b.often - a.often)
      .slice(0, SECTIONS);

  const excerpt = (text, words) => {
    const first = Math.min(...words.map((word) => text.search(word)).filter((i) => i >= 0));
    const start = Number.isFinite(first) ? Math.max(0, text.lastIndexOf(" ", first - EXCERPT / 3) + 1) : 0;
    const end = start + EXCERPT < text.length ? text.lastIndexOf(" ", start + EXCERPT) : text.length;
    return (start ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
  };

  const append = (parent, name, text = "") => {
    const element = parent.appendChild(document.createElement(name));
    element.textContent = text;
    return element;
  };

  function show([page, title, anchor, description], words) {
    const address = page + DOCUMENTATION_OPTIONS.LINK_SUFFIX;
    const item = append(Search.output, "li");
    const link = append(item, "a");
    link.innerHTML = title; // Sphinx's own, with the number of the chapter in a span
    link.href = description ? address + anchor : address;
    if (description) return append(item, "span", ` (${description})`);
    for (const section of bestSections(page, words)) {
      const context = append(item, "p");
      context.className = "context";
      append(context, "a", section.title).href = `${address}#${section.id}`;
      context.append(": ", excerpt(section.text, words));
    }
  }

  Search.query = (query) => {
    const parsed = Search._parseQuery(query);
    const [, , , highlighted, parts] = parsed;
    const words = patterns(highlighted);
    const isName = /[._]/.test(query.trim()); // such as ictd.td or empirical_model
    const late = ([page, , , description]) => (isName ? !description : page === "book/api");
    const last = (name) => name.toLowerCase().split(".").at(-1); // every name of the package begins with ictd
    const named = ([, name]) => [...parts].some((part) => last(name).includes(part));
    const title = (page) => Search._index.titles[Search._index.docnames.indexOf(page)];
    const seen = new Set();
    const results = Search._performSearch(...parsed)
      .reverse() // the best one comes last
      .sort((a, b) => late(a) - late(b))
      .filter((result) => !result[3] || named(result))
      .map((result) => (result[3] ? result : [result[0], title(result[0]), "", ""]))
      .filter(([page, , anchor]) => !seen.has(page + anchor) && seen.add(page + anchor));
    results.forEach((result) => show(result, words));
    if (SPHINX_HIGHLIGHT_ENABLED) highlighted.forEach((word) => _highlightText(Search.output, word, "highlighted"));
    _finishSearch(results.length);
  };
})();
