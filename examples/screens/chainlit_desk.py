"""A desk in Chainlit: `chainlit run examples/screens/chainlit_desk.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import chainlit as cl
from langchain_core.messages import ToolMessage
from support_agent import build, decided, question

from agent_factory.review import apending

agent = build()


@cl.on_message
async def run(message: cl.Message) -> None:
    """Answer a message; the session of the browser is the thread."""
    thread = {"configurable": {"thread_id": cl.user_session.get("id")}}
    input: Any = {"messages": [("user", message.content)]}
    try:
        while input is not None:
            await show(agent.astream(input, thread, stream_mode="messages"))
            input = await decision(thread)
    except Exception as error:
        await cl.ErrorMessage(f"The run has failed: {error}").send()


async def show(parts: AsyncIterator[Any]) -> None:
    """Show an answer token by token, and the results of tools as steps."""
    answer = cl.Message("")
    async for message, _ in parts:
        if isinstance(message, ToolMessage):
            async with cl.Step(name=str(message.name), type="tool") as step:
                step.output = message.text
        elif message.text:
            await answer.stream_token(message.text)
    if answer.content:
        await answer.update()


async def decision(thread: Any) -> Any:
    """The decision of a person, or None if nothing waits or nobody decides within an hour."""
    review = await apending(agent, thread)
    if not review:
        return None
    actions = [
        cl.Action(name=verdict, payload={}, label=verdict.capitalize())
        for verdict in ("approve", "reject")
    ]
    ask = cl.AskActionMessage(question(review), actions, timeout=3600)
    pressed = await ask.send()
    return decided(review, pressed["name"]) if pressed else None
