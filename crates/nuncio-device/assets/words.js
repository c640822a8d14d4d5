// The words of the page's language, and what every request of a script carries.

const words = JSON.parse(document.getElementById("words").textContent);

/** A text of the catalog, its blanks filled in. */
export function say(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** The path below which the pages are. */
export const base = document.body.dataset.base;

/** Sends a form to our own device. */
export function send(path, fields) {
  const body = new URLSearchParams({ csrf: document.body.dataset.token, ...fields });
  return fetch(path, { method: "POST", body, headers: { accept: "application/json" } });
}
