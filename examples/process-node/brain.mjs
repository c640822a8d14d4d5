// One step of the brain: reads one line of JSON, writes lines of JSON.

import { readFileSync } from "node:fs";

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const text = ({ content }) =>
  typeof content === "string" ? content : content.map((block) => block.text ?? "").join("");

const step = JSON.parse(readFileSync(0, "utf8"));
const last = step.history.at(-1);
const { name } = step.options;

if (last.role === "tool") {
  // The result of the tool call.
  say({ text: `It is ${text(last).trim()}, ${name}.` });
} else if (text(last).toLowerCase().includes("time")) {
  say({ thinking: "The clock knows." });
  say({ tool: { name: "clock", input: { zone: "UTC" } } });
} else {
  for (const word of `Hello ${name}! You said: ${text(last)}`.split(" ")) {
    say({ text: `${word} ` });
  }
}
say({ usage: { inputTokens: Math.floor(JSON.stringify(step).length / 4), outputTokens: 10 } });
