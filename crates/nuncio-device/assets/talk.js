// The sealed conversation, live: new messages appear, streamed answers grow, and typed text is kept.

import { announce, announcePiece, announceRest } from "./announce.js";
import { byId, element } from "./dom.js";
import { localTimes } from "./forms.js";
import { base, say, send } from "./words.js";

const list = byId("talk");
const { agent, name, live } = list.dataset;
const path = `${base}/talk/${encodeURIComponent(agent)}`;
const asked = `lang=${document.documentElement.lang}`;

/** The message element with that key, if it is shown. */
const shown = (key) => [...list.children].find((line) => line.dataset.key === key);

/** A message element from the page's template, without its empty parts. */
function lineNode(fill) {
  const node = byId("line").content.firstElementChild.cloneNode(true);
  fill((part) => node.querySelector(`[data-part="${part}"]`), node);
  return node;
}

/** A message element from the device's data; contents are inserted as text. */
function made(line) {
  return lineNode((part, node) => {
    node.dataset.key = line.key;
    node.dataset.state = line.state;
    node.classList.add(line.mine ? "mine" : "its");
    node.classList.toggle("alarm", line.alarm);
    part("who").textContent = line.who;
    part("at").dateTime = line.at;
    part("at").textContent = line.at;
    part("writing").remove();
    part("words").append(
      ...line.parts.map(({ text, href }) =>
        href ? element("a", { text, href, target: "_blank", rel: "noopener noreferrer nofollow" }) : text,
      ),
    );
    for (const [place, words] of [["before", line.before], ["note", line.note], ["how-far", line.how_far]]) {
      if (words) part(place).textContent = words;
      else part(place).remove();
    }
    if (line.state === "failed") {
      part("again").addEventListener("click", () => retry("again", line.key));
      part("drop").addEventListener("click", () => retry("drop", line.key));
    } else part("retry").remove();
    localTimes(node);
  });
}

async function retry(what, key) {
  try {
    await send(`${path}/${what}?${asked}`, { client_id: key });
  } catch {
    announce(say("talk_lost"));
  }
  byId("saying").focus();
  await look();
}

/** Whether the end of the conversation is in view and should stay there. */
const atEnd = () => innerHeight + scrollY > document.documentElement.scrollHeight - 80;
const toEnd = () => scrollTo(0, document.documentElement.scrollHeight);

/** Streamed answers in progress, by stream id. */
const growing = new Map();

class Answer {
  constructor(stream) {
    this.pieces = 0;
    this.its = lastOfIts();
    const before = [...list.children].find((line) => line.dataset.stream === stream);
    this.node = before ?? lineNode((part, node) => {
      node.classList.add("its", "growing");
      node.dataset.stream = stream;
      part("who").textContent = name;
      for (const other of ["before", "at", "note", "how-far", "retry"]) part(other).remove();
    });
    this.words = this.node.querySelector(".words");
    list.append(this.node);
  }

  /** The text received before this page subscribed. */
  whole(text, pieces) {
    if (pieces <= this.pieces) return;
    announcePiece(text.slice(this.words.textContent.length));
    this.words.textContent = text;
    this.pieces = pieces;
  }

  add(piece, text) {
    if (piece < this.pieces) return;
    this.pieces = piece + 1;
    this.words.append(text);
    announcePiece(text);
  }
}

/** The agent's last stored message. */
const lastOfIts = () => [...list.querySelectorAll(".its[data-key]")].at(-1)?.dataset.key;

function isOver(stream) {
  growing.get(stream)?.node.remove();
  growing.delete(stream);
}

/** Shows the messages as the device has them now. */
function show({ lines, growing: now }) {
  const stay = atEnd();
  const keys = new Set(lines.map((line) => line.key));
  let before = null;
  for (const line of lines) {
    let node = shown(line.key);
    const isNew = !node;
    if (!node || node.dataset.state !== line.state) {
      const fresh = made(line);
      node?.replaceWith(fresh);
      node = fresh;
    }
    if (before ? node.previousElementSibling !== before : isNew) {
      if (before) before.after(node);
      else list.append(node);
    }
    before = node;
    if (!first && isNew && !line.mine) heard(line);
    if (!first && line.state === "failed" && isNew) announce(line.how_far);
  }
  // An unsent message that the device no longer has was discarded.
  for (const node of [...list.children]) {
    const unsent = node.dataset.state === "sending" || node.dataset.state === "failed";
    if (unsent && !keys.has(node.dataset.key)) node.remove();
  }
  for (const one of now) {
    if (!growing.has(one.stream)) growing.set(one.stream, new Answer(one.stream));
    growing.get(one.stream).whole(one.text, one.pieces);
  }
  // A finished stream is replaced by its complete message.
  for (const [stream, answer] of growing) {
    if (answer.done && lastOfIts() !== answer.its) isOver(stream);
    else list.append(answer.node);
  }
  for (const node of list.querySelectorAll(".growing")) if (!growing.has(node.dataset.stream)) node.remove();
  byId("nothing").hidden = list.childElementCount > 0;
  first = false;
  if (stay) toEnd();
}

/** Announces a new message, unless it was announced while it was streamed. */
function heard(line) {
  const read = [...growing.values()].some((answer) => answer.pieces > 0);
  if (read) announceRest();
  else announce([`${line.who}:`, ...line.parts.map((part) => part.text), line.note ?? ""].join(" "));
}

let first = true;
let looking = null;
let lookAgain = false;

/** Loads the current messages; a call during a load causes one more load. */
function look() {
  lookAgain = true;
  looking ??= (async () => {
    while (lookAgain) {
      lookAgain = false;
      try {
        const answer = await fetch(`${path}/lines?${asked}`);
        if (answer.ok) show(await answer.json());
      } catch {
        // The page already shows that its device is away.
      }
    }
    looking = null;
  })();
  return looking;
}

async function older(event) {
  event.preventDefault();
  const link = event.currentTarget;
  const wanted = new URL(link.href).searchParams.get("before");
  const answer = await fetch(`${path}/lines?before=${encodeURIComponent(wanted)}&${asked}`);
  if (!answer.ok) return;
  const told = await answer.json();
  const height = document.documentElement.scrollHeight;
  const lines = told.lines.filter((line) => !shown(line.key)).map(made);
  list.prepend(...lines);
  scrollBy(0, document.documentElement.scrollHeight - height);
  const next = lines[0]?.querySelector(".by");
  if (told.older) {
    const address = new URL(link.href);
    address.searchParams.set("before", told.older);
    link.href = address;
  } else link.parentElement.remove();
  if (next && !link.isConnected) {
    next.tabIndex = -1;
    next.focus();
  }
}

/** The input field: Enter sends, Shift+Enter starts a new line. */
function field() {
  const form = byId("say");
  const words = byId("saying");
  const wrong = byId("wrong");
  byId("hint").hidden = false;
  let busy = false;
  const tell = (why) => {
    wrong.textContent = why ?? "";
    wrong.hidden = !why;
  };
  words.addEventListener("keydown", (event) => {
    // Enter that confirms an input method's candidate does not send.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    delete form.dataset.sent;
    if (busy) return;
    const said = words.value;
    if (!said.trim()) return tell(form.dataset.empty);
    busy = true;
    try {
      const answer = await send(`${path}?${asked}`, { client_id: form.elements.client_id.value, text: said });
      const told = await answer.json();
      tell(answer.ok ? null : told.why);
      if (answer.ok) {
        form.elements.client_id.value = told.next;
        // Text typed meanwhile is kept.
        words.value = words.value.startsWith(said) ? words.value.slice(said.length) : words.value;
        await look();
        toEnd();
      }
    } catch {
      // The client message id stays the same, so that a second press sends one message.
      tell(say("talk_lost"));
    }
    busy = false;
    words.focus();
  });
}

if (live) {
  field();
  document.addEventListener("news", ({ detail }) => {
    if (detail.kind === "happened" || (detail.kind === "talk" && detail.agent === agent)) look();
  });
  document.addEventListener("talk", ({ detail }) => {
    if (detail.agent !== agent) return;
    const stay = atEnd();
    const { stream, what } = detail;
    if (what === "begun" && !growing.has(stream)) growing.set(stream, new Answer(stream));
    const answer = growing.get(stream);
    if (!answer) return;
    if (what === "piece") answer.add(detail.piece, detail.text);
    if (what === "done") {
      announceRest();
      answer.done = true;
      look();
    }
    if (what === "aborted") {
      announceRest();
      announce(say("talk_stopped"));
      isOver(stream);
    }
    byId("nothing").hidden = true;
    if (stay) toEnd();
  });
  // Typed text is kept, also if the server rendered the message.
  list.addEventListener("submit", (event) => {
    event.preventDefault();
    const drops = event.submitter?.hasAttribute("formaction");
    retry(drops ? "drop" : "again", event.target.elements.client_id.value);
  });
  byId("older")?.addEventListener("click", older);
  look().then(toEnd);
}
