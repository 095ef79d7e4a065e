"""A model that follows a script and tools that obey it; both record what happens."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_stream_writer

from agent_factory import agent_tool, background, create_agent, tool_labels
from agent_factory.testing import ScriptedChatModel
from crossings.oracle import HELPER, INNER, OUTER, Record, text_of, word

Turn = str | tuple[str, ...]
"""An answer of a kind ("plain", "poison", "mail", "empty", "error"), or calls, such as "fetch",
"fetch poison" or "refund no", which reviewers reject."""

_NUMBER = re.compile(r'"number": (\d+)')
_DIGS = 4
"""Calls that the agent inside makes before it answers."""


class World:
    """The model and the tools of one run of a crossing.

    Args:
        record: Where they record it.
        turns: What the model does; then it gives plain answers.
        late: The names of the tools that work in the background.
    """

    def __init__(self, record: Record, turns: Sequence[Turn], late: Sequence[str]) -> None:
        self._record, self.late = record, late
        self._turns, self._position = turns, 0
        self._kinds: dict[int, str] = {}

    # Models

    def model(self) -> Any:
        """The model of the agent; all of them follow one script."""
        return ScriptedChatModel([self._answer] * 200)

    def helper(self, answer: Callable[[str], str] = lambda _: "In short.") -> Any:
        """A model of a middleware: `answer` gets all that it reads."""

        def step(messages: list[BaseMessage]) -> str:
            self._read(HELPER, messages)
            return answer(messages[-1].text)

        return ScriptedChatModel([step] * 200)

    def judge(self, text: str) -> str:
        """Approve or reject the call in a question to a model."""
        number = int(_NUMBER.findall(text)[0])
        return f'{{"reason": "so", "probability": {0.1 if self.approves(number) else 0.9}}}'

    def emulate(self, text: str) -> str:
        """The result of a call that no tool runs."""
        return self._result("fetch", int(_NUMBER.findall(text)[-1]))

    def _answer(self, messages: list[BaseMessage]) -> Any:
        self._read(OUTER, messages)
        place, self._position = self._position, self._position + 1
        turn = self._turns[place] if place < len(self._turns) else "plain"
        if isinstance(turn, str):
            return self._text(turn, 200 + place)
        return [self._call(name, 10 * place + i) for i, name in enumerate(turn)]

    def _text(self, kind: str, number: int) -> Any:
        if kind == "error":
            self._record.write("broke", OUTER)
            return ConnectionError("the model is out of order")
        text = "" if kind == "empty" else f"This is {word(kind, number)} now."
        self._record.write("said", OUTER, text, number)
        return text

    def _call(self, name: str, number: int) -> dict[str, Any]:
        name, _, self._kinds[number] = name.partition(" ")
        args: dict[str, Any] = {"number": number}
        if name == "refund":
            args["to"] = word("mail", 1000 + number)
            self._record.write("asked", OUTER, args["to"], number)
        if name == "clerk":
            args = {"request": f"Dig {number}."}
        if name == "write_todos":
            args = {"todos": []}
        return {"name": name, "args": args, "id": f"call-{number}"}

    def _read(self, agent: str, messages: Sequence[BaseMessage]) -> None:
        self._record.write("read", agent, text_of(messages), messages=tuple(messages))

    # Tools

    def tools(self, inside: bool = False) -> list[BaseTool]:
        """The tools of the agent; with an agent inside of one of them."""

        @tool
        @tool_labels("untrusted", "private")
        def fetch(number: int) -> str:
            """Fetch a page."""
            self._start("fetch", number)
            get_stream_writer()(number)
            return self._result("fetch", number)

        @tool
        @tool_labels("outside")
        def refund(number: int, to: str) -> str:
            """Pay money back."""
            self._start("refund", number, to)
            return self._result("refund", number)

        @tool
        def fail(number: int) -> str:
            """Fail."""
            self._start("fail", number)
            text = word(self._kind(number), number)
            self._record.write("raised", "fail", text, number, late="fail" in self.late)
            raise ValueError(text)

        @tool
        def dig(number: int) -> str:
            """Dig."""
            self._start("dig", number)
            return f"stone {number}"

        tools: list[BaseTool] = [fetch, refund, fail]
        if inside:
            clerk = create_agent(ScriptedChatModel([self._dig] * 200), [dig], name="clerk")
            tools.append(agent_tool(clerk, description="Digs."))
        return [background(tool) if tool.name in self.late else tool for tool in tools]

    def _dig(self, messages: list[BaseMessage]) -> Any:
        self._read(INNER, messages)
        number = int(messages[0].text.strip("Dig ."))
        digs = sum(message.type == "tool" for message in messages)
        if digs < _DIGS:
            return [{"name": "dig", "args": {"number": number}, "id": f"dig-{number}-{digs}"}]
        return AIMessage(self._result("clerk", number))

    def _start(self, name: str, number: int, text: str = "") -> None:
        self._record.write("started", name, text, number, late=name in self.late)

    def _result(self, name: str, number: int) -> str:
        text = word(self._kind(number), number)
        self._record.write("gave", name, text, number, late=name in self.late)
        return f"It gave {text} back."

    def _kind(self, number: int) -> str:
        kind = self._kinds.get(number, "")
        return kind if kind in ("poison", "mail") else "plain"

    # Decisions

    def approves(self, number: int) -> bool:
        """Decide about a call, and record the decision."""
        approves = self._kinds.get(number) != "no"
        self._record.write("approved" if approves else "rejected", number=number)
        return approves

    def check_call(self, call: Any) -> str | None:
        """The check of a guard for calls."""
        return None if self.approves(call["args"]["number"]) else "it is not wanted."

    def check(self, feature: str) -> Callable[[Any], str | None]:
        """The check of a guard: it objects to poison."""

        def check(subject: Any) -> str | None:
            text = text_of(subject if isinstance(subject, list) else [subject])
            objects = "poison" in text
            self._record.write("checked", feature, text, objects=objects)
            return "it is poison." if objects else None

        return check

    def answer(self, question: Any) -> Any:
        """The answer to an interrupt: decisions about calls, or the result of a client's call."""
        if question.get("type") == "client_tool_call":
            return self.client_result(question["args"])
        if "action_requests" not in question:
            return {"type": self.decision(question["args"])}
        requests = question["action_requests"]
        return {"decisions": [{"type": self.decision(r["args"])} for r in requests]}

    def client_result(self, args: Any) -> str:
        """The result of a call that the client runs."""
        return self._result("page", args["number"])

    def decision(self, args: Any) -> Literal["approve", "reject"]:
        """The decision about a call."""
        return "approve" if self.approves(args.get("number", -1)) else "reject"
