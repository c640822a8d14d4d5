"""An agent that knows nothing of Nuncio: takes messages, yields pieces of its answer and the tools it wants to call."""


def run(messages, tools):
    last = messages[-1]
    if last["role"] == "tool":
        yield "text", f"It is {last['text'].strip()}."
    elif "time" in last["text"].lower() and "clock" in tools:
        yield "tool", {"name": "clock", "input": {"zone": "UTC"}}
    else:
        for word in f"You said: {last['text']}".split(" "):
            yield "text", word + " "
