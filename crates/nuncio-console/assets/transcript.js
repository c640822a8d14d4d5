// Displays the messages and tool calls of a conversation.

import { blocksOf } from "./aap.js";
import { announce, announcePiece, announceRest } from "./announce.js";
import { element, printable } from "./dom.js";
import { MarkdownText } from "./markdown.js";
import { page, say } from "./page.js";
import { ToolCard, picture } from "./tool-card.js";

/** The nodes of a message; parts in backquotes are code. */
const coded = (message) =>
  printable(message)
    .split("`")
    .map((part, index) => (index % 2 === 1 ? element("code", { text: part }) : document.createTextNode(part)));

export class Transcript {
  #root;
  #decide;
  /** The article for the agent's output, one between two messages of the user. */
  #answer = null;
  /** The block that is being written: its kind, its element, `append` for the next piece, `end` after the last. */
  #writing = null;
  /** The calls since the last user message, by id. */
  #cards = new Map();
  /** The elements of each displayed message of the history. */
  #shown = [];

  constructor(root, decide) {
    this.#root = root;
    this.#decide = decide;
  }

  clear() {
    this.#root.replaceChildren();
    this.#shown = [];
    this.#next();
  }

  /** Displays the history. */
  history(messages) {
    this.#shown = messages.map((message) => this.#message(message));
    this.#writing = null;
  }

  /** Removes the messages of the history from this index on. */
  unsay(from) {
    for (const elements of this.#shown.splice(from)) for (const one of elements) one.remove();
  }

  user(text) {
    for (const card of this.#cards.values()) card.leave();
    return this.#user([{ type: "text", text }]);
  }

  /** Removes a message that the server did not accept. */
  removeLast() {
    this.#root.lastElementChild?.remove();
    this.#next();
  }

  note(text, kind = "note") {
    this.#close();
    this.#root.append(element("p", { class: `note ${kind}`, text, role: kind === "wrong" ? "alert" : null }));
    this.#answer = null;
  }

  /** Displays an error with its code. The server's message is in English; in another language it is a detail. */
  failure(message, code) {
    this.#close();
    const meaning = page.faults[code];
    const words = element("p", meaning ? { text: meaning } : {}, ...(meaning ? [] : coded(message)));
    const details = meaning
      ? element("details", {}, element("summary", { text: say("details") }), element("p", { lang: "en" }, ...coded(message)))
      : null;
    const lookUp = code ? element("p", { class: "quiet", text: say("code", { code }) }) : null;
    this.#root.append(element("div", { class: "note wrong", role: "alert" }, words, details, lookUp));
    this.#answer = null;
  }

  /** Displays one event of a running turn. */
  event(name, data) {
    switch (name) {
      case "text_delta":
        return this.#write("text", data.delta);
      case "thinking_delta":
        return this.#write("thinking", data.delta);
      case "text":
      case "thinking":
        this.#close();
        this.#write(name, data[name]);
        return this.#close();
      case "tool_call":
        this.#close();
        return this.#call(data).run();
      case "tool_result":
        this.#close();
        return this.#cards.get(data.toolCallId)?.finish(data.content);
      case "turn_stop":
        return this.#stop(data);
      default:
        return undefined; // Events of later versions are none of ours.
    }
  }

  /** Asks for decisions on the waiting calls. */
  ask(calls, { elsewhere }) {
    for (const call of calls) {
      const card = this.#cards.get(call.toolCallId) ?? this.#call(call);
      if (elsewhere) card.waitElsewhere();
      else card.ask((decision) => this.#decide(call.toolCallId, decision));
      announce(card.question);
    }
  }

  decided(call, granted, others) {
    this.#cards.get(call)?.decided(granted, others);
  }

  #stop({ stopReason, cancelled, error }) {
    this.#close();
    announceRest();
    if (stopReason !== "tool_use") for (const card of this.#cards.values()) card.leave();
    if (cancelled) this.note(say("stopped"));
    else if (stopReason === "max_tokens") this.note(say("max_tokens"));
    else if (stopReason === "refusal") this.note(say("refusal"));
    else if (stopReason === "error") this.failure(error?.message ?? say("failed"), error?.code);
    else if (stopReason === "end_turn") announce(say("answered", { agent: page.agent.title }));
  }

  /** Displays a message of the history and returns its elements. */
  #message(message) {
    if (message.role === "user") return [this.#user(blocksOf(message.content))];
    if (message.role === "tool") {
      this.#cards.get(message.toolCallId)?.finish(message.content);
      return [];
    }
    if (message.role !== "assistant") return [];
    return blocksOf(message.content).map((block) => this.#block(block));
  }

  #block(block) {
    if (block.type === "tool_use") return this.#call(block).root;
    if (block.type === "image") return this.#put(picture(block.url));
    const made = this.#paragraph(block.type, block[block.type] ?? "");
    return this.#put(made.root);
  }

  #user(blocks) {
    this.#next();
    const parts = blocks.map((block) =>
      block.type === "image" ? picture(block.url) : element("p", { class: "text", text: block.text ?? "" }),
    );
    const speaker = element("h2", { class: "unseen", text: say("you") });
    const bubble = element("article", { class: "user" }, speaker, ...parts);
    this.#root.append(bubble);
    return bubble;
  }

  #write(voice, piece) {
    if (this.#writing?.voice !== voice) {
      this.#close();
      const made = this.#paragraph(voice, "");
      this.#put(made.root);
      this.#writing = { voice, ...made };
      made.root.classList.add("writing");
    }
    this.#writing.append(piece);
    if (voice === "text") announcePiece(piece);
  }

  #paragraph(voice, text) {
    if (voice === "text") {
      const markdown = new MarkdownText(text);
      return { root: markdown.root, append: (piece) => markdown.append(piece), end: () => markdown.end() };
    }
    const node = document.createTextNode(printable(text));
    const body = element("p", { class: "text" }, node);
    const summary = element("summary", { text: say("thinking") });
    const append = (piece) => node.appendData(printable(piece));
    return { root: element("details", { class: "thinking" }, summary, body), append, end: () => {} };
  }

  #call(call) {
    const card = new ToolCard(call);
    this.#cards.set(call.toolCallId, card);
    this.#put(card.root);
    return card;
  }

  #put(part) {
    if (!this.#answer) {
      const speaker = element("h2", { class: "unseen", text: page.agent.title });
      this.#answer = element("article", { class: "agent" }, speaker);
      this.#root.append(this.#answer);
    }
    this.#answer.append(part);
    return part;
  }

  #close() {
    this.#writing?.end();
    this.#writing?.root.classList.remove("writing");
    this.#writing = null;
  }

  /** Starts a new exchange, in which call ids may repeat. */
  #next() {
    this.#close();
    this.#answer = null;
    this.#cards = new Map();
  }
}
