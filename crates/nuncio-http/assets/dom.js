// Creates elements without markup: everything from an agent or a peer is inserted as text.

// The characters of `is_unprintable` in nuncio-core/src/text.rs, but for line breaks and tabs.
const UNPRINTABLE =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** A text in which invisible and direction-changing characters are replaced. */
export const printable = (text) => String(text ?? "").replace(UNPRINTABLE, "\ufffd");

/** The element with that id. */
export const byId = (id) => document.getElementById(id);

/** A new element. `text` is its content, `on` its listeners; everything else is an attribute. */
export function element(tag, { text, on, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  for (const [event, listener] of Object.entries(on ?? {})) made.addEventListener(event, listener);
  if (text !== undefined) made.textContent = printable(text);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

let made = 0;
/** An id that no other element has. */
export const freshId = (what) => `${what}-${++made}`;

/** Whether an error was caused by this script's own `abort()`. */
export const isAbort = (error) => error?.name === "AbortError";
