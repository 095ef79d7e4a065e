"""A middleware under trial: made anew for each try, in the colours it has, on many states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.config import get_config

from agent_factory.hooks.introspection import Bound, hooks_of, layers_of
from agent_factory.testing import strategies
from agent_factory.testing.fixtures import Bench, Middleware, finish
from agent_factory.testing.hooks import arun_hook, hook_node, run_hook
from agent_factory.testing.layers import DONE, LayerRun, arun_layer, run_layer
from agent_factory.testing.plugin import needs
from agent_factory.topology.model import Call, Hook, Layer, Phase


class LawViolation(AssertionError):
    """A middleware does not keep a law; the message says which, where, and on what state."""


@dataclass(frozen=True)
class Subject:
    """What is tried, and on what.

    Args:
        make: Makes the middleware.
        states: Strategy for the states of its hooks; default: by its schema and the phase.
        tools: The tools that are called in these states.
        handler: What the call inside its layers gives.
        options: Further arguments of `run_hook` and `run_layer`: context, store, config, resume.
        max_examples: How many states each hook and layer is tried on.
    """

    make: Callable[[], Middleware]
    states: Any = None
    tools: Sequence[str] = ("search", "add")
    handler: Any = DONE
    options: Mapping[str, Any] = field(default_factory=dict)
    max_examples: int = 20

    @property
    def hooks(self) -> list[Bound[Hook]]:
        """Its hooks."""
        return hooks_of(self.make())

    @property
    def layers(self) -> list[Bound[Layer]]:
        """Its layers."""
        return layers_of(self.make())

    def states_at(self, phase: Phase) -> Any:
        """States as its hook of a phase meets them."""
        if self.states is not None:
            return self.states
        schema = self.make().state_schema
        return strategies.states(schema, phase, messages=self._messages(phase))

    def requests_to(self, call: Call) -> Any:
        """What its layer around a call is asked."""
        if call is Call.MODEL:
            return self._messages(Phase.BEFORE_MODEL)
        st = needs("hypothesis", "strategies")
        args = st.dictionaries(st.sampled_from("abq"), st.text(max_size=9), max_size=2)
        name = st.sampled_from(list(self.tools))
        return st.fixed_dictionaries({"name": name, "args": args, "id": st.just("call_1")})

    def _messages(self, phase: Phase) -> Any:
        return strategies.messages(phase, tools=self.tools)

    def hook(self, bound: Bound[Hook], state: Any, middleware: Middleware | None = None) -> Any:
        """Run a hook once, in a colour it has; the state is a copy."""
        runs = (middleware or self.make(), bound.definition.phase.value, deepcopy(state))
        if bound.func is not None:
            return run_hook(*runs, **self.options)
        return finish(arun_hook(*runs, **self.options))

    def hook_in_place(self, bound: Bound[Hook], state: Any) -> dict[str, Any]:
        """Run a hook on a state; the state as it was given, and is afterwards."""
        node, given = hook_node(self.make(), bound.definition.phase.value, deepcopy(state))
        before = deepcopy(given)
        bench = Bench(**self.options)
        if bound.func is not None:
            bench.run(lambda: node.invoke(given, get_config()))
        else:
            finish(bench.arun(lambda: node.ainvoke(given, get_config())))
        return {"before": before, "after": given}

    def layer(
        self, bound: Bound[Layer], request: Any, **changes: Any
    ) -> Iterator[Callable[[], LayerRun]]:
        """What runs a layer once, for each colour it has."""
        runs = (self.make(), deepcopy(request))
        options = {"handler": self.handler, "call": bound.definition.call.value, **self.options}
        options |= changes
        if bound.func is not None:
            yield lambda: run_layer(*runs, **options)
        if bound.afunc is not None:
            yield lambda: finish(arun_layer(*runs, **options))

    def for_all(self, place: str, examples: Any, check: Callable[[Any], None]) -> None:
        """Try many examples, and show the smallest on which a check fails.

        Raises:
            LawViolation: It fails on one.
        """
        hypothesis = needs("hypothesis")

        def law(example: Any) -> None:
            try:
                check(example)
            except AssertionError as broken:
                raise LawViolation(f"{place}: {broken}\n  tried on {_shown(example)}") from None

        settings = hypothesis.settings(
            max_examples=self.max_examples,
            deadline=None,
            database=None,
            derandomize=True,  # a law that holds today holds in tomorrow's run of the same code
            report_multiple_bugs=False,
            phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        settings(hypothesis.given(examples)(law))()


def _shown(example: Any) -> str:
    messages = example.get("messages") if isinstance(example, dict) else example
    if not isinstance(messages, list):
        return repr(example)
    said = [f"{m.type} {m.content!r}{_calls(m)}" for m in messages]
    more = {k: v for k, v in example.items() if k != "messages"} if example is not messages else {}
    return f"messages [{', '.join(said)}]{f' and {more}' if more else ''}"


def _calls(message: Any) -> str:
    calls = getattr(message, "tool_calls", None)
    return f" calling {', '.join(call['name'] for call in calls)}" if calls else ""


def conversation_of(call: Mapping[str, Any]) -> list[Any]:
    """The history in which a tool is called."""
    return [HumanMessage("Go on."), AIMessage("", tool_calls=[dict(call)])]
