"""For each code that a build can find: the smallest stack that gives it, and what to do then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRELUDE: Final = '''from typing import NotRequired

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Ordering,
    SpecError,
    hook_config,
    plan_agent,
    stack,
)


def find(query: str) -> str:
    """Find something."""
    return query


class Look(AgentMiddleware):
    def before_model(self, state, runtime):
        return None


def found(**arguments):
    """Print what a build finds, and what it is only in doubt of, too."""
    try:
        plan_agent(strict=True, **arguments)
    except SpecError as error:
        print(*error.errors, sep="\\n")
'''
"""What the examples share."""


@dataclass(frozen=True, slots=True)
class Example:
    """A stack with one mistake.

    Args:
        source: Python that prints the finding, after the prelude.
        remedy: What to do, whatever the names.
    """

    source: str
    hint: str


EXAMPLES: Final[dict[str, Example]] = {
    "AF101": Example(
        "found(name=3)",
        "Give the argument what its message asks for.",
    ),
    "AF102": Example(
        "found(middleware=[Look])",
        "Give instances, not classes. A function becomes a middleware by a decorator such as "
        "`before_model`.",
    ),
    "AF103": Example(
        "found(middleware=[Look(), Look()])",
        'Take one out, or tell them apart: `Look(name="first")`. A class with an `__init__` of its '
        "own can set `self.name`.",
    ),
    "AF104": Example(
        'found(middleware=[Look(name="look|twice")])',
        "Give the middleware a name without `|` and `:`, which LangGraph keeps for itself.",
    ),
    "AF105": Example(
        """class Misspelt(AgentMiddleware):
    def before_modle(self, state, runtime):
        return None


found(middleware=[Misspelt()])""",
        "Spell the hook as the message proposes. A helper of your own starts with an underscore.",
    ),
    "AF106": Example(
        """class OneArgument(AgentMiddleware):
    def before_model(self, state):
        return None


found(middleware=[OneArgument()])""",
        "Write `(self, state, runtime)` for hooks, `(self, request, handler)` for wraps, "
        "`(self, request)` for flows.",
    ),
    "AF107": Example(
        """class WrongColour(AgentMiddleware):
    async def before_model(self, state, runtime):
        return None


found(middleware=[WrongColour()])""",
        "`async def` goes with the `a` name, `abefore_model`; `def` with the plain one. Only flows "
        "are generators.",
    ),
    "AF108": Example(
        """class Twice(AgentMiddleware):
    def wrap_model_call(self, request, handler):
        return handler(request)

    def around_model(self, request):
        return (yield request)


found(middleware=[Twice()])""",
        "Keep the flow: it serves synchronous and asynchronous runs.",
    ),
    "AF109": Example(
        """class OnlySync(AgentMiddleware):
    def wrap_model_call(self, request, handler):
        return handler(request)


class OnlyAsync(AgentMiddleware):
    async def abefore_model(self, state, runtime):
        return None


found(middleware=[OnlySync(), OnlyAsync()])""",
        "Write the layer as a flow, or give one of the two its missing twin.",
    ),
    "AF110": Example(
        """class Away(AgentMiddleware):
    @hook_config(can_jump_to=["away"])
    def before_model(self, state, runtime):
        return None


found(middleware=[Away()])""",
        'Declare `"tools"`, `"model"` or `"end"`.',
    ),
    "AF111": Example(
        """class ToTools(AgentMiddleware):
    @hook_config(can_jump_to=["tools"])
    def after_model(self, state, runtime):
        return None


found(middleware=[ToTools()])""",
        'Give the agent a tool, or take `"tools"` out of `can_jump_to`.',
    ),
    "AF112": Example(
        "found(tools=[3])",
        "Give a function with a docstring and annotated parameters, a `BaseTool`, or a provider's "
        "tool as a dict.",
    ),
    "AF113": Example(
        '''def other():
    """Find something else."""


other.__name__ = "find"
found(tools=[find, other])''',
        "Rename one, or give the same tool object in both places.",
    ),
    "AF114": Example(
        """class Engine(AgentState):
    jump_to: NotRequired[str]


found(state_schema=Engine)""",
        "Write a TypedDict, `class MyState(AgentState): ...`, without keys of the engine.",
    ),
    "AF115": Example(
        """class Count(AgentState):
    seen: NotRequired[int]


class Names(AgentState):
    seen: NotRequired[list[str]]


class Keeper(AgentMiddleware):
    state_schema = Names


found(middleware=[Keeper()], state_schema=Count)""",
        "Give the key one type and one reducer, or two names.",
    ),
    "AF116": Example(
        'found(tools=[find], interrupt_before=["tolos"])',
        "Take one of the nodes that the message lists; `agent-factory show` draws them.",
    ),
    "AF117": Example(
        "found(response_format=3)",
        "Give a pydantic model, a dataclass, a TypedDict, a JSON schema with a title, or a "
        "strategy.",
    ),
    "AF118": Example(
        """class Vault(AgentMiddleware):
    ordering = Ordering(requires=("Look",))


found(middleware=[Vault()])""",
        "Add what is missing to `middleware`.",
    ),
    "AF119": Example(
        """class Alone(AgentMiddleware):
    ordering = Ordering(conflicts=("Look",))


found(middleware=[Alone(), Look()])""",
        "Take one of the two out.",
    ),
    "AF120": Example(
        """class First(AgentMiddleware):
    ordering = Ordering(before=("Second",))


class Second(AgentMiddleware):
    ordering = Ordering(before=("First",))


found(middleware=[First(), Second()])""",
        "Correct the `ordering` of one of them.",
    ),
    "AF121": Example(
        """try:
    stack.remove([Look()], "Loook")
except SpecError as error:
    print(error)""",
        "Take one of the names that the message lists.",
    ),
    "AF201": Example(
        """class Back(AgentMiddleware):
    @hook_config(can_jump_to=["model"])
    def before_model(self, state, runtime):
        return None


found(middleware=[Back()])""",
        'Take `"model"` out of `can_jump_to`.',
    ),
    "AF202": Example(
        """class Again(AgentMiddleware):
    @hook_config(can_jump_to=["model"])
    def before_model(self, state, runtime):
        return None


found(middleware=[Look(), Again()])""",
        "Return None to go on to the model; or make sure that it jumps only once, and ignore this.",
    ),
    "AF203": Example(
        'found(tools=[find, {"type": "web_search", "name": "find"}])',
        "Rename the agent's tool.",
    ),
    "AF204": Example(
        """class Outer(AgentMiddleware):
    ordering = Ordering(before=("Look",))


found(middleware=[Look(), Outer()])""",
        "Put the two into the order that the message names.",
    ),
    "AF205": Example(
        """class Guard(Look):
    ordering = Ordering(sanitizes=("user_messages",))


class Summarizer(Look):
    ordering = Ordering(sends_to_model=("user_messages",))


found(middleware=[Summarizer(), Guard()])""",
        "Put the guard before what sends messages to a model of its own.",
    ),
    "AF206": Example(
        """class Changer(AgentMiddleware):
    ordering = Ordering(writes=("tool_calls",))

    def after_model(self, state, runtime):
        return None


class Judge(AgentMiddleware):
    ordering = Ordering(reads=("tool_calls",))

    def after_model(self, state, runtime):
        return None


found(tools=[find], middleware=[Changer(), Judge()])""",
        "Let the one that judges act last: hooks after the model run from the end of the list to "
        "its beginning.",
    ),
    "AF207": Example(
        """class Careful(AgentMiddleware):
    ordering = Ordering(reads=("tool_errors",))

    def around_tool(self, request):
        return (yield request)


found(tools=[find], middleware=[Careful()], handle_tool_errors=True)""",
        "Leave `handle_tool_errors` out, or take the middleware out.",
    ),
    "AF210": Example(
        """class Limit(Look):
    expected_tools = ("fnid",)


found(tools=[find], middleware=[Limit()])""",
        "Correct the name, or give the agent the tool. Ignore it where a layer brings the tool at "
        "run time.",
    ),
    "AF211": Example(
        """class Keeps(Look):
    needs_checkpointer = True


found(middleware=[Keeps()], checkpointer=None)""",
        "Give the agent a checkpointer. Inside a graph that has one, ignore it.",
    ),
}
"""The examples, by code."""
