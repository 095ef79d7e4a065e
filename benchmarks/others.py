"""Other libraries for agents, as black boxes: a scripted model each, by their documentation.

Pydantic AI: `FunctionModel`, a model that a function controls
(ai.pydantic.dev/api/models/function). OpenAI Agents SDK: the abstract `Model`
(openai.github.io/openai-agents-python/ref/models/interface).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from benchmarks.contenders import Factory

PYDANTIC_AI, OPENAI_AGENTS = "pydantic-ai", "openai-agents"

DONE = "Done."
"""The last answer. An empty one would be asked for again."""

MODULES = {PYDANTIC_AI: "pydantic_ai", OPENAI_AGENTS: "agents"}
"""What to import for each."""


def others() -> list[Factory]:
    """Those of them that are installed."""
    agents = {PYDANTIC_AI: PydanticAI, OPENAI_AGENTS: OpenAIAgents}
    return [Factory(name, agents[name]) for name, module in MODULES.items() if find_spec(module)]


class PydanticAI:
    """An agent of Pydantic AI that behaves as a graph does here.

    Args:
        model: Says how many turns a run takes.
        tools: Plain functions.
        middleware: None of them.
        checkpointer: None.
    """

    def __init__(
        self, model: Any, tools: Sequence[Any], *, middleware: Any = (), checkpointer: Any = None
    ) -> None:
        library: Any = import_module("pydantic_ai")
        scripted: Any = import_module("pydantic_ai.models.function").FunctionModel

        # A coroutine function: a plain one would be called in a thread.
        async def answer(messages: list[Any], info: Any) -> Any:
            turn = len(messages) // 2
            if turn >= model.turns:
                return library.ModelResponse(parts=[library.TextPart(DONE)])
            args = {"a": turn, "b": 0}
            call = library.ToolCallPart("add", args, tool_call_id=f"call_{turn}")
            return library.ModelResponse(parts=[call])

        self._agent: Any = library.Agent(scripted(answer), tools=list(tools))

    def invoke(self, asked: Any, config: Any = None) -> Any:
        """Run until the model calls no tool."""
        return self._agent.run_sync(_question(asked))

    async def ainvoke(self, asked: Any, config: Any = None) -> Any:
        """Run until the model calls no tool."""
        return await self._agent.run(_question(asked))


class OpenAIAgents:
    """An agent of the OpenAI Agents SDK that behaves as a graph does here. It sends no traces.

    Args:
        model: Says how many turns a run takes.
        tools: Plain functions.
        middleware: None of them.
        checkpointer: None.
    """

    def __init__(
        self, model: Any, tools: Sequence[Any], *, middleware: Any = (), checkpointer: Any = None
    ) -> None:
        library: Any = import_module("agents")
        functions = [library.function_tool(function) for function in tools]
        asked = _openai_model(library, model.turns)
        self._agent: Any = library.Agent(name="counter", model=asked, tools=functions)
        self._runner: Any = library.Runner
        self._how: Any = {
            "max_turns": model.turns + 1,
            "run_config": library.RunConfig(tracing_disabled=True),
        }

    def invoke(self, asked: Any, config: Any = None) -> Any:
        """Run until the model calls no tool."""
        return self._runner.run_sync(self._agent, _question(asked), **self._how)

    async def ainvoke(self, asked: Any, config: Any = None) -> Any:
        """Run until the model calls no tool."""
        return await self._runner.run(self._agent, _question(asked), **self._how)


def _openai_model(library: Any, turns: int) -> Any:
    kinds: Any = import_module("openai.types.responses")

    async def get_response(
        self: Any, system_instructions: Any, input: Any, *_: Any, **__: Any
    ) -> Any:
        turn = 0 if isinstance(input, str) else len(input) // 2
        item = _openai_call(kinds, turn) if turn < turns else _openai_end(kinds)
        return library.ModelResponse(output=[item], usage=library.Usage(), response_id=None)

    def stream_response(self: Any, *_: Any, **__: Any) -> Any:
        raise RuntimeError("No run here streams.")

    methods = {"get_response": get_response, "stream_response": stream_response}
    return type("Scripted", (library.Model,), methods)()


def _openai_call(kinds: Any, turn: int) -> Any:
    return kinds.ResponseFunctionToolCall(
        type="function_call",
        name="add",
        arguments=f'{{"a": {turn}, "b": 0}}',
        call_id=f"call_{turn}",
    )


def _openai_end(kinds: Any) -> Any:
    text = kinds.ResponseOutputText(type="output_text", text=DONE, annotations=[])
    return kinds.ResponseOutputMessage(
        id="end", type="message", role="assistant", status="completed", content=[text]
    )


def _question(asked: Any) -> str:
    return str(asked["messages"][0][1])
