// My devices: announces changes, copies the invite command, and clears passphrases.

import { byId } from "./dom.js";
import { say } from "./words.js";

document.addEventListener("news", (event) => {
  if (event.detail.kind === "devices") byId("fresh").hidden = false;
});

const copy = byId("copy");
if (copy && navigator.clipboard) {
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(byId("command").textContent);
      byId("copied").textContent = say("copied");
    } catch {
      byId("copied").textContent = say("not_copied");
    }
  });
}

const backup = byId("backup");
backup?.addEventListener("submit", () => {
  byId("backing-up").hidden = false;
  // The response is a file: the page stays and may be used again.
  setTimeout(() => {
    backup.reset();
    delete backup.dataset.sent;
  }, 1000);
});
