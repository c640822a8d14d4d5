// A client of the Agent Application Protocol v3 with the extensions of this server: streams that can be
// resumed, cancelling, and requests that may be repeated.

import { eventStream } from "./event-stream.js";

/** An error response of the server. */
export class AapError extends Error {
  constructor(status, body, retryAfter) {
    super(body?.error ?? `HTTP ${status}`);
    this.status = status;
    this.code = body?.code ?? null;
    const passes = [408, 429, 502, 503, 504].includes(status);
    this.permanent = !passes;
    if (retryAfter) this.retryAfter = Number(retryAfter) * 1000;
  }
}

export class Aap {
  #base;
  #key;

  /** @param key `() => string | null`, called before every request. */
  constructor(base, key) {
    this.#base = base;
    this.#key = key;
  }

  sessions(after) {
    return this.#json(after ? `/sessions?after=${encodeURIComponent(after)}` : "/sessions");
  }

  session(id) {
    return this.#json(`/sessions/${encodeURIComponent(id)}`);
  }

  async history(id, type) {
    const answer = await this.#json(`/sessions/${encodeURIComponent(id)}/history?type=${type}`);
    return answer.history[type];
  }

  async create(agent, signal) {
    const answer = await this.#json("/sessions", { method: "POST", body: { agent }, signal });
    return answer.sessionId;
  }

  async remove(id) {
    await this.#fetch(`/sessions/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  cancel(id) {
    return this.#json(`/sessions/${encodeURIComponent(id)}/cancel`, { method: "POST" });
  }

  /** The events of a new turn. Sending it again after a lost connection does not run it twice. */
  async *turn(id, body, how) {
    const path = `/sessions/${encodeURIComponent(id)}/turns`;
    const headers = { "idempotency-key": crypto.randomUUID?.() ?? randomName() };
    if (body.stream === "none") {
      const answer = await this.#json(path, { method: "POST", body, headers, signal: how.signal });
      yield* eventsOf(answer);
      return;
    }
    const begin = (signal) => this.#fetch(path, { method: "POST", body, headers, signal });
    const connect = (lastId, signal) => (lastId ? this.#resume(id, lastId, signal) : begin(signal));
    yield* read(connect, how);
  }

  /** The events of the last turn from its beginning, whether it is running or finished. */
  async *lastTurn(id, how) {
    yield* read((lastId, signal) => this.#resume(id, lastId, signal), how);
  }

  #resume(id, lastId, signal) {
    const headers = lastId ? { "last-event-id": lastId } : {};
    return this.#fetch(`/sessions/${encodeURIComponent(id)}/stream`, { headers, signal });
  }

  async #json(path, options) {
    const response = await this.#fetch(path, options);
    return response.json();
  }

  async #fetch(path, { method = "GET", body, headers = {}, signal } = {}) {
    const sent = new Headers(headers);
    const key = this.#key();
    if (key) sent.set("authorization", `Bearer ${key}`);
    if (body !== undefined) sent.set("content-type", "application/json");
    const response = await fetch(this.#base + path, {
      method,
      headers: sent,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      signal,
    });
    if (response.ok) return response;
    const said = await response.json().catch(() => null);
    throw new AapError(response.status, said, response.headers.get("retry-after"));
  }
}

async function* read(connect, how) {
  const isLast = (event) => event.name === "turn_stop";
  for await (const event of eventStream(connect, { ...how, isLast })) {
    yield { name: event.name, data: JSON.parse(event.data) };
  }
}

/** Converts a turn that was not streamed to the events of a stream. */
function* eventsOf({ messages, ...stop }) {
  yield { name: "turn_start", data: {} };
  for (const message of messages) {
    if (message.role === "tool") {
      yield { name: "tool_result", data: message };
      continue;
    }
    for (const block of blocksOf(message.content)) {
      yield { name: block.type === "tool_use" ? "tool_call" : block.type, data: block };
    }
  }
  yield { name: "turn_stop", data: stop };
}

/** Message content as a list of blocks; a string becomes one text block. */
export function blocksOf(content) {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

/** A random id. `randomUUID` exists only in secure contexts. */
function randomName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
