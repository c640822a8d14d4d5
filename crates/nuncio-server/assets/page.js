// What the server told the page: the chosen agent, and the words in the reader's language.

export const page = JSON.parse(document.getElementById("page-data").textContent);

/** A text of the catalog, its blanks filled in. */
export function say(key, values = {}) {
  const text = page.texts[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** The tool of that name, or as much as can be said of one the agent does not show. */
export function toolNamed(name) {
  return page.agent.tools.find((tool) => tool.name === name) ?? { name, title: name };
}
