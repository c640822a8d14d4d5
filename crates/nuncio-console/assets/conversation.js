// The state of one conversation, and the actions that are possible. It uses no elements of the page; a view
// displays it.

import { isAbort } from "./dom.js";

/** The conversation is with another agent than the page shows. */
export class OtherAgent extends Error {
  constructor(agent) {
    super(agent);
    this.agent = agent;
  }
}

export class Conversation {
  #aap;
  #agent;
  #settings;
  #view;
  /** Stops reading the stream; the turn itself continues. */
  #reading = new AbortController();
  /** The tools that another app brought into this conversation and runs itself. */
  #foreign = new Set();
  /** The calls of this turn without a result. */
  #open = new Map();
  /** Decisions on the waiting calls. */
  #decisions = new Map();

  id = null;
  /** `idle`, `running`, or `waiting` for decisions. */
  state = "idle";

  constructor({ aap, agent, settings, view }) {
    this.#aap = aap;
    this.#agent = agent;
    this.#settings = settings;
    this.#view = view;
  }

  /** Starts a new conversation; nothing is sent before the first message. */
  begin() {
    this.#leave();
    this.id = null;
    this.#foreign = new Set();
    this.#settings.reset();
    this.#view.clear();
    this.#become("idle");
  }

  /** Opens an earlier conversation, and follows its last turn if that still runs. */
  async open(id) {
    const signal = this.#leave();
    this.id = id;
    this.#view.clear();
    this.#become("idle");
    try {
      const session = await this.#aap.session(id);
      if (session.agent.name !== this.#agent.name) throw new OtherAgent(session.agent.name);
      const type = this.#agent.history;
      const history = type ? await this.#aap.history(id, type) : [];
      if (signal.aborted) return;
      this.#foreign = new Set((session.tools ?? []).map((tool) => tool.name));
      this.#settings.load(session.agent);
      this.#view.history(history, { shown: type !== null });
      // If the agent shows its history, an empty one means that there are no messages.
      if (type === null || history.length > 0) await this.#follow(history, signal);
    } catch (error) {
      if (!isAbort(error)) throw error;
    }
  }

  /** Sends a message. Calls that wait for a decision are abandoned. */
  async send(text) {
    if (this.state === "running") return;
    const waiting = this.state === "waiting" ? [...this.#open.values()] : [];
    this.#decisions.clear();
    this.#view.user(text);
    await this.#turn([{ role: "user", content: text }], () => {
      this.#view.unsent(text);
      if (waiting.length > 0) this.#ask(waiting);
    });
  }

  /** Decides on a call. After the last decision the agent continues. */
  async decide(call, { granted, reason, trust }) {
    if (this.state !== "waiting" || !this.#open.has(call)) return;
    this.#decisions.set(call, { granted, reason });
    if (trust) this.#settings.trust(this.#open.get(call).name);
    const others = this.#decisions.size < this.#open.size;
    this.#view.decided(call, granted, others);
    if (others) return;
    const waiting = [...this.#open.values()];
    const answers = [...this.#decisions].map(([toolCallId, { granted, reason }]) => ({
      role: "tool_permission",
      toolCallId,
      granted,
      ...(reason ? { reason } : {}),
    }));
    this.#decisions.clear();
    await this.#turn(answers, () => this.#ask(waiting));
  }

  /** Asks the server to stop the running turn. Its stream then ends by itself. */
  async stop() {
    if (this.state !== "running" || !this.id) return;
    try {
      await this.#aap.cancel(this.id);
    } catch (error) {
      // 404: the turn had already ended.
      if (error.status !== 404) this.#view.failed(error);
    }
  }

  async #turn(messages, takeBack) {
    const signal = this.#leave();
    let accepted = false;
    this.#become("running");
    try {
      if (!this.id) {
        this.id = await this.#aap.create({ name: this.#agent.name, ...this.#settings.all() }, signal);
        this.#settings.wereSent();
        this.#view.named(this.id);
      }
      const agent = this.#settings.changes();
      const body = { stream: this.#agent.stream, messages, ...(agent ? { agent } : {}) };
      for await (const event of this.#aap.turn(this.id, body, this.#how(signal))) {
        if (!accepted) this.#settings.wereSent();
        accepted = true;
        this.#apply(event);
      }
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      this.#become("idle");
      if (!accepted) takeBack();
      this.#view.failed(error);
    }
  }

  /** Replaces the messages of the last turn by a replay of its stream, and follows the stream. */
  async #follow(history, signal) {
    let first = true;
    try {
      for await (const event of this.#aap.lastTurn(this.id, this.#how(signal))) {
        if (event.name === "turn_start") this.#become("running");
        else if (first) {
          first = false;
          if (event.name !== "turn_stop") this.#view.unsay(beginningOf(history, event, this.#foreign));
        }
        this.#apply(event);
      }
    } catch (error) {
      this.#become("idle");
      if (error.code !== "turn_not_found") throw error;
    }
  }

  #apply({ name, data }) {
    if (name === "turn_start") this.#open.clear();
    if (name === "tool_call") this.#open.set(data.toolCallId, data);
    if (name === "tool_result") this.#open.delete(data.toolCallId);
    this.#view.event(name, data);
    if (name !== "turn_stop") return;
    if (data.stopReason === "tool_use") this.#ask([...this.#open.values()]);
    else this.#become("idle");
  }

  #ask(calls) {
    this.#open = new Map(calls.map((call) => [call.toolCallId, call]));
    this.#become("waiting");
    // All calls are answered in one request; if another app has to answer one of them, it has to answer all.
    this.#view.ask(calls, { elsewhere: calls.some((call) => this.#foreign.has(call.name)) });
  }

  #become(state) {
    this.state = state;
    this.#view.state(state);
  }

  #how(signal) {
    return { signal, onTrouble: (pause) => this.#view.trouble(pause) };
  }

  #leave() {
    this.#reading.abort();
    this.#reading = new AbortController();
    this.#view.trouble(null);
    return this.#reading.signal;
  }
}

/**
 * The index in the history at which the messages of the last turn begin, found by its first event. A turn
 * that answers permissions begins with a tool result; any other begins after the message that was sent.
 */
export function beginningOf(history, first, foreign) {
  const user = history.findLastIndex((message) => message.role === "user");
  if (first.name === "tool_result") {
    const call = first.data.toolCallId;
    const at = history.findLastIndex((message) => message.role === "tool" && message.toolCallId === call);
    return at > user ? at : history.length;
  }
  const called = new Map();
  let last = user;
  history.forEach((message, at) => {
    const blocks = message.role === "assistant" && Array.isArray(message.content) ? message.content : [];
    for (const block of blocks) if (block.type === "tool_use") called.set(block.toolCallId, block.name);
    if (message.role === "tool" && foreign.has(called.get(message.toolCallId))) last = at;
  });
  return Math.max(user, last) + 1;
}
