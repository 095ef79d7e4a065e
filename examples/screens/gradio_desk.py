"""A desk in Gradio: `python examples/screens/gradio_desk.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import gradio as gr
from langchain_core.messages import ToolMessage
from support_agent import build, decided, question

from agent_factory.review import apending

agent = build()


# Asynchronous, so that Stop ends the call of the model: a thread would run to its end.
async def answer(
    text: str, history: list[Any], thread_id: str, event: gr.EventData
) -> AsyncIterator[Any]:
    """The box, the chat and the buttons of a review, after a message or a decision."""
    thread: Any = {"configurable": {"thread_id": thread_id}}
    bubble, no_review = None, gr.Row(visible=False)
    try:
        if isinstance(event.target, gr.Button):
            input: Any = decided(await apending(agent, thread), event.target.value.lower())
        else:
            input = {"messages": [("user", text)]}
            history = [*history, gr.ChatMessage(text, role="user")]
            yield "", history, no_review
        async for message, _ in agent.astream(input, thread, stream_mode="messages"):
            if isinstance(message, ToolMessage):
                result = gr.ChatMessage(message.text, metadata={"title": str(message.name)})
                history, bubble = [*history, result], None
            elif message.text:
                if bubble is None:
                    bubble = gr.ChatMessage("")
                    history = [*history, bubble]
                bubble.content += message.text
            yield gr.skip(), history, no_review
        if review := await apending(agent, thread):
            history = [*history, gr.ChatMessage(question(review))]
        yield gr.skip(), history, gr.Row(visible=bool(review))
    except Exception as error:
        history = [*history, gr.ChatMessage(f"The run has failed: {error}")]
        yield gr.skip(), history, no_review


with gr.Blocks(title="Order desk", fill_height=True) as screen:
    # A function: each person gets a thread. Other values are copied deeply.
    thread_id = gr.State(lambda: str(uuid4()))
    chat = gr.Chatbot(label="Order desk", scale=1)
    with gr.Row(visible=False) as buttons:
        approve, reject = gr.Button("Approve", variant="primary"), gr.Button("Reject")
    box = gr.Textbox(
        placeholder="Ask about an order", show_label=False, submit_btn=True, stop_btn=True
    )
    # One event for all three, so that two runs never change one thread at once.
    starts = [box.submit, approve.click, reject.click]
    run = gr.on(starts, answer, [box, chat, thread_id], [box, chat, buttons], trigger_mode="once")
    box.stop(None, cancels=run)
    # The button that empties the chat begins another thread.
    chat.clear(lambda: (str(uuid4()), gr.Row(visible=False)), outputs=[thread_id, buttons])
    screen.queue(default_concurrency_limit=20)  # by default, one run at a time for all people

if __name__ == "__main__":
    screen.launch()
