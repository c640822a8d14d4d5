// The data that the server put into the page: the shown agent, and the texts in the reader's language.

export const page = JSON.parse(document.getElementById("page-data").textContent);

/** A text of the catalog with its placeholders replaced. */
export function say(key, values = {}) {
  const text = page.texts[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** The tool of that name, or a placeholder for a tool that the agent does not show. */
export function toolNamed(name) {
  return page.agent.tools.find((tool) => tool.name === name) ?? { name, title: name };
}
