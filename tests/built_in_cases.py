"""Each built-in of both packages at work: its middleware, the steps of the model, the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langgraph.types import Command

import agent_factory.middleware as built_ins
from agent_factory import AgentMiddleware
from agent_factory.testing import ScriptedChatModel
from samples import call_of

BUILT_INS = [
    kind
    for kind in (getattr(built_ins, name) for name in built_ins.__all__)
    if isinstance(kind, type) and issubclass(kind, AgentMiddleware) and kind is not AgentMiddleware
]
"""Each class of the built-in middleware."""

ASK: Any = {"messages": [("user", "Hi")]}
WORDS: Any = {"messages": [("user", f"word {n}") for n in range(5)]}
MAIL: Any = {"messages": [("user", "I am ada@example.org")]}


def says(*steps: Any) -> ScriptedChatModel:
    return ScriptedChatModel(list(steps))


ADDING = [[call_of("add", a=1, b=2)], "3"]
TWICE = [ADDING[0], [call_of("add", 2, a=3, b=4)], "7"]
BREAKING = [[call_of("broken", a=1)], "Sorry."]
EDITED = {"type": "edit", "edited_action": {"name": "add", "args": {"a": 5, "b": 5}}}
QUICK: Any = {"max_retries": 1, "initial_delay": 0, "jitter": False}

Stack = Callable[[Any], list[Any]]
Case = tuple[Stack, Sequence[Any], Sequence[Any]]
"""The middleware, by their package; the steps of the model; the inputs of the thread."""


def reviewed(decision: Any, **options: Any) -> Case:
    def stack(package: Any) -> list[Any]:
        return [package.HumanInTheLoopMiddleware({"add": True}, **options)]

    return stack, ADDING, [ASK, Command(resume=decision)]


def decided(decision: Any) -> Case:
    return reviewed({"decisions": [decision]})


def summarizing(package: Any) -> list[Any]:
    # Here, the thread keeps what a summary replaces, unless it is said otherwise.
    name = getattr(package, "middleware", None) or package.__name__
    options: Any = {"keep_thread": False} if name == "agent_factory.middleware" else {}
    summarizer = says("They counted.")
    return [
        package.SummarizationMiddleware(
            summarizer, trigger=("messages", 3), keep=("messages", 1), **options
        )
    ]


def selecting(package: Any) -> list[Any]:
    chosen = [call_of("ToolSelectionResponse", tools=["add"])]
    return [package.LLMToolSelectorMiddleware(model=says(chosen, chosen), max_tools=1)]


def clearing(package: Any) -> list[Any]:
    edit = package.ClearToolUsesEdit(trigger=1, keep=0)
    return [package.ContextEditingMiddleware(edits=[edit])]


def redacting(package: Any) -> list[Any]:
    return [package.PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True)]


TODOS = [{"content": "Add", "status": "in_progress"}]

CASES: dict[str, Case] = {
    "none": (lambda package: [], ADDING, [ASK]),
    "to-dos": (
        lambda package: [package.TodoListMiddleware()],
        [[call_of("write_todos", todos=TODOS)], "Done."],
        [ASK],
    ),
    "summaries": (summarizing, ["a"], [WORDS]),
    "private data": (redacting, ["See bob@example.org"], [MAIL]),
    "tool limit": (lambda package: [package.ToolCallLimitMiddleware(run_limit=1)], TWICE, [ASK]),
    "tool limit, end": (
        lambda package: [package.ToolCallLimitMiddleware(run_limit=1, exit_behavior="end")],
        TWICE,
        [ASK],
    ),
    "model limit": (lambda package: [package.ModelCallLimitMiddleware(run_limit=1)], TWICE, [ASK]),
    "fallback": (
        lambda package: [package.ModelFallbackMiddleware(says("Second."))],
        [ValueError("no")],
        [ASK],
    ),
    "retry": (
        lambda package: [package.ModelRetryMiddleware(**QUICK)],
        [ValueError("no"), "Yes."],
        [ASK],
    ),
    "retry, given up": (
        lambda package: [package.ModelRetryMiddleware(**QUICK)],
        [ValueError("no"), ValueError("no")],
        [ASK],
    ),
    "tool retry": (lambda package: [package.ToolRetryMiddleware(**QUICK)], BREAKING, [ASK]),
    "tool error": (
        lambda package: [package.ToolErrorMiddleware(on_error=lambda error, _: f"Sadly {error}")],
        BREAKING,
        [ASK],
    ),
    "tool selection": (selecting, ADDING, [ASK]),
    "context editing": (clearing, TWICE, [ASK]),
    "emulator": (lambda package: [package.LLMToolEmulator(model=says("12"))], ADDING, [ASK]),
    "review, approve": decided({"type": "approve"}),
    "review, reject": decided({"type": "reject", "message": "No."}),
    "review, edit": decided(EDITED),
    "review, respond": decided({"type": "respond", "message": "Seven."}),
    "review, per call": reviewed({"type": "approve"}, interrupt_mode="per_call"),
}
