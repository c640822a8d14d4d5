"""One step: history in, the graph's text and tool calls out."""

import json
import sys

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from my_graph import graph


def send(**line):
    print(json.dumps(line, ensure_ascii=False), flush=True)


def text(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def lift(message):
    if message["role"] == "tool":
        return ToolMessage(text(message), tool_call_id=message["toolCallId"])
    if message["role"] == "assistant":
        blocks = message["content"] if isinstance(message["content"], list) else []
        calls = [
            {"id": block["toolCallId"], "name": block["name"], "args": block["input"]}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        return AIMessage(text(message), tool_calls=calls)
    return (SystemMessage if message["role"] == "system" else HumanMessage)(text(message))


sys.stdin.reconfigure(encoding="utf-8")
sys.stdout.reconfigure(encoding="utf-8")
step = json.loads(sys.stdin.readline())
state = {"messages": [lift(message) for message in step["history"]]}
# "messages" yields the tokens of chat models while they arrive, and whole messages of other nodes.
for message, _ in graph.stream(state, stream_mode="messages"):
    if isinstance(message, AIMessage) and message.text:
        send(text=message.text)
    for call in getattr(message, "tool_calls", []):
        send(tool={"name": call["name"], "input": call["args"]})
