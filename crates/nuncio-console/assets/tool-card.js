// The display of one tool call: arguments, result, and the question whether it may run.

import { blocksOf } from "./aap.js";
import { byId, element, freshId } from "./dom.js";
import { page, say, toolNamed } from "./page.js";

export class ToolCard {
  #tool;
  #state = element("span", { class: "call-state" });
  #details;
  #ask = null;

  constructor(call) {
    this.#tool = toolNamed(call.name);
    const title = element("span", { class: "call-title", text: this.#tool.title });
    this.#details = element(
      "details",
      {},
      element("summary", {}, title, this.#state),
      element("p", { class: "caption", text: say("arguments") }),
      argumentList(call.input),
    );
    this.root = element("div", { class: "call" }, this.#details);
    this.#show("done", "");
  }

  /** The text of the question. */
  get question() {
    return say("asks", { agent: page.agent.title, tool: this.#tool.title });
  }

  run() {
    this.#show("running", this.#tool.operator ? say("call_operator") : say("call_running"));
  }

  /** Asks whether it may run, with the arguments in view. */
  ask(decide) {
    this.#show("asks", say("call_asks"));
    this.#details.open = true;
    this.#replaceAsk(question(this.question, this.#tool, decide));
  }

  /** Shows that another app has to answer. */
  waitElsewhere() {
    this.#show("asks", say("call_elsewhere"));
    this.#replaceAsk(element("p", { class: "ask quiet", text: say("asks_unknown") }));
  }

  decided(granted, others) {
    // The focused button is about to be removed.
    const hadFocus = this.#ask?.contains(document.activeElement);
    const waits = granted ? say("allowed_others_wait") : say("denied_others_wait");
    this.#show("decided", say("call_decided"));
    this.#replaceAsk(others ? element("p", { class: "ask quiet", role: "status", text: waits }) : null);
    if (!others) this.#details.open = false;
    if (hadFocus) (document.querySelector(".ask button") ?? byId("message")).focus();
  }

  finish(content) {
    const blocks = blocksOf(content);
    const text = blocks.map((block) => block.text ?? "").join("");
    this.#replaceAsk(null);
    this.#details.open = false;
    this.#details.querySelector(".result")?.remove();
    const empty = text.trim() === "" && blocks.every((block) => block.type !== "image");
    const shown = empty ? [element("p", { class: "quiet", text: say("no_content") })] : null;
    const parts = shown ?? blocks.map((block) =>
      block.type === "image" ? picture(block.url) : element("pre", { class: "raw", text: pretty(block.text ?? ""), tabindex: "0" }),
    );
    const caption = element("p", { class: "caption", text: say("result") });
    this.#details.append(element("div", { class: "result" }, caption, ...parts));
    if (text.startsWith("Tool call denied")) this.#show("denied", say("call_denied"));
    else if (text.startsWith("Tool call not run")) this.#show("left", say("call_not_run"));
    else if (/^Tool (execution failed|not found)/.test(text)) this.#show("failed", say("call_failed"));
    else this.#show("done", say("call_done"));
  }

  /** Shows that the conversation continued without a decision. */
  leave() {
    if (!["running", "asks", "decided"].includes(this.root.dataset.state)) return;
    this.#replaceAsk(null);
    this.#details.open = false;
    this.#show("left", say("call_not_run"));
  }

  #show(state, words) {
    this.root.dataset.state = state;
    this.#state.textContent = words;
  }

  #replaceAsk(next) {
    this.#ask?.remove();
    this.#ask = next;
    if (next) this.root.append(next);
  }
}

/** The question with its buttons. A denial may have a reason; Escape goes one step back. */
function question(words, tool, decide) {
  const [heading, reasonId] = [freshId("question"), freshId("reason")];
  const trust = element("input", { type: "checkbox", role: "switch" });
  const reason = element("input", { id: reasonId, type: "text", maxlength: "500", autocomplete: "off" });
  const allow = element("button", { type: "button", class: "primary", text: say("allow") });
  const deny = element("button", { type: "button", class: "secondary", text: say("deny") });
  const confirm = element("button", { type: "submit", class: "secondary", text: say("deny_confirm") });
  const back = element("button", { type: "button", class: "plain", text: say("back") });
  const choice = element("div", { class: "buttons" }, allow, deny);
  const why = element(
    "form",
    { class: "why", novalidate: true, hidden: true },
    element("label", { for: reasonId, text: say("deny_reason") }),
    reason,
    element("div", { class: "buttons" }, confirm, back),
  );
  const explain = (yes) => {
    why.hidden = !yes;
    choice.hidden = yes;
    (yes ? reason : deny).focus();
    (yes ? why : choice).scrollIntoView({ block: "nearest" });
  };
  allow.addEventListener("click", () => decide({ granted: true, trust: trust.checked }));
  deny.addEventListener("click", () => explain(true));
  back.addEventListener("click", () => explain(false));
  why.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    explain(false);
  });
  why.addEventListener("submit", (event) => {
    event.preventDefault();
    decide({ granted: false, reason: reason.value.trim() });
  });
  const labels = tool.scope
    ? element(
        "p",
        { class: "labels" },
        element("span", { class: "label", text: tool.scope }),
        element("span", { class: `label level-${tool.level}`, text: tool.sensitivity }),
      )
    : null;
  return element(
    "div",
    { class: "ask", role: "group", "aria-labelledby": heading },
    element("p", { class: "question", id: heading, text: words }),
    labels,
    element("label", { class: "switch" }, trust, element("span", { text: say("trust") })),
    choice,
    why,
  );
}

function argumentList(input) {
  const entries = Object.entries(input ?? {});
  if (entries.length === 0) return element("p", { class: "quiet", text: say("no_arguments") });
  const rows = entries.map(([name, value]) =>
    element("div", {}, element("dt", { text: name }), element("dd", { text: plain(value) })),
  );
  return element("dl", { class: "arguments" }, ...rows);
}

const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** Indents JSON; other text stays as it is. */
function pretty(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Shows an image that is in the message; for an image of another server only the URL is shown. */
export function picture(url) {
  const own = /^data:image\/(png|jpeg|gif|webp);base64,/.test(url);
  const words = say("picture", { url: own ? "" : url });
  return own ? element("img", { src: url, alt: words }) : element("p", { class: "quiet", text: words });
}
