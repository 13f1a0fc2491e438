"use strict";
// Looks what is new every two seconds, and brings the list up to date.
(() => {
  const EVERY_MS = 2000;
  const list = document.getElementById("list");
  const watch = document.getElementById("watch");
  const title = document.title;
  const signatures = () =>
    new Map([...list.querySelectorAll(".entry")].map((one) => [one.dataset.key, one.dataset.signature]));
  const first = signatures();
  let shown = list.innerHTML;

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

  const renew = (found) => {
    const at = document.activeElement;
    const href = list.contains(at) ? at.getAttribute("href") : null;
    list.replaceChildren(...document.adoptNode(found).childNodes);
    if (href) [...list.querySelectorAll("a")].find((one) => one.getAttribute("href") === href)?.focus();
  };

  const look = async () => {
    try {
      const answer = await fetch("/", { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const read = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = read.getElementById("list");
      if (found.innerHTML !== shown) {
        shown = found.innerHTML;
        renew(found);
      }
      mark();
    } catch {
      tell("The server does not answer: it was stopped, or started anew with another token.");
    }
  };

  const again = async () => {
    await look();
    setTimeout(again, EVERY_MS);
  };
  again();
})();
