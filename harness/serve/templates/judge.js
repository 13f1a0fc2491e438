"use strict";
// A key presses the button that bears it. A key that is held down counts once, and nothing is
// taken after it until the next pair is there.
(() => {
  let sent = false;
  const bears = (key) =>
    [...document.querySelectorAll("button[name='key'], a[data-key]")].find(
      (one) => (one.value || one.dataset.key) === key,
    );
  document.addEventListener("submit", (event) => {
    if (sent) event.preventDefault();
    sent = true;
  });
  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || sent) return;
    const found = bears(event.key.toLowerCase());
    if (found) found.click();
  });
  window.addEventListener("pageshow", () => {
    sent = false;
  });
})();
