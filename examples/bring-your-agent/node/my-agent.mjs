// An agent that knows nothing of Nuncio: takes messages, yields pieces of its answer and the tools it wants to call.

export async function* run(messages, tools) {
  const last = messages.at(-1);
  if (last.role === "tool") {
    yield { text: `It is ${last.text.trim()}.` };
  } else if (last.text.toLowerCase().includes("time") && tools.some((tool) => tool.name === "clock")) {
    yield { tool: { name: "clock", input: { zone: "UTC" } } };
  } else {
    for (const word of `You said: ${last.text}`.split(" ")) yield { text: `${word} ` };
  }
}
