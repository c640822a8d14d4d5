// Runs before the first paint, so that nobody sees the wrong colours or the wrong language first.
"use strict";
(() => {
  const kept = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // Storage may be switched off; then the system's choice holds.
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
