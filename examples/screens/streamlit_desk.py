"""A desk in Streamlit: `streamlit run examples/screens/streamlit_desk.py`."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import streamlit as st
from langchain_core.messages import BaseMessage, ToolMessage
from support_agent import build, decided, question

from agent_factory.review import pending

# Streamlit runs this script again at each click: the agent is a resource that all runs and people
# share (`st.cache_data` would pickle it), and the address of the page names the thread.
agent = st.cache_resource(build)()
thread: Any = {"configurable": {"thread_id": st.query_params.setdefault("thread", str(uuid4()))}}


def show(message: BaseMessage) -> None:
    """Show a message of the thread."""
    if isinstance(message, ToolMessage):
        st.expander(str(message.name), icon=":material/build:").write(message.text)
    elif message.text:
        st.chat_message("user" if message.type == "human" else "assistant").write(message.text)


async def run(input: Any) -> None:
    """Show an answer token by token, and the results of tools."""
    text, box = "", None
    async for message, _ in agent.astream(input, thread, stream_mode="messages"):
        if isinstance(message, ToolMessage):
            show(message)
            text, box = "", None
        elif message.text:
            box = box or st.chat_message("assistant").empty()
            text += message.text
            box.write(text)


def decide(verdict: str) -> None:
    """Keep a decision for the run of this script that follows the click."""
    st.session_state.input = decided(pending(agent, thread), verdict)


st.title("Order desk")
for message in agent.get_state(thread).values.get("messages", ()):
    show(message)

input = st.session_state.pop("input", None)
if text := st.chat_input("Ask about an order", submit_mode="stop"):
    st.chat_message("user").write(text)
    input = {"messages": [("user", text)]}
if input is not None:
    try:
        # Asynchronous, so that Stop ends the call of the model: a thread would run to its end.
        asyncio.run(run(input))
    except Exception as error:
        st.error(f"The run has failed: {error}")

if review := pending(agent, thread):
    st.warning(question(review))
    for column, verdict in zip(st.columns(2), ("approve", "reject"), strict=True):
        column.button(verdict.capitalize(), on_click=decide, args=[verdict], width="stretch")
