"""A middleware under test: made for each example, and run on many states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agent_factory.hooks.flows import arun, run
from agent_factory.hooks.introspection import Bound, hooks_of, layers_of
from agent_factory.testing import strategies
from agent_factory.testing.harness import (
    DONE,
    LayerRun,
    Middleware,
    arun_hook,
    arun_layer,
    hook_node,
    in_langgraph,
    run_coroutine,
    run_hook,
    run_layer,
)
from agent_factory.testing.plugin import needs
from agent_factory.topology.model import Call, Hook, Layer, Phase


class LawViolation(AssertionError):
    """A middleware breaks a law; the message says which, where, and on what state."""


@dataclass(frozen=True)
class LawCase:
    """A middleware and the examples that laws are checked on.

    Args:
        make: Makes the middleware.
        states: Strategy for the states of its hooks; default: by its state schema and the phase.
        tools: The names of the tools that are called in these states.
        handler: The answer of the inner call of its layers.
        options: Further arguments of `run_hook` and `run_layer`: context, store, config, resume.
        max_examples: The number of states that each hook and layer is run on.
    """

    make: Callable[[], Middleware]
    states: Any = None
    tools: Sequence[str] = ("search", "add")
    handler: Any = DONE
    options: Mapping[str, Any] = field(default_factory=dict)
    max_examples: int = 20

    @property
    def hooks(self) -> list[Bound[Hook]]:
        """The hooks of the middleware."""
        return hooks_of(self.make())

    @property
    def layers(self) -> list[Bound[Layer]]:
        """The layers of the middleware."""
        return layers_of(self.make())

    def states_at(self, phase: Phase) -> Any:
        """A strategy for the states that a hook of this phase may receive."""
        if self.states is not None:
            return self.states
        messages = strategies.messages(phase, tools=self.tools)
        return strategies.states(self.make().state_schema, phase, messages=messages)

    def requests_to(self, call: Call) -> Any:
        """A strategy for the requests that a layer around this call may receive."""
        if call is Call.MODEL:
            return strategies.messages(Phase.BEFORE_MODEL, tools=self.tools)
        st = needs("hypothesis", "strategies")
        args = st.dictionaries(st.sampled_from("abq"), st.text(max_size=9), max_size=2)
        name = st.sampled_from(list(self.tools))
        return st.fixed_dictionaries({"name": name, "args": args, "id": st.just("call_1")})

    def hook(self, bound: Bound[Hook], state: Any, middleware: Middleware | None = None) -> Any:
        """Run a hook once on a copy of the state, synchronously if it can."""
        args = (middleware or self.make(), bound.definition.phase.value, deepcopy(state))
        if bound.func is not None:
            return run_hook(*args, **self.options)
        return run_coroutine(arun_hook(*args, **self.options))

    def hook_in_place(self, bound: Bound[Hook], state: Any) -> tuple[Any, Any]:
        """The state that a hook received, before and after it ran."""
        node, given = hook_node(self.make(), bound.definition.phase.value, deepcopy(state))
        before = deepcopy(given)
        if bound.func is not None:
            run(in_langgraph(partial(node.invoke, given), **self.options))
        else:
            run_coroutine(arun(in_langgraph(partial(node.ainvoke, given), **self.options)))
        return before, given

    def layer(
        self, bound: Bound[Layer], request: Any, **changes: Any
    ) -> Iterator[Callable[[], LayerRun]]:
        """A function that runs a layer once, for each of the ways in which it can run."""
        args = (self.make(), deepcopy(request))
        options = {"handler": self.handler, "call": bound.definition.call.value, **self.options}
        options |= changes
        if bound.func is not None:
            yield lambda: run_layer(*args, **options)
        if bound.afunc is not None:
            yield lambda: run_coroutine(arun_layer(*args, **options))

    def for_all(self, place: str, examples: Any, check: Callable[[Any], None]) -> None:
        """Run a check on many examples, and report the smallest on which it fails.

        Raises:
            LawViolation: The check fails on an example.
        """
        hypothesis = needs("hypothesis")

        def law(example: Any) -> None:
            try:
                check(example)
            except AssertionError as broken:
                raise LawViolation(f"{place}: {broken}\n  tried on {_describe(example)}") from None

        settings = hypothesis.settings(
            max_examples=self.max_examples,
            deadline=None,
            database=None,
            derandomize=True,  # the same code gives the same result each time
            report_multiple_bugs=False,
            phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        settings(hypothesis.given(examples)(law))()


def _describe(example: Any) -> str:
    """An example as text: messages in short form, and the other keys of a state."""
    messages = example.get("messages") if isinstance(example, dict) else example
    if not isinstance(messages, list):
        return repr(example)
    texts = []
    for message in messages:
        names = ", ".join(call["name"] for call in getattr(message, "tool_calls", None) or ())
        texts.append(f"{message.type} {message.content!r}{names and f' calling {names}'}")
    more = {k: v for k, v in example.items() if k != "messages"} if example is not messages else {}
    return f"messages [{', '.join(texts)}]{f' and {more}' if more else ''}"
