// Pending calls. The first page shows them inline; every other page shows them in a dialog, one at a time.
// Deny has the focus, and answers in the first half second after a call is shown are ignored, here and on the device.

import { announce } from "./announce.js";
import { byId, freshId } from "./dom.js";
import { base, say, send } from "./words.js";

/** An answer within this time was probably meant for something else. */
const TOO_SOON = 500;
/** Remaining time below which a call is marked as urgent. */
const SOON = 10_000;

/** The card of a call: everything from the agent is inserted as text. */
class Card {
  constructor(call, gone) {
    this.call = call;
    this.until = performance.now() + call.left;
    this.whole = call.left;
    this.node = byId("call").content.firstElementChild.cloneNode(true);
    this.gone = gone;
    this.fill();
    this.seen();
    // A page that was in the background shows the call only now.
    this.look = () => document.hidden || this.seen();
    document.addEventListener("visibilitychange", this.look);
    this.timer = setInterval(() => this.tick(), 200);
    this.tick();
  }

  buttons() {
    return this.node.querySelectorAll(".buttons [data-part]");
  }

  part(name) {
    return this.node.querySelector(`[data-part="${name}"]`);
  }

  fill() {
    const { call } = this;
    this.node.classList.add(call.level);
    const title = this.part("title");
    title.id = freshId("call");
    this.node.setAttribute("aria-labelledby", title.id);
    title.textContent = say("wants", { agent: call.agent_name, tool: call.tool });
    this.part("agent").textContent = call.agent;
    this.part("verified").textContent = call.verified;
    this.part("icon").setAttribute("d", call.icon);
    this.part("label").textContent = call.label;
    this.part("means").textContent = call.means ?? "";
    this.part("label").title = call.scope;
    this.part("stake").textContent = call.stake;
    this.part("stake").classList.add(`level-${call.level}`);
    this.part("arguments").textContent = call.arguments;
    this.part("source").textContent = call.source;
    if (call.level === "medium") this.part("day-means").textContent = call.day_means;
    else for (const part of ["day", "day-means"]) this.part(part).remove();
    if (call.agents_words) this.part("words").classList.add("theirs");
    if (call.standard) this.part("standard").textContent = call.standard;
    else this.part("standard").remove();
    if (call.description) this.part("description").textContent = call.description;
    else this.part("says").remove();
    for (const button of this.buttons()) {
      button.addEventListener("click", () => this.answer(button.dataset.answer));
    }
  }

  /** The call is visible from now on; answers are ignored for half a second. */
  seen() {
    this.from = performance.now() + TOO_SOON;
    this.wait(true);
    setTimeout(() => this.wait(performance.now() < this.from), TOO_SOON + 20);
  }

  wait(waits) {
    // Not disabled: Deny keeps the focus.
    for (const button of this.buttons()) button.setAttribute("aria-disabled", String(waits || this.sent === true));
  }

  tick() {
    const left = Math.max(0, this.until - performance.now());
    this.part("left").textContent = say("left", { seconds: Math.ceil(left / 1000) });
    this.part("meter").style.transform = `scaleX(${left / this.whole})`;
    this.node.classList.toggle("soon", left < SOON);
  }

  async answer(answer) {
    if (this.sent || performance.now() < this.from) return;
    this.sent = true;
    this.wait(false);
    let status;
    try {
      status = (await send(`${base}/calls/${encodeURIComponent(this.call.id)}`, { answer })).status;
    } catch {
      status = 0;
    }
    if (status === 200) announce(answer === "deny" ? say("denied") : say("allowed"));
    else if (status === 409) {
      this.sent = false;
      this.seen();
    } else announce(say("not_counted"));
  }

  focus() {
    this.part("deny").focus();
  }

  end() {
    clearInterval(this.timer);
    document.removeEventListener("visibilitychange", this.look);
    this.node.remove();
  }
}

/** Marks the tab while a call waits. */
function badge(waits) {
  const icon = document.querySelector("link[rel=icon]");
  icon.dataset.usual ??= icon.href;
  icon.href = waits ? icon.dataset.waiting : icon.dataset.usual;
}

/** A system notice about a call while the page is in the background, if the reader switched notices on. */
function systemNotice(call) {
  if (!document.hidden || !("Notification" in window) || Notification.permission !== "granted") return;
  const notice = new Notification(say("wants", { agent: call.agent_name, tool: call.tool }), { tag: call.id });
  notice.addEventListener("click", () => window.focus());
}

/** Offers system notices on the first page until the reader has decided. */
function offerNotices() {
  const button = byId("notify");
  if (!button || !("Notification" in window) || Notification.permission !== "default") return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.hidden = true;
    const answer = await Notification.requestPermission();
    announce(answer === "granted" ? say("notices_on") : say("notices_off"));
  });
}

/**
 * Shows pending calls; call the returned function with the whole list whenever it changes. `tell` gets the sentence that
 * a call ended without an answer of this page.
 */
export function calls(tell) {
  const cards = new Map();
  offerNotices();
  const title = document.title;
  const place = byId("calls");
  const dialog = byId("ask");
  // The dialog closes only by an answer or at its deadline. Browsers allow preventing `cancel` only once.
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  dialog.addEventListener("keydown", (event) => event.key === "Escape" && event.preventDefault());
  const show = (card) => {
    card.seen();
    if (!dialog.open) dialog.showModal();
    card.focus();
  };
  dialog.addEventListener("close", () => cards.size > 0 && show(cards.values().next().value));
  return (waiting, { away = false } = {}) => {
    const ids = new Set(waiting.map((call) => call.id));
    let moved = false;
    for (const [id, card] of cards) {
      if (ids.has(id)) continue;
      card.end();
      cards.delete(id);
      moved = true;
      if (card.sent || away) continue;
      const ended = say("over", { agent: card.call.agent_name, tool: card.call.tool });
      announce(ended);
      tell(ended);
    }
    // A card that moved under the pointer has not been seen there.
    if (moved) for (const card of cards.values()) card.seen();
    for (const call of waiting) {
      if (cards.has(call.id)) continue;
      const card = new Card(call);
      cards.set(call.id, card);
      announce(say("wants", { agent: call.agent_name, tool: call.tool }));
      systemNotice(call);
      if (place) place.append(card.node);
    }
    badge(cards.size > 0);
    document.title = cards.size > 0 ? `(${cards.size}) ${title}` : title;
    const first = cards.values().next().value;
    if (place) {
      byId("no-calls").hidden = cards.size > 0;
      if (first && !place.contains(document.activeElement)) first.focus();
    } else if (!first) {
      if (dialog.open) dialog.close();
    } else if (first.node.parentElement !== dialog) {
      dialog.replaceChildren(first.node);
      show(first);
    }
  };
}
