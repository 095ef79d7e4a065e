"""Wording: events of a thread, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agent_factory.providers import text_of
from agent_factory.serve.pages.conversation import in_one_line
from agent_factory.serve.pages.markdown import plain_words
from agent_factory.serve.pages.verdicts import changes
from agent_factory.service import Wait

LONGEST = 160
"""Most characters of a quotation."""


@dataclass(frozen=True, slots=True)
class Line:
    """An event: who did what, to which tool, and how.

    Args:
        who: A person or an agent.
        did: The action, such as "approved".
        tool: The tool, if there is one.
        how: Arguments, a text, or a change.
        kind: "human", "ai", "tool" or "decision", for the style.
    """

    who: str
    did: str
    tool: str = ""
    how: str = ""
    kind: str = "ai"


@dataclass(frozen=True, slots=True)
class Wording:
    """Words for the events of a thread.

    Args:
        agent: The name of the agent.
        author: Who writes to the agent, such as "the user".
    """

    agent: str
    author: str = "the user"

    def lines(self, before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> list[Line]:
        """The events between two states, by their messages."""
        previous = by_id(before)
        messages = by_id(after)
        lines: list[Line] = []
        for key, message in messages.items():
            if key not in previous:
                lines += self.written(message)
            elif message != previous[key]:
                lines += self.changed(previous[key], message)
        if lost := len(previous.keys() - messages.keys()):
            count = "1 message" if lost == 1 else f"{lost:,} messages"
            lines.append(Line("", f"{count} left the conversation"))
        return lines

    def written(self, message: BaseMessage) -> Iterator[Line]:
        """A new message."""
        # Set where a middleware has written the message, such as a summary.
        source = message.additional_kwargs.get("lc_source")
        text = quoted(message.text)
        if isinstance(message, ToolMessage):
            did = "returned"
            if message.status == "error":
                did = "did not run:" if source else "failed:"
            yield Line("", "", message.name or "a tool", f"{did} {text}", kind="tool")
        elif source:
            yield Line(str(source), "wrote:", how=text)
        elif isinstance(message, HumanMessage):
            yield Line(self.author, "wrote:", how=text, kind="human")
        elif isinstance(message, AIMessage):
            if said := text_of(message).strip():
                did = "wrote:" if message.tool_calls else "answered:"
                yield Line(self.agent, did, how=quoted(plain_words(said)))
            for call in message.tool_calls:
                yield Line(self.agent, "called", call["name"], in_one_line(call["args"]))
        else:
            yield Line("", f"{message.type} message:", how=text)

    def changed(self, before: BaseMessage, after: BaseMessage) -> Iterator[Line]:
        """A message with another content under its id."""
        if isinstance(before, AIMessage) and isinstance(after, AIMessage):
            # A review changes arguments in the message, whose id stays.
            calls = {call["id"]: call for call in before.tool_calls}
            for call in after.tool_calls:
                earlier = calls.get(call["id"])
                if earlier is not None and (change := changes(earlier["args"], call["args"])):
                    yield Line("", "", call["name"], change, kind="tool")
        if before.text != after.text:
            yield Line("", "a message became", how=quoted(after.text))

    def decision(self, wait: Wait) -> Line:
        """The decision about a wait, or its absence."""
        kind = (wait.decision or {}).get("type")
        message = (wait.decision or {}).get("message")
        if kind is None:
            args = in_one_line(wait.args)
            return Line("", "waits for a decision about", wait.tool, args, kind="decision")
        # The inbox calls itself so, where nobody has decided in time.
        who = "the deadline" if wait.decided_by == "deadline" else str(wait.decided_by)
        did = {
            "approve": "approved",
            "edit": "changed and approved",
            "reject": "rejected",
            "respond": "answered" if wait.kind == "question" else "answered in place of",
            "cancel": "withdrew the question about",
        }.get(kind, kind)
        how = "" if message is None else quoted(str(message))
        if (action := (wait.decision or {}).get("edited_action")) is not None:
            how = changes(wait.args, action["args"]) or "nothing"
            if action["name"] != wait.tool:
                how = f"{action['name']} runs in place of it, {how}"
        return Line(who, did, wait.tool, how, kind="decision")


def by_id(messages: Iterable[BaseMessage]) -> dict[str, BaseMessage]:
    """Messages by their ids; by their places, if they have none."""
    return {message.id or f"message-{n}": message for n, message in enumerate(messages)}


def quoted(text: str) -> str:
    """A text in one line and in quotes, a long one cut."""
    line = " ".join(text.split())
    return f"“{line if len(line) <= LONGEST else f'{line[: LONGEST - 1]}…'}”"
