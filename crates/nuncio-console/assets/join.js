// The page of an invite link. The secret is in the fragment of the address, which browsers do not send; this script
// puts the link into the command on the page and sends nothing either.

import { byId } from "./dom.js";
import { switches } from "./switches.js";

switches();

/** The link without the language that this page may have added. */
function inviteLink() {
  return `${location.origin}${location.pathname}${location.hash}`;
}

/** A code, a dot, and the fingerprint of the server's key: 32 bytes in base64url. */
const isWhole = /^#[\w.-]+\.[\w-]{43}$/.test(location.hash);

byId("incomplete").hidden = isWhole;
if (isWhole) byId("command").textContent = `nuncio device join '${inviteLink()}'`;

function copies(button, text) {
  if (!isWhole || !navigator.clipboard) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      byId("copied").textContent = button.dataset.copied;
    } catch {
      byId("copied").textContent = button.dataset.failed;
    }
  });
}

copies(byId("copy"), () => byId("command").textContent);
copies(byId("copy-link"), inviteLink);
// Another link in the same tab changes only the fragment.
addEventListener("hashchange", () => location.reload());
