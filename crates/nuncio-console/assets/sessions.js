// Earlier conversations with this agent, newest first, each titled with its first message.

import { blocksOf } from "./aap.js";
import { element } from "./dom.js";
import { page, say } from "./page.js";

/** Number of conversations that "Show more" adds. */
const SHOWN = 8;

export class SessionList {
  #aap;
  #agent;
  #list;
  #more;
  #onDelete;
  #onError;
  #current = null;
  #next = null;
  /** Fetched, not shown yet. */
  #waiting = [];

  /** `onDelete(id)` is called after a conversation was deleted, `onError(error)` if that failed. */
  constructor({ aap, agent, list, more, onDelete, onError }) {
    this.#aap = aap;
    this.#agent = agent;
    this.#list = list;
    this.#more = more;
    this.#onDelete = onDelete;
    this.#onError = onError;
    more.addEventListener("click", () => this.#show());
  }

  async load() {
    this.#waiting = [];
    this.#list.replaceChildren();
    await this.#fetch(null);
    await this.#show();
  }

  /** Marks the conversation that is open. */
  mark(id) {
    this.#current = id;
    for (const link of this.#list.querySelectorAll("a")) {
      if (link.hash === `#${id}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  /** Adds a conversation that has just begun. */
  add(id, title) {
    this.#list.querySelector(".none")?.remove();
    this.#list.prepend(this.#item(id, shortened(title), new Date()));
    this.mark(id);
  }

  async #fetch(after) {
    const page = await this.#aap.sessions(after);
    this.#waiting.push(...page.sessions.filter((session) => session.agent.name === this.#agent.name));
    this.#next = page.next ?? null;
  }

  async #show() {
    while (this.#waiting.length < SHOWN && this.#next) await this.#fetch(this.#next);
    // A conversation that began while the list was loading is already shown.
    const isNew = ({ sessionId }) => !this.#list.querySelector(`a[href="#${CSS.escape(sessionId)}"]`);
    const shown = this.#waiting.splice(0, SHOWN).filter(isNew);
    const items = shown.map(({ sessionId, createdAt }) => this.#item(sessionId, "…", createdAt ? new Date(createdAt) : null));
    this.#list.append(...items);
    if (!this.#list.firstElementChild) this.#showNone();
    this.#more.hidden = this.#waiting.length === 0 && !this.#next;
    this.mark(this.#current);
    for (const [at, { sessionId }] of shown.entries()) {
      setTitle(items[at], await this.#title(sessionId));
    }
  }

  #item(id, title, begun) {
    const time = begun && element("time", { datetime: begun.toISOString(), text: dated(begun), title: precise.format(begun) });
    const link = element("a", { href: `#${id}` }, element("span", {}), time);
    const remove = element("button", { type: "button", class: "plain delete", text: "×" });
    const item = element("li", {}, link, remove);
    remove.addEventListener("click", () => this.#ask(id, item, remove));
    setTitle(item, title);
    return item;
  }

  /** Asks before a conversation is deleted, in its place in the list. */
  #ask(id, item, remove) {
    const yes = element("button", { type: "button", class: "plain", text: say("delete") });
    const no = element("button", { type: "button", class: "plain", text: say("delete_keep") });
    const choice = element("div", { class: "buttons", role: "group", "aria-label": remove.getAttribute("aria-label") }, yes, no);
    const back = () => {
      choice.replaceWith(remove);
      remove.focus();
    };
    no.addEventListener("click", back);
    choice.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      back();
    });
    yes.addEventListener("click", () => this.#delete(id, item, back));
    remove.replaceWith(choice);
    no.focus();
  }

  async #delete(id, item, back) {
    try {
      await this.#aap.remove(id);
    } catch (error) {
      // 404: it was already deleted.
      if (error.status !== 404) {
        back();
        return this.#onError(error);
      }
    }
    item.remove();
    if (!this.#list.firstElementChild) this.#showNone();
    return this.#onDelete(id);
  }

  #showNone() {
    this.#list.append(element("li", { class: "none quiet", text: say("no_conversations") }));
  }

  async #title(id) {
    if (!this.#agent.history) return id;
    try {
      const history = await this.#aap.history(id, this.#agent.history);
      const first = history.find((message) => message.role === "user");
      return first ? shortened(blocksOf(first.content).map((block) => block.text ?? "").join(" ")) : say("untitled");
    } catch {
      return id; // It was deleted meanwhile, or cannot be read; the list need not fail with it.
    }
  }
}

const precise = new Intl.DateTimeFormat(page.language, { dateStyle: "long", timeStyle: "short" });

/** When a conversation began: the time if it was today, else the date. */
function dated(begun) {
  const now = new Date();
  if (begun.toDateString() === now.toDateString()) {
    return begun.toLocaleTimeString(page.language, { hour: "2-digit", minute: "2-digit" });
  }
  const year = begun.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return begun.toLocaleDateString(page.language, { year, month: "short", day: "numeric" });
}

function setTitle(item, title) {
  item.querySelector("span").textContent = title;
  item.querySelector(".delete")?.setAttribute("aria-label", say("delete_named", { title }));
}

function shortened(text) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
}
