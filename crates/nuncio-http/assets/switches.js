// The switches in the header of every page: theme and language.

import { byId } from "./dom.js";

/** Stores a choice for the next visit, where that is possible. */
function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Without storage the choice applies to this visit only.
  }
}

/** Activates the switches. */
export function switches() {
  byId("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
    keep("nuncio-theme", root.dataset.theme);
  });
  for (const link of document.querySelectorAll("[data-language]")) {
    link.addEventListener("click", () => {
      keep("nuncio-language", link.dataset.language);
      link.hash = location.hash;
    });
  }
}
