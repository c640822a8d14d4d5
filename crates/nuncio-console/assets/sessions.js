// Earlier conversations with this agent, newest first, each titled with its first message.

import { blocksOf } from "./aap.js";
import { element } from "./dom.js";
import { say } from "./page.js";

/** Number of conversations that "Show more" adds. */
const SHOWN = 8;

export class SessionList {
  #aap;
  #agent;
  #list;
  #more;
  #current = null;
  #next = null;
  /** Fetched, not shown yet. */
  #waiting = [];

  constructor({ aap, agent, list, more }) {
    this.#aap = aap;
    this.#agent = agent;
    this.#list = list;
    this.#more = more;
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
    this.#list.prepend(this.#item(id, shortened(title)));
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
    const items = shown.map(({ sessionId }) => this.#item(sessionId, "…"));
    this.#list.append(...items);
    if (!this.#list.firstElementChild) {
      this.#list.append(element("li", { class: "none quiet", text: say("no_conversations") }));
    }
    this.#more.hidden = this.#waiting.length === 0 && !this.#next;
    this.mark(this.#current);
    for (const [at, { sessionId }] of shown.entries()) {
      items[at].querySelector("span").textContent = await this.#title(sessionId);
    }
  }

  #item(id, title) {
    return element("li", {}, element("a", { href: `#${id}` }, element("span", { text: title })));
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

function shortened(text) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
}
