// Common script of all pages: the switches at the top, times, forms, and pending calls.

import { calls } from "./calls.js";
import { byId, element } from "./dom.js";
import { localTimes, sendOnce } from "./forms.js";
import { switches } from "./switches.js";
import { base, say } from "./words.js";

switches();
localTimes();
sendOnce();

/** A card in the corner, shown until it is dismissed. */
function showCard(...content) {
  const card = element("li", { class: "panel" });
  const away = element("button", { type: "button", class: "plain", text: say("put_away") });
  away.addEventListener("click", () => card.remove());
  card.append(...content, away);
  byId("notices").append(card);
}

/** A notification of an agent. */
function notice({ name, title, body }) {
  const words = element("div", { class: "theirs" }, element("strong", { text: title }));
  if (body) words.append(element("p", { text: body }));
  showCard(element("p", { class: "quiet", text: say("tells", { agent: name }) }), words);
}

/** Whether the reader is signed in. */
const inside = document.body.dataset.token !== "";

if (inside) {
  const show = calls((ended) => showCard(element("p", { text: ended })));
  let opened = false;
  const events = new EventSource(`${base}/events?lang=${document.documentElement.lang}`);
  events.addEventListener("calls", (event) => show(JSON.parse(event.data)));
  events.addEventListener("news", (event) => {
    document.dispatchEvent(new CustomEvent("news", { detail: JSON.parse(event.data) }));
  });
  events.addEventListener("talk", (event) => {
    document.dispatchEvent(new CustomEvent("talk", { detail: JSON.parse(event.data) }));
  });
  events.addEventListener("server", (event) => {
    const { text } = JSON.parse(event.data);
    byId("server").hidden = !text;
    byId("server").textContent = text ?? "";
  });
  events.addEventListener("notice", (event) => notice(JSON.parse(event.data)));
  events.addEventListener("open", () => {
    byId("lost").hidden = true;
    // Changes during the interruption are found by reloading.
    document.dispatchEvent(new CustomEvent("news", { detail: { kind: "happened", first: !opened } }));
    opened = true;
  });
  events.addEventListener("error", () => {
    byId("lost").hidden = false;
    // Shown calls cannot be answered while the device is away, and nobody knows how they end.
    show([], { away: true });
  });
}
