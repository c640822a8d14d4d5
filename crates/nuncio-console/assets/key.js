// The API key, if the server asks for one: stored in this tab only and sent with every request.

import { byId } from "./dom.js";
import { say } from "./page.js";

const PLACE = "nuncio-key";

/** The stored key, or null. */
export const key = () => sessionStorage.getItem(PLACE);

/** Removes the stored key. */
export function forgetKey() {
  sessionStorage.removeItem(PLACE);
  show();
}

/** Shows the button that removes the key if there is one. */
export function show() {
  byId("forget-key").hidden = !key();
}

/**
 * Asks for a key until one works. Resolves to whether there is one; Escape closes the dialog.
 *
 * @param works `() => Promise`, a request that needs a key.
 */
export function askForKey(works) {
  const [dialog, form, input, wrong] = ["key-dialog", "key-form", "key", "key-error"].map(byId);
  return new Promise((resolve) => {
    const told = new AbortController();
    const end = () => {
      told.abort();
      input.value = "";
      show();
      resolve(key() !== null);
    };
    const complain = (text) => {
      wrong.textContent = text;
      input.setAttribute("aria-invalid", String(text !== ""));
      if (text) input.focus();
    };
    const submit = async (event) => {
      event.preventDefault();
      const entered = input.value.trim();
      if (!entered) return complain(say("empty_key"));
      sessionStorage.setItem(PLACE, entered);
      try {
        await works();
        dialog.close();
      } catch (error) {
        sessionStorage.removeItem(PLACE);
        complain(error.status === 401 ? say("wrong_key") : error.status ? error.message : say("offline"));
      }
      return undefined;
    };
    form.addEventListener("submit", submit, { signal: told.signal });
    dialog.addEventListener("close", end, { signal: told.signal });
    complain("");
    if (!dialog.open) dialog.showModal();
    input.focus();
  });
}
