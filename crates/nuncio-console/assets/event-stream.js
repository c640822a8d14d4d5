// Server-sent events over fetch, which unlike EventSource can send a key and be started by a POST.
// A broken stream is resumed after its last event, with growing pauses.

/** The server sends at least a comment every 15 seconds; after three times that the stream counts as broken. */
const SILENCE = 45_000;
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;

/**
 * The events of a stream, up to the one for which `isLast` returns true.
 *
 * @param connect `(lastId, signal) => Promise<Response>`; an error it throws with `permanent` set ends
 *   the stream, one with `retryAfter` (milliseconds) says how long to wait.
 * @param onTrouble called with the pause in milliseconds when the connection is lost, and with null
 *   when it is back.
 */
export async function* eventStream(connect, { signal, isLast, onTrouble = () => {} }) {
  let lastId = null;
  let failures = 0;
  for (;;) {
    let asked = null;
    const connection = new AbortController();
    const stop = () => connection.abort(signal.reason);
    signal.addEventListener("abort", stop);
    try {
      signal.throwIfAborted();
      const response = await connect(lastId, connection.signal);
      for await (const event of read(response.body, connection)) {
        if (failures > 0) onTrouble(null);
        failures = 0;
        if (event.id) lastId = event.id;
        yield event;
        if (isLast(event)) return;
      }
    } catch (error) {
      if (signal.aborted || error.permanent) throw error;
      asked = error.retryAfter ?? null;
    } finally {
      signal.removeEventListener("abort", stop);
      connection.abort();
    }
    const pause = asked ?? Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** failures);
    failures += 1;
    onTrouble(pause);
    await sleep(pause, signal);
  }
}

/** The events in a response body, as they arrive. */
async function* read(body, connection) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const lines = new Lines();
  let event = fresh();
  for (;;) {
    const watch = setTimeout(() => connection.abort(new Error("silence")), SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(watch));
    if (done) return;
    for (const line of lines.push(value)) {
      if (line === "") {
        if (event.data.length > 0) yield { id: event.id, name: event.name, data: event.data.join("\n") };
        event = fresh();
      } else {
        field(event, line);
      }
    }
  }
}

const fresh = () => ({ id: "", name: "message", data: [] });

function field(event, line) {
  const colon = line.indexOf(":");
  if (colon === 0) return; // a comment: the stream is alive
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "data") event.data.push(value);
  else if (name === "event") event.name = value;
  else if (name === "id") event.id = value;
}

/** Splits text that arrives in pieces into lines; each character is read once. */
class Lines {
  #pieces = [];

  *push(text) {
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      this.#pieces.push(text.slice(from, end));
      const line = this.#pieces.join("");
      this.#pieces = [];
      yield line.endsWith("\r") ? line.slice(0, -1) : line;
      from = end + 1;
    }
    this.#pieces.push(text.slice(from));
  }
}

/** Waits; ends early if the reader stops or the network is back. */
function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const over = (settle) => () => {
      clearTimeout(timer);
      removeEventListener("online", wake);
      signal.removeEventListener("abort", leave);
      settle();
    };
    const wake = over(resolve);
    const leave = over(() => reject(signal.reason));
    const timer = setTimeout(wake, milliseconds);
    addEventListener("online", wake);
    signal.addEventListener("abort", leave);
    if (signal.aborted) leave();
  });
}
