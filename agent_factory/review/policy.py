"""Policy of tool calls: rules that allow, deny, judge, or ask a person."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from inspect import iscoroutinefunction
from itertools import product
from types import NoneType
from typing import Any, Literal, cast, get_args

from langchain_core.messages.tool import ToolCall
from langgraph.prebuilt.tool_node import ToolCallRequest

from agent_factory.errors import describe
from agent_factory.factory.agent import middleware_of, tools_of, topology_of
from agent_factory.review.seen import SEEN, SOURCES, SourceLabel, labels_seen
from agent_factory.topology.conditions import COMPARISONS
from agent_factory.topology.model import ToolKind

Action = Literal["allow", "ask", "deny", "judge"]
"""Action for a call: run, let a person decide, do not run, or let a model decide."""

DecisionType = Literal["approve", "edit", "reject", "respond"]

DECISIONS: tuple[DecisionType, ...] = get_args(DecisionType)

Condition = Mapping[str, Any]
"""A condition on arguments: for each name, the value of the argument, or comparisons such as
`{"<=": 50}`, all of which must hold. In a rule, the key "seen" is about the thread: a label, or a
list of labels, all of which the thread must have seen."""

When = Condition | Callable[[ToolCallRequest], bool]
"""The calls of a rule: a condition, or a function of the ToolCallRequest."""


def holds(condition: Condition, args: Mapping[str, object]) -> bool | None:
    """Return True if a condition holds for the arguments of a call.

    None: unknown, because an argument is missing, or has another type than the compared value.
    Nothing is converted: "50" is not 50.

    >>> holds({"euros": {"<=": 50}, "to": {"like": "*@shop.example"}}, {"euros": 60, "to": "x"})
    False
    >>> holds({"euros": {"<=": 50}}, {"euros": "60"}) is None
    True
    """
    results = [
        COMPARISONS[sign](args[name], value) if name in args else None
        for name, sign, value in _comparisons(condition)
    ]
    # As in SQL: one False decides, and an unknown result leaves all else undecided.
    return False if False in results else None if None in results else True


def _comparisons(condition: Condition) -> Iterator[tuple[str, str, Any]]:
    """The name, the sign and the value of each comparison of a condition."""
    for name, expected in condition.items():
        comparisons = expected if is_comparison(expected) else {"==": expected}
        for sign, value in comparisons.items():
            yield name, sign, value


def is_comparison(value: object) -> bool:
    """Return True for a dict of comparisons in a condition, such as `{"<=": 50}`."""
    return isinstance(value, Mapping) and bool(value) and value.keys() <= COMPARISONS.keys()


def condition_text(when: Any) -> str:
    """A condition in one line, for a table; the name of a function.

    >>> condition_text({"euros": {">": 10, "<=": 50}, "to": "Ann"})
    'euros > 10 and euros <= 50 and to == "Ann"'
    """
    if when is None:
        return ""
    if callable(when):
        return f"{getattr(when, '__name__', type(when).__name__)}()"
    parts = [f"seen {label}" for label in seen_labels(when)]
    for name, sign, value in _comparisons(arguments_of(when)):
        parts.append(f"{name} {sign} {json.dumps(value, default=repr, ensure_ascii=False)}")
    return " and ".join(parts) or "any arguments"


def seen_labels(when: Any) -> tuple[SourceLabel, ...]:
    """The labels under the key "seen" of a rule's condition.

    >>> seen_labels({"seen": ["untrusted", "private"], "euros": {">": 50}})
    ('untrusted', 'private')
    """
    value = when.get(SEEN) if isinstance(when, Mapping) else None
    labels = [value] if isinstance(value, str) else value
    if not isinstance(labels, list | tuple) or not all(label in SOURCES for label in labels):
        return ()
    return tuple(label for label in SOURCES if label in labels)


def arguments_of(when: Condition) -> Condition:
    """The part of a rule's condition about arguments."""
    return {name: value for name, value in when.items() if name != SEEN or not seen_labels(when)}


def check_condition(name: str, when: object) -> None:
    """Raise a ValueError if a value is not a condition on arguments in JSON."""
    example = f'Pass {name}={{"euros": {{"<=": 50}}}}, for example.'
    if not isinstance(when, Mapping) or not all(isinstance(key, str) for key in when):
        raise ValueError(f"{name} must be a dict with names of arguments, got {when!r}. {example}")
    for argument, expected in when.items():
        # Any other dict is a value to compare with, unless a mistake in a comparison is likely.
        if isinstance(expected, Mapping) and not is_comparison(expected):
            signs = set(map(str, expected))
            if signs & COMPARISONS.keys() or not expected:
                raise ValueError(
                    f"{name}[{argument!r}] must compare with some of {', '.join(COMPARISONS)}, "
                    f"got {expected!r}. {example}"
                )
        for sign, value in (expected if is_comparison(expected) else {}).items():
            is_list = isinstance(value, list | tuple)
            if is_list != (sign in ("in", "not in")):
                kind = "one value" if is_list else "a list"
                raise ValueError(f"{name}[{argument!r}][{sign!r}] must be {kind}, got {value!r}.")
            kinds = {"like": str, "not like": str, "<": str | int | float}
            kinds.update(dict.fromkeys(("<=", ">", ">="), kinds["<"]))
            if not isinstance(value, kinds.get(sign, object)):
                kind = "a pattern such as '*.txt'" if "like" in sign else "a number or a string"
                raise ValueError(f"{name}[{argument!r}][{sign!r}] must be {kind}, got {value!r}.")
    # Arguments come as JSON, so no other value could ever be equal to an argument.
    try:
        json.dumps(dict(when), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold what JSON can hold: {error}. {example}") from None


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule for some calls of some tools: allow, ask, judge or deny.

    An undecidable condition (an argument is missing or of another type) is met for "ask", "deny"
    and "judge", and is not met for "allow". Conditions see the arguments as written by the model,
    before conversions and without defaults of the tool.

    `when={"seen": "untrusted"}` holds if the thread has seen the result of a tool with this label,
    `{"seen": ["untrusted", "private"]}` if the thread has seen both; see `tool_labels`. The key is
    never an argument. The stack must have a `FlowGuardMiddleware`, which keeps the labels.

    Args:
        tool: The name of a tool, or a pattern such as "search*".
        action: "allow" runs the call. "ask" lets a person decide. "deny" answers the call with an
            error. "judge" asks the judge of the policy; a harmless call runs, and `otherwise`
            applies to any other call.
        when: The calls: a condition on arguments, or a function of the ToolCallRequest, which must
            depend only on the call and the state. None: all calls.
        reason: The reason of the rule; the model reads the reason of a denied call.
        reviewers: People who may decide: roles, and names as "@ann"; checked by a service. Empty:
            everybody.
        otherwise: Action for a call the judge does not find harmless: "ask" or "deny".
        allowed_decisions: The decisions open to a person; default: all four.
        description: Text for the reviewer: a string, or a function of the call, the state and the
            runtime. Default: the tool and the arguments.
        args_schema: A JSON schema of the arguments, passed to the reviewer for a form.
        remember: The longest time in seconds of a standing approval for later calls; None: a person
            is asked about each call. See `StandingApproval`.

    Raises:
        ValueError: An argument cannot be used; the message names the argument.

    >>> Rule("refund", "allow", when={"euros": {"<=": 50}}).names("refund")
    True
    """

    tool: str
    action: Action
    when: When | None = None
    reason: str = ""
    reviewers: Collection[str] = ()
    otherwise: Literal["ask", "deny"] = "ask"
    allowed_decisions: Sequence[DecisionType] = DECISIONS
    description: str | Callable[[ToolCall, Any, Any], str] | None = None
    args_schema: Mapping[str, Any] | None = None
    remember: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.tool, str) or not self.tool:
            raise ValueError(f"tool must be the name of a tool or a pattern, got {self.tool!r}.")
        for name, (is_valid, expected) in OPTIONS.items():
            if not is_valid(value := getattr(self, name)):
                raise ValueError(f"{name} of {self.tool!r} must be {expected}, got {value!r}.")
        if isinstance(self.when, Mapping):
            if SEEN in self.when and not seen_labels(self.when):
                raise ValueError(
                    f"when[{SEEN!r}] of {self.tool!r} must be what the thread has seen, "
                    f"{' or '.join(map(repr, SOURCES))} or a list of both, got "
                    f"{self.when[SEEN]!r}. For an argument of this name, pass a function."
                )
            check_condition("when", arguments_of(self.when))
        # Copies: the caller may change a list or a dict later.
        for name in ("when", "reviewers", "allowed_decisions", "args_schema"):
            if isinstance(value := getattr(self, name), list | dict | set):
                object.__setattr__(self, name, deepcopy(value))

    @property
    def calls(self) -> str:
        """The calls of the rule, in words; empty for all calls of the tool."""
        return condition_text(self.when)

    @property
    def asks(self) -> bool:
        """True if a person may be asked about the calls."""
        return self.action == "ask" or (self.action == "judge" and self.otherwise == "ask")

    def names(self, tool: str) -> bool:
        """Return True if the rule is about a tool of this name."""
        pattern = self.tool
        # Each call tries each rule, and most rules name a single tool: `fnmatchcase` takes longer.
        if "*" in pattern or "?" in pattern or "[" in pattern:
            return pattern == "*" or fnmatchcase(tool, pattern)
        return tool == pattern

    def matches(self, request: ToolCallRequest) -> bool:
        """Return True if the rule is about a call."""
        if not self.names(request.tool_call["name"]):
            return False
        if self.when is None:
            return True
        if callable(self.when):
            return bool(self.when(request))
        result = holds(arguments_of(self.when), request.tool_call["args"])
        if result is not False and (labels := seen_labels(self.when)):
            sources = labels_seen(request)
            is_seen = None if sources is None else all(label in sources for label in labels)
            result = is_seen and result
        # Undecidable. Only a rule with "allow" needs to be sure.
        return self.action != "allow" if result is None else result


def _is_function_or(*types: Any) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, types) or (callable(value) and not iscoroutinefunction(value))
    )


OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "action": (get_args(Action).__contains__, "one of 'allow', 'ask', 'deny', 'judge'"),
    "otherwise": (("ask", "deny").__contains__, "one of 'ask', 'deny'"),
    "allowed_decisions": (
        lambda value: (
            isinstance(value, list | tuple) and bool(value) and all(v in DECISIONS for v in value)
        ),
        f"a list of some of {', '.join(DECISIONS)}",
    ),
    "description": (_is_function_or(str, NoneType), "a string or a plain function"),
    "args_schema": (lambda value: isinstance(value, Mapping | None), "a JSON schema, a dict"),
    "when": (_is_function_or(Mapping, NoneType), "a plain function of the ToolCallRequest"),
    "reason": (lambda value: isinstance(value, str), "a string"),
    "reviewers": (
        lambda value: (
            isinstance(value, list | tuple | set | frozenset)
            and all(isinstance(name, str) for name in value)
        ),
        "a list of roles, and of people as '@ann'",
    ),
    "remember": (
        # In Python, True is an int.
        lambda value: (
            value is None
            or (isinstance(value, int | float) and value is not True and 0 < value < math.inf)
        ),
        "a number of seconds greater than 0, or None",
    ),
}
"""For each option of a rule: a check of a value, and the expected form."""

UNCOVERED = Rule("*", "ask")
"""The rule for calls without a rule in the policy."""


ALLOWED = Rule("*", "allow")
"""The rule for calls without a decision."""


class ToolPolicy:
    """Rules about tool calls. The first matching rule decides.

    A person is asked about a call without a rule. A build warns about tools with uncovered calls
    (AF213); a last `Rule("*", "ask")` covers these calls.

    Args:
        rules: The rules, in order.
        judge: For rules with "judge": a chat model, "provider:name", a decision model, or a
            `agent_factory.middleware.RiskJudge`.

    Raises:
        TypeError: An item is not a rule.
        ValueError: A rule needs a judge, and there is none.

    >>> policy = ToolPolicy(
    ...     Rule("search*", "allow"),
    ...     Rule("refund", "allow", when={"euros": {"<=": 50}}),
    ...     Rule("refund", "ask", reviewers=["finance"]),
    ... )
    >>> [rule.tool for rule in policy.rules]
    ['search*', 'refund', 'refund']
    """

    def __init__(self, *rules: Rule, judge: Any = None) -> None:
        for index, rule in enumerate(rules):
            if not isinstance(rule, Rule):
                raise TypeError(
                    f"rules[{index}] must be a Rule, got {describe(rule)}. "
                    'Write ToolPolicy(Rule("refund", "ask"), ...).'
                )
        tools = [rule.tool for rule in rules if rule.action == "judge"]
        if tools and judge is None:
            raise ValueError(
                f"judge is required, because it decides about {', '.join(tools)}. Pass a chat "
                "model, ToolPolicy(..., judge=model)."
            )
        self.rules = rules
        self.judge = judge

    def __repr__(self) -> str:
        return f"ToolPolicy({', '.join(map(repr, self.rules))})"

    def rule_for(self, request: ToolCallRequest) -> Rule:
        """The rule about a call."""
        for rule in self.rules:
            if rule.matches(request):
                return rule
        return UNCOVERED

    def allows(self, tool: str) -> bool:
        """Return True if every call of a tool runs without a decision, with any arguments.

        False if arguments matter, or if a subclass of the policy or of a rule chooses the rule.

        >>> policy = ToolPolicy(Rule("search*", "allow"), Rule("*", "ask"))
        >>> policy.allows("search_mail"), policy.allows("refund")
        (True, False)
        """
        # A subclass may choose by anything.
        if type(self).rule_for is not ToolPolicy.rule_for:
            return False
        for rule in self.rules:
            if type(rule).matches is not Rule.matches or type(rule).names is not Rule.names:
                return False
            if rule.names(tool):
                return rule.action == "allow" and rule.when is None
        return False

    @property
    def covered(self) -> tuple[str, ...]:
        """Patterns of the tools without uncovered calls."""
        return tuple(r.tool for r in self.rules if r.when is None and decides_as_written(r))


def decides_as_written(value: Rule | ToolPolicy) -> bool:
    """Return True if the fields of a rule or a policy decide: a subclass may decide by code."""
    base: type = Rule if isinstance(value, Rule) else ToolPolicy
    names = ("matches", "names") if base is Rule else ("rule_for", "allows")
    return all(getattr(type(value), name) is getattr(base, name) for name in names)


def rules_about(agent: Any, state: object, call: ToolCall) -> list[Rule]:
    """The rules about a call, one of each policy of an agent.

    A policy is left out if a condition needs more than the call, the tool and the state: its
    middleware decides when the run continues.
    """
    tool = tools_of(agent).get(call["name"])
    request = ToolCallRequest(tool_call=call, tool=tool, state=state, runtime=cast("Any", None))
    rules = []
    for policy in _policies_of(agent).values():
        # A function of the request may need the runtime, which is None here.
        with suppress(Exception):
            rules.append(policy.rule_for(request))
    return rules


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A row of the table of a policy: the action for some calls of a tool.

    Args:
        tool: The name of the tool.
        rule: The name or pattern of the rule; empty if no rule covers these calls.
        action: "allow", "ask", "deny" or "judge".
        when: The calls of the row, in words; empty for all calls without an earlier row.
        otherwise: For "judge": the action for a call the judge does not find harmless.
        reviewers: People who may decide; empty for everybody.
        decisions: The decisions open to a person.
        remember: The longest time in seconds of a standing approval.
        reason: The reason of the rule.
        middleware: The name of the middleware; empty if the agent has no policy.
        is_covered: False if no rule covers the calls. A build then warns.
    """

    tool: str
    rule: str
    action: Action
    when: str = ""
    otherwise: str = ""
    reviewers: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    remember: float | None = None
    reason: str = ""
    middleware: str = ""
    is_covered: bool = True


def policy_table(agent: Any) -> list[PolicyRow]:
    """Actions for the calls of each tool, in the order of the rules.

    Args:
        agent: An agent of `create_agent`.

    Raises:
        ArgumentError: The graph was not built by `create_agent`.

    >>> from agent_factory import create_agent
    >>> from agent_factory.middleware import HumanInTheLoopMiddleware
    >>> from agent_factory.testing import ScriptedChatModel
    >>> def refund(euros: int) -> str:
    ...     "Refund."
    ...     return "done"
    >>> policy = ToolPolicy(
    ...     Rule("refund", "allow", when={"euros": {"<=": 50}}), Rule("refund", "ask")
    ... )
    >>> agent = create_agent(
    ...     ScriptedChatModel([]), [refund], middleware=[HumanInTheLoopMiddleware(policy)],
    ...     ignore=["AF211"],
    ... )
    >>> for row in policy_table(agent):
    ...     print(row.tool, row.action, row.when or "otherwise")
    refund allow euros <= 50
    refund ask otherwise
    """
    tools = [tool.name for tool in topology_of(agent).tools if tool.kind is ToolKind.CLIENT]
    policies = _policies_of(agent)
    if not policies:
        return [PolicyRow(tool, "", "allow", is_covered=False) for tool in tools]
    pairs = product(policies.items(), tools)
    return [row for (name, policy), tool in pairs for row in _rows(name, policy, tool)]


def _policies_of(agent: Any) -> dict[str, ToolPolicy]:
    """The policies of an agent, by the names of their middleware."""
    policies = {member.name: getattr(member, "policy", None) for member in middleware_of(agent)}
    return {name: policy for name, policy in policies.items() if isinstance(policy, ToolPolicy)}


def _rows(middleware: str, policy: ToolPolicy, tool: str) -> list[PolicyRow]:
    rows = []
    for rule in policy.rules:
        if not rule.names(tool):
            continue
        rows.append(
            PolicyRow(
                tool,
                rule.tool,
                rule.action,
                when=rule.calls,
                otherwise=rule.otherwise if rule.action == "judge" else "",
                reviewers=tuple(rule.reviewers) if rule.asks else (),
                decisions=tuple(rule.allowed_decisions) if rule.asks else (),
                remember=rule.remember if rule.asks else None,
                reason=rule.reason,
                middleware=middleware,
            )
        )
        # This rule is about all remaining calls, so no later rule decides.
        if rule.when is None:
            return rows
    left = PolicyRow(tool, "", "ask", decisions=DECISIONS, middleware=middleware, is_covered=False)
    return [*rows, left]
