// One step: history in, text and tool calls out.

import { readFileSync } from "node:fs";
import { run } from "./my-agent.mjs";

const text = ({ content }) =>
  typeof content === "string" ? content : content.map((block) => block.text ?? "").join("");

const step = JSON.parse(readFileSync(0, "utf8"));
const messages = step.history.map((message) => ({ role: message.role, text: text(message) }));
for await (const line of run(messages, step.tools)) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
