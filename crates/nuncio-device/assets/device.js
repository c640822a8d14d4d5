// On every page: the switches at the top, times, forms, and what waits for the person.

import { calls } from "./calls.js";
import { byId, element } from "./dom.js";
import { localTimes, sendOnce } from "./forms.js";
import { switches } from "./switches.js";
import { base, say } from "./words.js";

switches();
localTimes();
sendOnce();

/** What an agent tells: its own words, until somebody puts them away. */
function notice({ name, title, body }) {
  const card = element("li", { class: "panel" });
  const away = element("button", { type: "button", class: "plain", text: say("put_away") });
  away.addEventListener("click", () => card.remove());
  const words = element("div", { class: "theirs" }, element("strong", { text: title }));
  if (body) words.append(element("p", { text: body }));
  card.append(element("p", { class: "quiet", text: say("tells", { agent: name }) }), words, away);
  byId("notices").append(card);
}

/** Whether this page is for somebody who is in. */
const inside = document.body.dataset.token !== "";

if (inside) {
  const show = calls();
  let opened = false;
  const events = new EventSource(`${base}/events?lang=${document.documentElement.lang}`);
  events.addEventListener("calls", (event) => show(JSON.parse(event.data)));
  events.addEventListener("news", (event) => {
    document.dispatchEvent(new CustomEvent("news", { detail: JSON.parse(event.data) }));
  });
  events.addEventListener("talk", (event) => {
    document.dispatchEvent(new CustomEvent("talk", { detail: JSON.parse(event.data) }));
  });
  events.addEventListener("notice", (event) => notice(JSON.parse(event.data)));
  events.addEventListener("open", () => {
    byId("lost").hidden = true;
    // What happened meanwhile is found by looking.
    document.dispatchEvent(new CustomEvent("news", { detail: { kind: "happened", first: !opened } }));
    opened = true;
  });
  events.addEventListener("error", () => {
    byId("lost").hidden = false;
    // Nothing that is shown can be answered now.
    show([]);
  });
}
