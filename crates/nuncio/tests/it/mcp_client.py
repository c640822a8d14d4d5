"""The client of MCP's Python SDK in both revisions: lists, calls, asks the agent, and approves or declines a call."""

import asyncio
import json
import sys

from mcp import Client, types


async def run(url: str, mode: str) -> None:
    questions: list[str] = []
    answers = [
        types.ElicitResult(action="accept", content={"approve": True}),
        types.ElicitResult(action="decline"),
    ]

    async def elicit(_context, params):
        questions.append(params.message)
        return answers[len(questions) - 1]

    async with Client(url, mode=mode, elicitation_callback=elicit) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["echo", "danger", "ask"], tools
        assert tools[0].annotations.destructive_hint is True
        echoed = await client.call_tool("echo", {"word": "ü"})
        assert json.loads(echoed.content[0].text) == {"word": "ü"}, echoed

        allowed = await client.call_tool("danger", {"room": 7})
        assert not allowed.is_error and allowed.content[0].text == "done", allowed
        assert '{"room":7}' in questions[0], questions
        declined = await client.call_tool("danger", {"room": 8})
        assert declined.is_error and "declined" in declined.content[0].text, declined
        assert len(questions) == 2

        reports = []

        async def report(progress, _total, message):
            reports.append((progress, message))

        script = json.dumps({"script": [[{"tool": {"id": "c1", "name": "echo", "input": {}}}], [{"text": "hello"}]]})
        asked = await client.call_tool("ask", {"text": script}, progress_callback=report)
        assert asked.structured_content["answer"] == "hello", asked
        again = {"text": json.dumps({"script": [[{"text": "again"}]]})}
        again["conversation"] = asked.structured_content["conversation"]
        continued = await client.call_tool("ask", again)
        assert continued.structured_content == {"answer": "again", "conversation": again["conversation"]}, continued
    print(f"{mode}: passed")


async def main() -> None:
    for mode in ["legacy", "2026-07-28"]:
        await run(sys.argv[1], mode)


asyncio.run(main())
