// Starts the scripts of the home page: switches, copy buttons and the conversation.

import { Chat } from "./chat.js";
import { announce } from "./announce.js";
import { byId } from "./dom.js";
import { forgetKey, show } from "./key.js";
import { page, say } from "./page.js";
import { switches } from "./switches.js";

switches();

byId("skip").addEventListener("click", (event) => {
  // The URL fragment names the conversation; a link within the page must not replace it.
  event.preventDefault();
  byId("message")?.focus();
});

byId("forget-key").addEventListener("click", () => {
  forgetKey();
  location.reload();
});

const views = [...document.querySelectorAll("[data-show]")];
const showView = () => {
  for (const button of views) button.setAttribute("aria-pressed", String(button.dataset.show === document.body.dataset.view));
};
for (const button of views) {
  button.addEventListener("click", () => {
    document.body.dataset.view = button.dataset.show;
    showView();
  });
}
addEventListener("viewchange", showView);

for (const place of document.querySelectorAll("[data-origin]")) place.textContent = location.origin;

for (const button of document.querySelectorAll("[data-copy]")) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    const done = await copy(button.parentElement.querySelector("[data-command]"));
    button.textContent = done ? say("copied") : say("copy_failed");
    announce(button.textContent);
    setTimeout(() => (button.textContent = label), 2000);
  });
}

async function copy(command) {
  try {
    await navigator.clipboard.writeText(command.textContent);
    return true;
  } catch {
    // Outside secure contexts there is no clipboard, so the text is only selected.
    getSelection().selectAllChildren(command);
    return document.execCommand("copy");
  }
}

show();
if (page.agent) new Chat().start();
