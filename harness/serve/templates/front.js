"use strict";
// Looks what is new, brings the list up to date, and tells the tabs that were opened from here.
// The pages in those tabs are served as they lie on the disk and know nothing of this.
(() => {
  const EVERY_MS = 2000;
  const NOTICE = "harness-newer";
  const STYLE = `
    #${NOTICE} { position: fixed; inset: auto 1rem 1rem auto; z-index: 9999; display: flex; gap: .8rem;
      align-items: center; max-width: calc(100vw - 2rem); padding: .6rem 1rem; border-radius: 8px;
      font: 15px/1.4 system-ui, sans-serif; color: #fff; background: #0a5a94;
      box-shadow: 0 2px 12px rgb(0 0 0 / 35%); }
    #${NOTICE} button { font: inherit; font-weight: 650; color: #0a5a94; background: #fff; border: 0;
      border-radius: 5px; padding: .25rem .8rem; cursor: pointer; }
    @media print { #${NOTICE} { display: none; } }`;

  const list = document.getElementById("list");
  const watch = document.getElementById("watch");
  const title = document.title;
  const opened = new Map();
  const changedAt = new Map();
  const signatures = () =>
    new Map([...list.querySelectorAll(".entry")].map((one) => [one.dataset.key, one.dataset.signature]));
  const first = signatures();
  let files = null;

  const now = () => performance.timeOrigin + performance.now();
  const tell = (text) => {
    if (watch.textContent !== text) watch.textContent = text;
  };

  const mark = () => {
    const newer = [];
    for (const entry of list.querySelectorAll(".entry")) {
      const fresh = first.get(entry.dataset.key) !== entry.dataset.signature;
      entry.querySelector(".newer").hidden = !fresh;
      if (fresh) newer.push(entry.dataset.key);
    }
    document.title = newer.length ? `(${newer.length}) ${title}` : title;
    tell(newer.length ? `A newer run is there: ${newer.join(", ")}.` : "Watching for new runs.");
  };

  const renew = (text) => {
    const at = document.activeElement;
    const href = list.contains(at) ? at.getAttribute("href") : null;
    const read = new DOMParser().parseFromString(text, "text/html");
    list.replaceChildren(...document.adoptNode(read.body).childNodes);
    if (href) [...list.querySelectorAll("a")].find((one) => one.getAttribute("href") === href)?.focus();
  };

  const noticed = (tab, words) => {
    const page = tab.document;
    if (!page.body) return;
    let bar = page.getElementById(NOTICE);
    if (!bar) {
      const sheet = new tab.CSSStyleSheet();
      sheet.replaceSync(STYLE);
      page.adoptedStyleSheets = [...page.adoptedStyleSheets, sheet];
      bar = page.createElement("div");
      bar.id = NOTICE;
      bar.setAttribute("role", "status");
      const reload = page.createElement("button");
      reload.type = "button";
      reload.textContent = "Reload";
      reload.addEventListener("click", () => tab.location.reload());
      bar.append(page.createElement("span"), reload);
      page.body.append(bar);
    }
    if (bar.firstChild.textContent !== words) bar.firstChild.textContent = words;
  };

  const plain = (path) => {
    try {
      return decodeURIComponent(path);
    } catch {
      return path;
    }
  };

  const visit = (tab) => {
    const [, key] = /^\/files\/(.+)$/.exec(plain(tab.location.pathname)) ?? [];
    if (!key || tab.document.readyState === "loading") return;
    if (!(key in files)) noticed(tab, "This page is gone: a run may be under way.");
    else if ((changedAt.get(key) ?? 0) > tab.performance.timeOrigin) noticed(tab, "A newer run is there.");
  };

  const look = async () => {
    try {
      const asked = encodeURIComponent(list.dataset.stamp);
      const answer = await fetch(`/state?stamp=${asked}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const found = await answer.json();
      for (const key of Object.keys(found.files)) {
        if (files && files[key] !== found.files[key]) changedAt.set(key, now());
      }
      files = found.files;
      if (found.list !== null) {
        list.dataset.stamp = found.stamp;
        renew(found.list);
      }
      mark();
    } catch {
      tell("The server does not answer: it was stopped, or started anew with another token.");
      return;
    }
    for (const [name, tab] of opened) {
      if (tab.closed) opened.delete(name);
      else {
        try {
          visit(tab);
        } catch {
          // It shows something of another site by now.
        }
      }
    }
  };

  list.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-tab]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const name = link.getAttribute("href");
    const tab = window.open("", name);
    if (!tab) return;
    event.preventDefault();
    // This page holds the tab; the tab must not hold this page, from which one can judge.
    try {
      tab.opener = null;
    } catch {
      // It shows something of another site by now.
    }
    tab.location.href = link.href;
    opened.set(name, tab);
    tab.focus();
  });

  const again = async () => {
    await look();
    setTimeout(again, EVERY_MS);
  };
  again();
})();
