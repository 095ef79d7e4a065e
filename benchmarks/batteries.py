"""A stack of all built-ins that have nothing to do, and one of bare hooks in the same places."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, Flow, create_agent, hook_config, plan_agent, touches
from agent_factory.hooks.introspection import is_empty
from agent_factory.middleware import (
    AnswerGuardMiddleware,
    AutoModeMiddleware,
    BudgetMiddleware,
    ContextEditingMiddleware,
    FilesystemFileSearchMiddleware,
    FlowGuardMiddleware,
    HumanInTheLoopMiddleware,
    Limits,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelChoice,
    ModelFallbackMiddleware,
    ModelRefusalMiddleware,
    ModelRetryMiddleware,
    ModelRouterMiddleware,
    PIIMiddleware,
    ProgressGuardMiddleware,
    PromptCachingMiddleware,
    ProviderToolSearchMiddleware,
    ShellToolMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolResultOffloadMiddleware,
    ToolRetryMiddleware,
)
from agent_factory.topology.model import Hook
from benchmarks.harness import Contender
from benchmarks.runs import until_done
from benchmarks.savers import Mode
from benchmarks.scripted import FreeModel, add

Member = AgentMiddleware[Any, Any]


class ReportingModel(FreeModel):
    """A free model that reports usage, as real ones do.

    Without it a budget would count tokens itself. Results are counted, not messages: a layer may
    add a system message, and all contenders should take the same turns.
    """

    def _answer(self, messages: list[BaseMessage]) -> ChatResult:
        turn = sum(isinstance(message, ToolMessage) for message in messages)
        calls: list[Any] = []
        if turn < self.turns:
            calls = [{"name": "add", "args": {"a": turn, "b": 1}, "id": f"call_{turn}"}]
        read = 100 * len(messages)
        usage = UsageMetadata(input_tokens=read, output_tokens=20, total_tokens=read + 20)
        # A real model does not end with an empty answer, which a guard would ask for again.
        answer = AIMessage("" if calls else "Done.", tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=answer)])


LOADED_ADD = StructuredTool.from_function(add, extras={"defer_loading": False})
"""The tool with a mark that it is loaded always, so that no search for tools is added."""


def built_ins(model: ReportingModel, folder: str) -> list[Member]:
    """Every built-in, in the recommended order, set up so that it finds nothing to do.

    What they do at every call is in the figure: limits and budgets count, instructions for the
    list of tasks go along, and the size of the conversation is looked at.
    """
    return [
        ModelCallLimitMiddleware(run_limit=10_000),
        PIIMiddleware("email"),
        LLMToolSelectorMiddleware(model=model, max_tools=100),
        ToolResultOffloadMiddleware(),
        ContextEditingMiddleware(),
        SummarizationMiddleware(model, trigger=("messages", 10_000)),
        TodoListMiddleware(),
        ProgressGuardMiddleware(),
        HumanInTheLoopMiddleware({"write_todos": True}),
        ToolCallLimitMiddleware(run_limit=10_000),
        AutoModeMiddleware(tools=["write_todos"], classifier=model),
        ToolErrorMiddleware(),
        ToolRetryMiddleware(),
        LLMToolEmulator(tools=[], model=model),
        ModelRouterMiddleware(
            choices={"same": ModelChoice(model, "always")}, classifier=lambda request: "same"
        ),
        AnswerGuardMiddleware(),
        ModelRefusalMiddleware(model),
        ModelFallbackMiddleware(model),
        ProviderToolSearchMiddleware(searchable_tools=["add"], provider="anthropic"),
        PromptCachingMiddleware(),
        ModelRetryMiddleware(),
        ShellToolMiddleware(),
        FilesystemFileSearchMiddleware(root_path=folder),
        BudgetMiddleware(run=Limits(turns=10_000)),
    ]


def bare_hooks(stack: list[Member]) -> list[Member]:
    """Middleware with the state, the tools and the hook nodes of a stack; the hooks do nothing.

    A node that may jump has an edge that looks whether it did, so the bare one declares the same.
    """
    hooks = plan_agent(tools=[LOADED_ADD], middleware=stack, ignore=["AF210"]).hooks
    bare = [
        _bare(member, [hook for hook in hooks if hook.owner == member.name]) for member in stack
    ]
    return [member for member in bare if not is_empty(member)]


def _bare(member: Member, hooks: list[Hook]) -> Member:
    methods: dict[str, Any] = {}
    for hook in hooks:
        may_jump: Any = hook_config(can_jump_to=cast("Any", sorted(hook.can_jump_to)))
        idle, aidle = _idle_hooks()
        methods |= {str(hook.phase): may_jump(idle), f"a{hook.phase}": may_jump(aidle)}
    shared = {"state_schema": member.state_schema, "tools": member.tools}
    bare: Member = type("Bare", (AgentMiddleware,), {**shared, **methods})(name=member.name)
    return bare


def _idle_hooks() -> tuple[Any, Any]:
    """New functions each time: what they declare is written on them."""

    def hook(self: Any, state: Any, runtime: Any) -> None:
        return None

    async def ahook(self: Any, state: Any, runtime: Any) -> None:
        return None

    return hook, ahook


@contextmanager
def opened(mode: Mode, turns: int, *, fused: bool = True) -> Iterator[dict[str, Contender]]:
    """An agent with all built-ins, and one with their hook nodes alone."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        model = ReportingModel(turns=turns)
        stack = built_ins(model, folder)
        yield {
            "built-ins": _run(model, stack, mode, runner, fused=fused),
            "bare hooks": _run(model, bare_hooks(stack), mode, runner, fused=fused),
        }


class IdleToolLayer(AgentMiddleware[Any, Any]):
    """A layer around tools that does nothing."""

    def around_tool(self, request: Any) -> Flow[Any]:
        """Pass the request on."""
        return (yield request)


GUARDS: dict[str, type[Member]] = {
    "progress guard": ProgressGuardMiddleware,
    "answer guard": AnswerGuardMiddleware,
    "flow guard": FlowGuardMiddleware,
    "idle tool layer": IdleToolLayer,
}
"""The guards that look at each turn, and what the one around tools is compared with."""


class IdleLayer(AgentMiddleware[Any, Any]):
    """A layer around the model that does nothing."""

    def around_model(self, request: Any) -> Flow[Any]:
        """Pass the request on."""
        return (yield request)


@contextmanager
def touching(mode: Mode, turns: int) -> Iterator[dict[str, Contender]]:
    """An agent whose tool says what it touches, and one whose tool does not; twice."""
    tools = {
        "touches": touches(writes="sum:{a}")(LOADED_ADD),
        "no touches": LOADED_ADD,
        "no touches again": LOADED_ADD,
    }
    with asyncio.Runner() as runner:
        model = ReportingModel(turns=turns)
        yield {name: _run(model, [], mode, runner, tool=tool) for name, tool in tools.items()}


@contextmanager
def guarded(mode: Mode, turns: int) -> Iterator[dict[str, Contender]]:
    """An agent with each of the guards, and with a layer that does nothing; twice."""
    with asyncio.Runner() as runner:
        model = ReportingModel(turns=turns)
        yield {
            **{name: _run(model, [guard()], mode, runner) for name, guard in GUARDS.items()},
            "idle layer": _run(model, [IdleLayer()], mode, runner),
            "idle layer again": _run(model, [IdleLayer()], mode, runner),
        }


def _run(
    model: ReportingModel,
    stack: list[Member],
    mode: Mode,
    runner: asyncio.Runner,
    *,
    fused: bool = True,
    tool: BaseTool = LOADED_ADD,
) -> Contender:
    saver = InMemorySaver()
    agent: Any = create_agent(
        model, [tool], middleware=stack, checkpointer=saver, fused=fused, ignore=["AF210", "AF212"]
    )
    asked = {"messages": [("user", "Count.")]}
    # Hook by hook, a turn takes ten steps.
    config: Any = {"configurable": {"thread_id": "one"}, "recursion_limit": 1000}

    def forget() -> None:
        saver.delete_thread("one")

    if mode is Mode.SYNC:
        return Contender(lambda: agent.invoke(asked, config), tidy=forget)
    return Contender(lambda: until_done(runner, agent.ainvoke(asked, config)), tidy=forget)
