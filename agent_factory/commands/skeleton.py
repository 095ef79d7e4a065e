"""The beginning of a middleware, as text: a class with a doctest, and tests that pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template
from typing import Final

from agent_factory.facts import Phase

FLOWS: Final = ("around_model", "around_tool")
PHASES: Final = tuple(map(str, Phase))
HOOKS: Final = (*PHASES, *FLOWS)
"""What a new middleware can have: hooks, and flows, which serve both kinds of run."""

_NODE = '''
    def $hook(
        self,
        state: AgentState[Any],
        runtime: Runtime[Any],
    ) -> dict[str, Any] | None:
        """$when Returns a state update or None."""
        return None
'''

_FLOW = '''
    def $hook(self, request: $request) -> Flow[Any]:
        """$when `yield request` makes the call."""
        return (yield request)
'''

_WHEN = {
    "before_agent": "Runs once, when a run starts.",
    "before_model": "Runs before each call of the model.",
    "after_model": "Runs after each call of the model.",
    "after_agent": "Runs once, when a run ends.",
    "around_model": "Lies around each call of the model.",
    "around_tool": "Lies around each tool call.",
}

_REQUESTS = {"around_model": "ModelRequest[Any]", "around_tool": "ToolCallRequest"}

_CLASS = '''"""The middleware $name."""

from __future__ import annotations

from typing import Any

from agent_factory import (
$imports
)


class $name(AgentMiddleware):
    """Changes nothing yet: an agent answers with it as it does without.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> stack = [$name()]
    >>> agent = create_agent(ScriptedChatModel(["Hello."]), middleware=stack)
    >>> agent.invoke({"messages": [("user", "Hi")]})["messages"][-1].text
    'Hello.'
    """
$methods'''

_TESTS = '''"""$name: its place in a plan, and a run with it."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_factory import AgentMiddleware, create_agent, plan_agent
from agent_factory.testing import ScriptedChatModel

from $module import (
    $name,
)

QUESTION: Any = {"messages": [("user", "Find tea")]}


def find(query: str) -> str:
    """Find something."""
    return query.upper()


def agent(*stack: AgentMiddleware[Any, Any]) -> Any:
    """An agent that calls its tool once, and then answers."""
    call = {"name": "find", "args": {"query": "tea"}}
    model = ScriptedChatModel([[call], "There is TEA."])
    return create_agent(model, [find], middleware=stack)


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


def test_its_hooks_and_layers_are_in_the_plan() -> None:
    plan = plan_agent([find], middleware=[$name()])
    assert [str(hook.phase) for hook in plan.hooks] == [$hooks]
    assert [layer.method for layer in plan.layers] == [$layers]


def test_a_run_gives_what_it_gives_without_it() -> None:
    result = agent($name()).invoke(QUESTION)
    assert texts(result) == ["Find tea", "", "TEA", "There is TEA."]
    assert texts(result) == texts(agent().invoke(QUESTION))


def test_an_asynchronous_run_gives_the_same() -> None:
    built = agent($name())
    result = asyncio.run(built.ainvoke(QUESTION))
    assert texts(result) == ["Find tea", "", "TEA", "There is TEA."]
'''


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A new middleware.

    Args:
        name: Its class.
        module: How tests import its module.
        hooks: The hooks and flows it has, in any order.
    """

    name: str
    module: str
    hooks: Sequence[str]

    @property
    def code(self) -> str:
        """The module.

        >>> "def before_model(" in Skeleton("Guard", "guard", ["before_model"]).code
        True
        """
        methods = "".join(map(_method, self._in_order(HOOKS)))
        imports = "\n".join(f"    {name}," for name in sorted(self._imports()))
        return Template(_CLASS).substitute(name=self.name, imports=imports, methods=methods)

    @property
    def tests(self) -> str:
        """The module of its tests."""
        return Template(_TESTS).substitute(
            name=self.name,
            module=self.module,
            hooks=_listed(self._in_order(PHASES)),
            layers=_listed(self._in_order(FLOWS)),
        )

    def _in_order(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.hooks]

    def _imports(self) -> set[str]:
        nodes = {"AgentState", "Runtime"} if self._in_order(PHASES) else set()
        flows = {"Flow"} if self._in_order(FLOWS) else set()
        requests = {_REQUESTS[flow].partition("[")[0] for flow in self._in_order(FLOWS)}
        return {"AgentMiddleware", *nodes, *flows, *requests}


def _listed(names: Sequence[str]) -> str:
    """A list's inside, a line each: so it may be of any length."""
    lines = "".join(f'\n        "{name}",' for name in names)
    return f"{lines}\n    " if names else ""


def _method(hook: str) -> str:
    text = _FLOW if hook in FLOWS else _NODE
    return Template(text).substitute(hook=hook, when=_WHEN[hook], request=_REQUESTS.get(hook, ""))
