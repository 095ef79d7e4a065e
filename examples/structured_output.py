"""A response as an object: the first answer does not fit the schema, the second one does.

Run: python examples/structured_output.py [--model local | provider:name]

With a plain schema, the model's profile decides how: the provider's structured output where it is
supported, otherwise a tool whose arguments are the response.
"""

from __future__ import annotations

from typing import Literal

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field

from agent_factory import create_agent


class Ticket(BaseModel):
    """A customer's complaint for one of the desks."""

    subject: str = Field(description="What it is about, in a few words")
    desk: Literal["delivery", "billing", "returns"]


SCRIPT = [
    [{"name": "Ticket", "args": {"subject": "Broken lamp", "desk": "lamps"}}],
    [{"name": "Ticket", "args": {"subject": "Broken lamp", "desk": "returns"}}],
]


def main(model: BaseChatModel) -> Ticket:
    agent = create_agent(model, response_format=Ticket)
    result = agent.invoke(
        {"messages": [{"role": "user", "content": "My lamp arrived broken, please take it back."}]}
    )
    for message in result["messages"]:
        message.pretty_print()
    ticket: Ticket = result["structured_response"]
    print(f"\n{ticket!r}")
    return ticket


if __name__ == "__main__":
    main(chosen_model(SCRIPT))
