// The conversation on the page: transcript, message field and list of conversations.

import { Aap } from "./aap.js";
import { announce } from "./announce.js";
import { Conversation, OtherAgent } from "./conversation.js";
import { byId } from "./dom.js";
import { askForKey, key } from "./key.js";
import { page, say } from "./page.js";
import { SessionList } from "./sessions.js";
import { Settings } from "./settings.js";
import { Transcript } from "./transcript.js";

export class Chat {
  #scroll = byId("scroll");
  #input = byId("message");
  #send = byId("send");
  #stop = byId("stop");
  #trouble = byId("trouble");
  #aap = new Aap(page.aap, key);
  #transcript = new Transcript(byId("transcript"), (call, decision) => this.#conversation.decide(call, decision));
  #conversation = new Conversation({
    aap: this.#aap,
    agent: page.agent,
    settings: new Settings(document.querySelector(".about"), page.agent.options, say("kept_secret")),
    view: this,
  });
  #sessions = new SessionList({
    aap: this.#aap,
    agent: page.agent,
    list: byId("sessions"),
    more: byId("more-sessions"),
    onDelete: (id) => this.#deleted(id),
    onError: (error) => this.failed(error),
  });
  #countdown = 0;
  #begunWith = "";
  /** Whether the end of the transcript is visible; new messages then scroll into view. */
  #atEnd = true;

  async start() {
    this.#listen();
    if (page.needsKey && !key()) await this.#askForKey();
    await Promise.all([this.#openFromAddress(), this.#loadSessions()]);
    // On a touch screen the focus would open the on-screen keyboard.
    if (!matchMedia("(pointer: coarse)").matches && document.activeElement === document.body) this.#input.focus();
  }

  // Called by the conversation.

  clear() {
    this.#transcript.clear();
  }

  history(messages, { shown }) {
    this.#transcript.history(messages);
    if (!shown) this.#transcript.note(say("no_history"));
    this.#toEnd();
  }

  unsay(from) {
    this.#transcript.unsay(from);
  }

  user(text) {
    this.#begunWith = text;
    this.#transcript.user(text);
    this.#atEnd = true;
    this.#toEnd();
  }

  unsent(text) {
    this.#transcript.removeLast();
    if (!this.#input.value) this.#write(text);
  }

  named(id) {
    history.replaceState(null, "", `#${id}`);
    this.#sessions.add(id, this.#begunWith);
  }

  event(name, data) {
    if (name === "turn_start") this.trouble(null);
    this.#transcript.event(name, data);
    this.#toEnd();
  }

  ask(calls, how) {
    this.#transcript.ask(calls, how);
    this.#toEnd();
  }

  decided(call, granted, others) {
    this.#transcript.decided(call, granted, others);
  }

  state(state) {
    const running = state === "running";
    const hadFocus = [this.#send, this.#stop].includes(document.activeElement);
    this.#send.hidden = running;
    this.#stop.hidden = !running;
    this.#stop.disabled = false;
    document.body.dataset.state = state;
    byId("transcript").setAttribute("aria-busy", String(running));
    if (hadFocus) this.#input.focus();
  }

  failed(error) {
    if (error.status === 401) {
      this.#askForKey().then((has) => has && this.#loadSessions());
    } else {
      this.#transcript.failure(error.status ? error.message : say("offline"), error.code);
      this.#toEnd();
    }
  }

  trouble(pause) {
    clearInterval(this.#countdown);
    this.#trouble.hidden = pause === null;
    if (pause === null) return;
    const until = performance.now() + pause;
    const tell = () => {
      const seconds = Math.ceil((until - performance.now()) / 1000);
      this.#trouble.textContent = seconds > 1 ? say("lost", { seconds }) : say("reconnecting");
    };
    tell();
    this.#countdown = setInterval(tell, 1000);
  }

  // Actions of the person.

  #listen() {
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#say();
    });
    this.#input.addEventListener("keydown", (event) => {
      // While text is being composed, Enter belongs to the input method.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.#say();
    });
    this.#input.addEventListener("input", () => this.#fit());
    for (const example of document.querySelectorAll("[data-example]")) {
      example.addEventListener("click", () => this.#sendText(example.textContent));
    }
    this.#stop.addEventListener("click", () => this.#halt());
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.isComposing && !byId("key-dialog").open) this.#halt();
    });
    addEventListener("hashchange", () => this.#openFromAddress());
    byId("new-conversation").addEventListener("click", () => this.#beginAnew());
    this.#scroll.addEventListener("scroll", () => {
      this.#atEnd = this.#scroll.scrollHeight - this.#scroll.scrollTop - this.#scroll.clientHeight < 48;
    });
  }

  #say() {
    const text = this.#input.value.trim();
    if (!text || this.#conversation.state === "running") return;
    this.#write("");
    this.#sendText(text);
  }

  #sendText(text) {
    if (this.#conversation.state === "running") return;
    announce(say("answering", { agent: page.agent.title }));
    this.#conversation.send(text);
  }

  #halt() {
    if (this.#conversation.state !== "running") return;
    this.#stop.disabled = true;
    this.#conversation.stop();
  }

  #beginAnew() {
    history.replaceState(null, "", location.pathname + location.search);
    this.#conversation.begin();
    this.#sessions.mark(null);
    document.body.dataset.view = "chat";
    dispatchEvent(new Event("viewchange"));
    this.#input.focus();
  }

  #deleted(id) {
    announce(say("deleted"));
    if (id === this.#conversation.id) this.#beginAnew();
    else byId("new-conversation").focus();
  }

  /** Puts the conversation into the URL, so that it can be bookmarked and reloaded. */
  async #openFromAddress() {
    const id = location.hash.slice(1);
    if (id === "" && this.#conversation.id) return this.#beginAnew();
    if (!/^ses_[A-Za-z0-9_-]+$/.test(id) || id === this.#conversation.id) return;
    this.#sessions.mark(id);
    document.body.dataset.view = "chat";
    dispatchEvent(new Event("viewchange"));
    this.#atEnd = true;
    try {
      announce(say("opened"));
      await this.#conversation.open(id);
    } catch (error) {
      this.#notOpened(id, error);
    }
  }

  #notOpened(id, error) {
    this.#conversation.begin();
    if (error instanceof OtherAgent) {
      const address = new URL(location.href);
      // The page was already loaded for that agent, so it is not served here.
      if (address.searchParams.get("agent") === error.agent) return this.#transcript.note(say("other_agent"), "wrong");
      address.searchParams.set("agent", error.agent);
      return location.replace(address);
    }
    if (error.status === 401) return this.#askForKey().then((has) => has && this.#openFromAddress());
    if (error.status === 404) return this.#transcript.note(say("gone"), "wrong");
    return this.failed(error);
  }

  async #loadSessions() {
    try {
      await this.#sessions.load();
    } catch (error) {
      if (error.status !== 401) this.failed(error);
    }
  }

  #askForKey() {
    return askForKey(() => this.#aap.sessions());
  }

  #write(text) {
    this.#input.value = text;
    this.#fit();
  }

  /** Lets the field grow with its text, up to the limit in the style sheet. */
  #fit() {
    this.#input.style.height = "auto";
    this.#input.style.height = `${this.#input.scrollHeight}px`;
  }

  #toEnd() {
    if (this.#atEnd) this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }
}
