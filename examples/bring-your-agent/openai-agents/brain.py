"""One step: history in, the agent's text and tool calls out."""

import asyncio
import json
import sys

import my_agent
from agents import FunctionTool, Runner, set_default_openai_api, set_tracing_disabled
from openai.types.responses import ResponseTextDeltaEvent


def send(**line):
    print(json.dumps(line, ensure_ascii=False), flush=True)


def text(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def lift(message):
    """The items of the SDK for one message of the history."""
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["toolCallId"], "output": text(message)}
        return
    if text(message):
        yield {"role": message["role"], "content": text(message)}
    for block in message["content"] if isinstance(message["content"], list) else []:
        if block["type"] == "tool_use":
            arguments = json.dumps(block["input"])
            yield {"type": "function_call", "call_id": block["toolCallId"], "name": block["name"], "arguments": arguments}


def offered(tool):
    """A tool of Nuncio's; calling it asks the server to run it after this step."""

    async def call(_, arguments):
        send(tool={"name": tool["name"], "input": json.loads(arguments or "{}")})
        return ""

    return FunctionTool(tool["name"], tool["description"], tool["parameters"], call, strict_json_schema=False)


async def run(step):
    agent = my_agent.make([offered(tool) for tool in step["tools"]])
    items = [item for message in step["history"] for item in lift(message)]
    async for event in Runner.run_streamed(agent, items).stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            send(text=event.data.delta)


set_tracing_disabled(True)  # otherwise the SDK sends traces to OpenAI
set_default_openai_api("chat_completions")  # what most compatible servers have
sys.stdin.reconfigure(encoding="utf-8")
sys.stdout.reconfigure(encoding="utf-8")
asyncio.run(run(json.loads(sys.stdin.readline())))
