// What the person chose for the conversation: which tools are on, which are trusted, the options. The
// controls in the panel about the agent are the only place it is kept.

/** What a session shows for a secret it keeps. */
const REDACTED = "***";

export class Settings {
  #tools;
  #options;
  /** What the server knows. */
  #sent = null;

  /** @param options the agent's options: name, secret, default. */
  constructor(root, options, keptSecret) {
    this.#tools = [...root.querySelectorAll("[data-tool]")].map((row) => ({
      name: row.dataset.tool,
      on: row.querySelector("[data-on]"),
      trust: row.querySelector("[data-trust]"),
    }));
    this.#options = options.map((option) => ({
      ...option,
      keptSecret,
      input: root.querySelector(`[data-option="${CSS.escape(option.name)}"]`),
    }));
    for (const tool of this.#tools) tool.on.addEventListener("change", () => dim(tool));
    this.reset();
  }

  /** Everything on, nothing trusted, every option at its default. */
  reset() {
    for (const tool of this.#tools) set(tool, { on: true, trust: false });
    for (const { input, default: value } of this.#options) {
      input.value = value;
      input.removeAttribute("placeholder");
    }
    this.#sent = null;
  }

  /** As an earlier conversation has them. */
  load({ tools = [], options = {} }) {
    for (const tool of this.#tools) {
      const known = tools.find(({ name }) => name === tool.name);
      set(tool, { on: known !== undefined, trust: known?.trust === true });
    }
    for (const option of this.#options) {
      const value = options[option.name] ?? option.default;
      const kept = option.secret && value === REDACTED;
      option.input.value = kept ? "" : value;
      if (kept) option.input.placeholder = option.keptSecret;
    }
    this.wereSent();
  }

  /** No question before this tool any more. */
  trust(name) {
    const tool = this.#tools.find((tool) => tool.name === name);
    if (tool) set(tool, { on: true, trust: true });
  }

  /** What a new session is made with. */
  all() {
    const set = this.#options.filter(({ input, default: value }) => input.value !== value);
    const options = Object.fromEntries(set.map(({ name, input }) => [name, input.value]));
    return { tools: this.#toolRefs(), ...(set.length > 0 ? { options } : {}) };
  }

  /** What the server does not know yet; nothing when it knows all. */
  changes() {
    const tools = this.#toolRefs();
    const changed = this.#options.filter(({ name, secret, input }) =>
      secret ? input.value !== "" : input.value !== this.#sent?.options[name],
    );
    const sameTools = JSON.stringify(tools) === this.#sent?.tools;
    if (sameTools && changed.length === 0) return null;
    const options = Object.fromEntries(changed.map(({ name, input }) => [name, input.value]));
    return { ...(sameTools ? {} : { tools }), ...(changed.length > 0 ? { options } : {}) };
  }

  /** The server knows what is shown now. A secret leaves the page with that. */
  wereSent() {
    const options = {};
    for (const { name, secret, input, keptSecret } of this.#options) {
      if (secret && input.value !== "") {
        input.value = "";
        input.placeholder = keptSecret;
      }
      options[name] = input.value;
    }
    this.#sent = { tools: JSON.stringify(this.#toolRefs()), options };
  }

  #toolRefs() {
    return this.#tools.filter(({ on }) => on.checked).map(({ name, trust }) => ({ name, trust: trust.checked }));
  }
}

function set(tool, { on, trust }) {
  tool.on.checked = on;
  tool.trust.checked = trust;
  dim(tool);
}

/** Trust means nothing for a tool that is off. */
function dim(tool) {
  tool.trust.disabled = !tool.on.checked;
}
