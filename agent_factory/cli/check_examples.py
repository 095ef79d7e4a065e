"""For each code that a build can report: the smallest stack that causes it, and a hint.

docs/checks.md shows all of them, below the lines that they share.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Final

PRELUDE = '''from datetime import datetime
from typing import Annotated, NotRequired

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Ordering,
    SpecError,
    ToolGuard,
    UsageLimit,
    hook_config,
    plan_agent,
    stack,
    tool_labels,
)
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy


def find(query: str) -> str:
    """Find something."""
    return query


class Look(AgentMiddleware):
    def before_model(self, state, runtime):
        return None


def check(**arguments):
    """Print the errors and warnings of a build."""
    try:
        plan_agent(strict=True, **arguments)
    except SpecError as error:
        print(*error.errors, sep="\\n")
'''
"""The first lines of every example."""


@dataclass(frozen=True, slots=True)
class Example:
    """Python that prints one problem, and what to do about it in general."""

    source: str
    hint: str

    @property
    def complete(self) -> str:
        """The source with the imports and definitions that it uses, to be run alone."""
        # Alone it needs no `check`, which prints what plan_agent reports.
        source = re.sub(r"\bcheck\(", "plan_agent(", self.source)
        parts: list[str] = []
        # From the last definition: what it uses itself is then above, and is still to come.
        for node in reversed(ast.parse(PRELUDE).body):
            names = {
                n.id
                for n in ast.walk(ast.parse("\n".join([*parts, source])))
                if isinstance(n, ast.Name)
            }
            if isinstance(node, ast.ImportFrom):
                node.names = [alias for alias in node.names if alias.name in names]
                parts[:0] = [ast.unparse(node)] if node.names else []
            elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
                parts[:0] = ["\n", ast.get_source_segment(PRELUDE, node) or "", "\n"]
        return "\n".join([*parts, source])


EXAMPLES: Final[dict[str, Example]] = {
    "AF101": Example("check(name=3)", "Pass the value that the message asks for."),
    "AF102": Example(
        "check(middleware=[Look])",
        "Pass instances, not classes. A decorator such as `before_model` makes a middleware of a "
        "function.",
    ),
    "AF103": Example(
        "check(middleware=[Look(), Look()])",
        'Remove one, or give it another name: `Look(name="first")`. A class with its own '
        "`__init__` can set `self.name`.",
    ),
    "AF104": Example(
        'check(middleware=[Look(name="look|twice")])',
        "Give the middleware a name without `|` and `:`, which LangGraph reserves, or `/`.",
    ),
    "AF105": Example(
        """class Misspelt(AgentMiddleware):
    def before_modle(self, state, runtime):
        return None


check(middleware=[Misspelt()])""",
        "Spell the hook as the message suggests. Start the name of a helper with an underscore.",
    ),
    "AF106": Example(
        """class WithUser(AgentMiddleware):
    def before_model(self, state, runtime, user):
        return None


check(middleware=[WithUser()])""",
        "Write `(self, state, runtime)` for hooks, `(self, request, handler)` for wraps, "
        "`(self, request)` for flows. A hook may also take `config`, `store` and `writer`.",
    ),
    "AF107": Example(
        """class WrongMode(AgentMiddleware):
    async def before_model(self, state, runtime):
        return None


check(middleware=[WrongMode()])""",
        "Use `async def` for the name with an `a`, `abefore_model`, and `def` for the plain one. "
        "Only flows are generators.",
    ),
    "AF108": Example(
        """class Twice(AgentMiddleware):
    def wrap_model_call(self, request, handler):
        return handler(request)

    def around_model(self, request):
        return (yield request)


check(middleware=[Twice()])""",
        "Keep the flow: it works in sync and async runs.",
    ),
    "AF109": Example(
        """class OnlySync(AgentMiddleware):
    def wrap_model_call(self, request, handler):
        return handler(request)


class OnlyAsync(AgentMiddleware):
    async def abefore_model(self, state, runtime):
        return None


check(middleware=[OnlySync(), OnlyAsync()])""",
        "Write the layer as a flow, or add the missing variant to one of the two.",
    ),
    "AF110": Example(
        """class Away(AgentMiddleware):
    @hook_config(can_jump_to=["away"])
    def before_model(self, state, runtime):
        return None


check(middleware=[Away()])""",
        'Declare `"tools"`, `"model"` or `"end"`.',
    ),
    "AF111": Example(
        """class ToTools(AgentMiddleware):
    @hook_config(can_jump_to=["tools"])
    def after_model(self, state, runtime):
        return None


check(middleware=[ToTools()])""",
        'Give the agent a tool, or remove `"tools"` from `can_jump_to`.',
    ),
    "AF112": Example(
        "check(tools=[3])",
        "Pass a function with a docstring and annotated parameters, a `BaseTool`, or a provider's "
        "tool as a dict.",
    ),
    "AF113": Example(
        '''def other():
    """Find something else."""


other.__name__ = "find"
check(tools=[find, other])''',
        "Rename one, or pass the same tool object in both places.",
    ),
    "AF114": Example(
        """class Engine(AgentState):
    jump_to: NotRequired[str]


check(state_schema=Engine)""",
        "Write a TypedDict, `class MyState(AgentState): ...`, without the keys that the library "
        "reserves.",
    ),
    "AF115": Example(
        """class Count(AgentState):
    seen: NotRequired[Annotated[int, max]]


class Last(AgentState):
    seen: NotRequired[int]


class Counter(AgentMiddleware):
    state_schema = Count


class Keeper(AgentMiddleware):
    state_schema = Last


check(middleware=[Counter(), Keeper()])""",
        "Use one reducer for the key, or two keys; or declare the key in the `state_schema` of the "
        "agent, which decides.",
    ),
    "AF116": Example(
        'check(tools=[find], interrupt_before=["tolos"])',
        "Use one of the nodes that the message lists; `agent-factory show` shows them.",
    ),
    "AF117": Example(
        "check(response_format=3)",
        "Pass a pydantic model, a dataclass, a TypedDict, a JSON schema with a title, or a "
        "strategy.",
    ),
    "AF118": Example(
        """class Vault(AgentMiddleware):
    ordering = Ordering(requires=("Look",))


check(middleware=[Vault()])""",
        "Add the missing middleware to `middleware`.",
    ),
    "AF119": Example(
        """class Alone(AgentMiddleware):
    ordering = Ordering(conflicts=("Look",))


check(middleware=[Alone(), Look()])""",
        "Remove one of the two.",
    ),
    "AF120": Example(
        """class First(AgentMiddleware):
    ordering = Ordering(before=("Second",))


class Second(AgentMiddleware):
    ordering = Ordering(before=("First",))


check(middleware=[First(), Second()])""",
        "Correct the `ordering` of one of them.",
    ),
    "AF121": Example(
        """try:
    stack.remove([Look()], "Loook")
except SpecError as error:
    print(error)""",
        "Use one of the names that the message lists.",
    ),
    "AF122": Example(
        """check(middleware=[Look()], moved={"Watch": "Lokk"})""",
        "Write the current name of the middleware; or remove the entry, if the middleware is gone.",
    ),
    "AF123": Example(
        """check(middleware=[Look(), Look(name="Other")], moved={"Look": "Other"})""",
        "Remove the entry: threads that wait at the old name go on there.",
    ),
    "AF124": Example(
        """class Limit(Look):
    expected_tools = ("fnid",)


check(tools=[find], middleware=[Limit()])""",
        "Correct the name: a guard would not act on the tool. Ignore this if the tool is another "
        "one, which is added at run time.",
    ),
    "AF125": Example(
        """def search(query: str) -> str:
    \"\"\"Search.\"\"\"
    return query


search.__name__ = "search the web"
check(tools=[search])""",
        "Give the tool a name of letters, digits, `_` and `-`, of at most 64 characters, and its "
        "arguments likewise. Ignore this for a provider that accepts the name.",
    ),
    "AF126": Example(
        """class Review(Look):
    guards = [ToolGuard("find", "ask")]


check(tools=[find], middleware=[Review()])""",
        "Define the hook or the layer that decides, or name the one that does in "
        "`ToolGuard(..., place=...)`.",
    ),
    "AF127": Example(
        """check(tools=[find], guarantees=["tool find passes a person"])""",
        "The message says on which path, and what to write. docs/guarantees.md explains the "
        "sentences.",
    ),
    "AF128": Example(
        """check(tools=[find], guarantees=["find is reviewed"])""",
        "Write one of the sentences of docs/guarantees.md, with the names of tools, nodes and "
        "middleware of this agent.",
    ),
    "AF129": Example(
        """class Review(AgentMiddleware):
    guards = [ToolGuard("find", "check", place="after_model")]

    def after_model(self, state, runtime):
        return None


class Shortcut(AgentMiddleware):
    @hook_config(can_jump_to=["tools"])
    def before_model(self, state, runtime):
        return None


check(tools=[find], middleware=[Shortcut(), Review()])""",
        "Decide in a layer, `around_tool`, which no jump bypasses; or remove the jump.",
    ),
    "AF131": Example(
        """class Rules(AgentMiddleware):
    guards = [ToolGuard("find", "check", when="euros > 50")]

    def around_tool(self, request):
        return (yield request)


check(tools=[find], middleware=[Rules()])""",
        "Compare arguments that the tool has, by values of their types.",
    ),
    "AF201": Example(
        """class Back(AgentMiddleware):
    @hook_config(can_jump_to=["model"])
    def before_model(self, state, runtime):
        return None


check(middleware=[Back()])""",
        'Remove `"model"` from `can_jump_to`.',
    ),
    "AF202": Example(
        """class Again(AgentMiddleware):
    @hook_config(can_jump_to=["model"])
    def before_model(self, state, runtime):
        return None


check(middleware=[Look(), Again()])""",
        "Return None to continue with the model; or make sure that it jumps only once, and ignore "
        "this.",
    ),
    "AF203": Example(
        'check(tools=[find, {"type": "web_search", "name": "find"}])',
        "Rename the agent's tool.",
    ),
    "AF204": Example(
        """class Outer(AgentMiddleware):
    ordering = Ordering(before=("Look",))


check(middleware=[Look(), Outer()])""",
        "Put the two in the order that the message gives.",
    ),
    "AF205": Example(
        """class Guard(Look):
    ordering = Ordering(sanitizes=("user_messages",))


class Summarizer(Look):
    ordering = Ordering(sends_to_model=("user_messages",))


check(middleware=[Summarizer(), Guard()])""",
        "Put the guard before the middleware that sends messages to another model.",
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


check(tools=[find], middleware=[Changer(), Judge()])""",
        "Let the one that judges run last: after_model hooks run from the end of the list to its "
        "beginning.",
    ),
    "AF207": Example(
        """class Careful(AgentMiddleware):
    ordering = Ordering(reads=("tool_errors",))

    def around_tool(self, request):
        return (yield request)


check(tools=[find], middleware=[Careful()], handle_tool_errors=True)""",
        "Remove `handle_tool_errors`, or remove the middleware.",
    ),
    "AF208": Example(
        """class Shortens(AgentMiddleware):
    ordering = Ordering(writes=("thread",))

    def before_model(self, state, runtime):
        return None


class Recalls(Look):
    ordering = Ordering(reads=("thread",))


check(middleware=[Recalls(), Shortens()])""",
        "Let the other keep the thread: `keep_thread=True` where it is a built-in.",
    ),
    "AF210": Example(
        """class Limit(Look):
    expected_tools = ("search",)


check(tools=[find], middleware=[Limit()])""",
        "Correct the name, or give the agent the tool. Ignore this if a layer adds the tool at run "
        "time.",
    ),
    "AF211": Example(
        """class Keeps(Look):
    needs_checkpointer = True


check(middleware=[Keeps()], checkpointer=None)""",
        "Give the agent a checkpointer. Ignore this inside a graph that has one.",
    ),
    "AF212": Example(
        """class Empty(AgentMiddleware):
    def look(self, state, runtime):
        return None


check(middleware=[Empty()])""",
        "Define a hook such as `before_model` in its class, or remove it from the stack.",
    ),
    "AF213": Example(
        """policy = ToolPolicy(Rule("search*", "ask"))
check(tools=[find], middleware=[HumanInTheLoopMiddleware(policy)])""",
        'Add a rule for the tool, or `Rule("*", "ask")` as the last one.',
    ),
    "AF214": Example(
        """class Clock(AgentMiddleware):
    ordering = Ordering(varies=("system_prompt",))

    def around_model(self, request):
        prompt = f"{request.system_prompt} It is {datetime.now():%H:%M}."
        return (yield request.override(system_prompt=prompt))


class Manual(AgentMiddleware):
    ordering = Ordering(extends=("system_prompt",))

    def around_model(self, request):
        prompt = f"{request.system_prompt} Answer in one sentence."
        return (yield request.override(system_prompt=prompt))


check(middleware=[Clock(), Manual()])""",
        "Put the middleware that changes something in each call behind those that add the same; or "
        "let it write at the end of the last message.",
    ),
    "AF215": Example(
        """class Count(AgentState):
    seen: NotRequired[int]


class Names(AgentState):
    seen: NotRequired[list[str]]


class Counter(AgentMiddleware):
    state_schema = Count


class Keeper(AgentMiddleware):
    state_schema = Names


check(middleware=[Counter(), Keeper()])""",
        "Use one type for the key, or two keys; or declare the key in the `state_schema` of the "
        "agent, which decides.",
    ),
    "AF216": Example(
        'check(name="Order desk")',
        "Give the agent a name of letters, digits, `_` and `-`, of at most 64 characters.",
    ),
    "AF217": Example(
        """class Limit(Look):
    limits = [UsageLimit(5, "model calls")]


class Shortcut(AgentMiddleware):
    @hook_config(can_jump_to=["tools"])
    def before_model(self, state, runtime):
        return None


check(tools=[find], middleware=[Limit(), Shortcut()])""",
        "Remove the jump, or make sure that it is taken only once, and ignore this.",
    ),
    "AF218": Example(
        """class Report(AgentMiddleware):
    def after_agent(self, state, runtime):
        return None


class Early(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def after_agent(self, state, runtime):
        return None


check(middleware=[Report(), Early()])""",
        'Remove `"end"` from `can_jump_to`: the run ends anyway. Or put the middleware first in '
        "the list, so that its hook runs last.",
    ),
    "AF219": Example(
        '''@tool_labels("untrusted", "private")
def read_mail(id: str) -> str:
    """Read a mail."""
    return "..."


@tool_labels("outside")
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return "sent"


check(tools=[read_mail, send_mail])''',
        "Add `FlowGuardMiddleware`, which asks once a thread has seen both; or let a person, a "
        "judge or a rule decide about each call of the tool.",
    ),
    "AF222": Example(
        """policy = ToolPolicy(Rule("*", "ask"), Rule("find", "deny"))
check(tools=[find], middleware=[HumanInTheLoopMiddleware(policy)])""",
        "Put the narrower rule first, or remove it.",
    ),
}
"""The examples, by code."""
