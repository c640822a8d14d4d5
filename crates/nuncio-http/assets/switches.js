// The switches in the head of every page: light or dark, and the language.

import { byId } from "./dom.js";

/** Keeps a choice for the next visit, where that is possible. */
function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Then it holds for this visit.
  }
}

/** Brings them to life. */
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
