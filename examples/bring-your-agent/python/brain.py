"""One step: history in, text and tool calls out."""

import json
import sys

import my_agent


def text(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


sys.stdin.reconfigure(encoding="utf-8")
sys.stdout.reconfigure(encoding="utf-8")
step = json.loads(sys.stdin.readline())
messages = [{"role": message["role"], "text": text(message)} for message in step["history"]]
tools = {tool["name"]: tool for tool in step["tools"]}
for kind, value in my_agent.run(messages, tools):
    print(json.dumps({kind: value}, ensure_ascii=False), flush=True)
