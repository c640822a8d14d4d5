// Elements without markup: whatever comes from an agent or a peer only ever becomes text.

/** The element of that id. */
export const byId = (id) => document.getElementById(id);

/** A new element. `text` and `on` are what they say; everything else is an attribute. */
export function element(tag, { text, on, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  for (const [event, listener] of Object.entries(on ?? {})) made.addEventListener(event, listener);
  if (text !== undefined) made.textContent = text;
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

let made = 0;
/** An id no other element has. */
export const freshId = (what) => `${what}-${++made}`;

/** Whether an error is only the echo of our own `abort()`. */
export const isAbort = (error) => error?.name === "AbortError";
