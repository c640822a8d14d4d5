"""One step of the brain: reads one line of JSON, writes lines of JSON."""

import json
import sys


def say(**line):
    print(json.dumps(line, ensure_ascii=False), flush=True)


def text(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


sys.stdin.reconfigure(encoding="utf-8")
sys.stdout.reconfigure(encoding="utf-8")
step = json.loads(sys.stdin.readline())
last = step["history"][-1]
name = step["options"]["name"]

if last["role"] == "tool":  # the result of the tool call
    say(text=f"It is {text(last).strip()}, {name}.")
elif "time" in text(last).lower():
    say(thinking="The clock knows.")
    say(tool={"name": "clock", "input": {"zone": "UTC"}})
else:
    for word in f"Hello {name}! You said: {text(last)}".split(" "):
        say(text=word + " ")
say(usage={"inputTokens": len(str(step)) // 4, "outputTokens": 10})
