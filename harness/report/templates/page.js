"use strict";
// Folds the parts on a small screen, and opens what an address names, and all parts on paper.
(() => {
  const plain = (part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  const unfold = () => {
    const target = document.getElementById(plain(location.hash.slice(1)));
    for (let part = target; part; part = part.parentElement) {
      if (part.tagName === "DETAILS") part.open = true;
    }
    target?.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details.part")) part.open = true;
  });
  if (matchMedia("(max-width: 40rem)").matches) {
    for (const part of document.querySelectorAll("details.part")) part.open = false;
  }
  if (location.hash) unfold();
})();
