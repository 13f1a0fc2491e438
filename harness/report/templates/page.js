"use strict";
// Folds the parts on a small screen, and filters the queries of each comparison.
// All text enters the page by textContent.
(() => {
  const parts = document.querySelectorAll("details.part");
  const plain = (part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  const unfold = () => {
    const target = document.getElementById(plain(location.hash.slice(1)));
    const part = target?.closest("details.part") ?? target?.querySelector("details.part");
    if (part && !part.open) {
      part.open = true;
      target.scrollIntoView();
    }
  };
  if (matchMedia("(max-width: 40rem)").matches) {
    for (const part of parts) part.open = false;
    for (const passed of document.querySelectorAll("[data-fold]")) passed.open = false;
  }
  addEventListener("hashchange", unfold);
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details.part, details.gates-of")) part.open = true;
  });
  unfold();
})();
(() => {
  const LIMIT = 200;
  const many = (number) => number.toLocaleString("en");
  const shown = (value, signed) =>
    value === null
      ? "not defined"
      : (signed && value > 0 ? "+" : "") + (value === 0 ? "0" : value.toFixed(4)).replace("-", "−");

  const cell = (kind, text) => {
    const made = document.createElement(kind);
    made.textContent = text;
    return made;
  };

  const row = (query) => {
    const made = document.createElement("tr");
    const head = cell("th", "");
    head.scope = "row";
    const text = document.createElement("bdi");
    text.textContent = query.text;
    head.append(text, cell("small", [query.id, ...query.slices].join(" · ")));
    made.append(
      head,
      cell("td", shown(query.control)),
      cell("td", shown(query.candidate)),
      cell("td", shown(query.difference, true)),
      cell("td", shown(query.alike)),
    );
    return made;
  };

  for (const explorer of document.querySelectorAll("[data-explorer]")) {
    const source = document.getElementById(`${explorer.dataset.explorer}-queries`);
    if (!source) continue;
    const queries = JSON.parse(source.textContent);
    const filter = explorer.querySelector(".filter");
    const every = explorer.querySelector(".every");
    const body = every.querySelector("tbody");
    const said = (name) => filter.querySelector(`[data-filter="${name}"]`).value;

    const update = () => {
      const text = said("text").toLowerCase();
      const slice = said("slice");
      const way = said("way");
      const fits = queries.filter(
        (query) =>
          (query.text.toLowerCase().includes(text) || query.id.toLowerCase().includes(text)) &&
          (!slice || query.slices.includes(slice)) &&
          (!way || (way === "better" ? query.difference > 0 : query.difference < 0)),
      );
      const ids = new Set(fits.map((query) => query.id));
      for (const moved of explorer.querySelectorAll(".moved")) {
        moved.hidden = !ids.has(moved.dataset.query);
      }
      const ordered = way === "better" ? [...fits].reverse() : fits;
      body.replaceChildren(...ordered.slice(0, LIMIT).map(row));
      const cut = fits.length > LIMIT ? `, the first ${LIMIT} in the table` : "";
      filter.querySelector("output").textContent = `${many(fits.length)} of ${many(queries.length)} queries${cut}`;
    };

    filter.addEventListener("input", update);
    filter.hidden = false;
    every.hidden = false;
    update();
  }
})();
