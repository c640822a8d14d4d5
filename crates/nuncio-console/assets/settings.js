// The person's settings for the conversation: enabled tools, trusted tools and options. They are stored only
// in the controls of the panel about the agent.

/** The text that a session returns for a stored secret. */
const REDACTED = "***";

export class Settings {
  #tools;
  #options;
  /** The settings that the server has. */
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

  /** Shows the settings of an earlier conversation. */
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

  /** Trusts a tool, so that its calls need no permission. */
  trust(name) {
    const tool = this.#tools.find((tool) => tool.name === name);
    if (tool) set(tool, { on: true, trust: true });
  }

  /** The settings for a new session. */
  all() {
    const set = this.#options.filter(({ input, default: value }) => input.value !== value);
    const options = Object.fromEntries(set.map(({ name, input }) => [name, input.value]));
    return { tools: this.#toolRefs(), ...(set.length > 0 ? { options } : {}) };
  }

  /** The changed settings that were not sent yet, or nothing. */
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

  /** Marks the shown settings as sent, and removes secrets from the page. */
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

/** A disabled tool cannot be trusted. */
function dim(tool) {
  tool.trust.disabled = !tool.on.checked;
}
