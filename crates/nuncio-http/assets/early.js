// Runs before the first paint, so that the page never flashes in the wrong theme or language.
"use strict";
(() => {
  const kept = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // Storage may be disabled; then the system's preference applies.
    }
  };
  const theme = kept("nuncio-theme");
  if (theme === "light" || theme === "dark") {
    document.documentElement.dataset.theme = theme;
  }
  const language = kept("nuncio-language");
  const address = new URL(location.href);
  const isKnown = language === "en" || language === "zh-CN";
  if (isKnown && !address.searchParams.has("lang") && language !== document.documentElement.lang) {
    address.searchParams.set("lang", language);
    location.replace(address);
  }
})();
