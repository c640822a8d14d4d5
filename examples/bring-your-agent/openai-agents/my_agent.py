"""An agent of the OpenAI Agents SDK."""

from agents import Agent


def make(tools):
    return Agent(
        name="My agent",
        instructions="You are a helpful assistant. Use the clock for the time.",
        model="gpt-5-mini",
        tools=tools,
        # Nuncio runs the tools and starts the next step with their results.
        tool_use_behavior="stop_on_first_tool",
    )
