// Texts in the page's language, and the parameters of every scripted request.

const words = JSON.parse(document.getElementById("words").textContent);

/** A text of the catalog with its placeholders filled in. */
export function say(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** Base path of the pages. */
export const base = document.body.dataset.base;

/** Sends a form to the device. */
export function send(path, fields) {
  const body = new URLSearchParams({ csrf: document.body.dataset.token, ...fields });
  return fetch(path, { method: "POST", body, headers: { accept: "application/json" } });
}
