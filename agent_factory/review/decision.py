"""Decision of a person about a pending call, and the call which then runs.

`judge` reads decisions of any origin: an answer to an interrupt, a function of
`agent_factory.review`, a form, the command line, a client of a protocol. The function returns the
complete decision and the call to run, or raises an error. An error leaves the call undecided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ValidationError

from agent_factory.errors import describe, did_you_mean
from agent_factory.review.errors import DecisionNotAllowed, InvalidAnswer, InvalidDecision
from agent_factory.review.pending_calls import VALUE_KINDS, PendingCall
from agent_factory.review.policy import DECISIONS, Rule
from agent_factory.review.requests import Action
from agent_factory.review.standing_approvals import remember_error
from agent_factory.structured_output.json_schema import JsonSchema
from agent_factory.tools.client_tool import read_result

PARTS: Mapping[str, str | None] = {
    "approve": "remember",
    "edit": "edited_action",
    "reject": "message",
    "respond": "message",
}
"""For each type of decision, the part allowed besides `type` and `digest`."""

_INTENDED = {
    **dict.fromkeys(("args", "arguments", "action", "edited_args"), "edited_action"),
    **dict.fromkeys(("reason", "comment", "feedback", "text", "answer", "response"), "message"),
}
"""Names that people write for a part, and the name of the part."""

_HINTS = {
    "review": " `allowed_decisions` of its rule, or of one before it in the policy, allow more.",
    "question": " Its own code asks: respond() answers it, add_input() continues without it.",
    "client": " The client runs this call: respond() sends its result.",
    "result": " The call has run: respond() changes the result that the model reads.",
}

Rules = Callable[[ToolCall], Iterable[Rule]]
"""The rules about a call: one of each policy of the agent."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A valid decision about a call, and the call which then runs."""

    decision: dict[str, Any]  # complete, with the digest of the call if known
    runs: Action | None  # the call to run, if any


Judge = Callable[[PendingCall, object], Judgement]
"""`judge`, with the tools and the rules of an agent."""


def judge(
    call: PendingCall,
    decision: Any,
    tools: Mapping[str, BaseTool] = MappingProxyType({}),
    rules: Rules = lambda _: (),
) -> Judgement:
    """Judge a decision about a pending call.

    An edit has to fit the tool to run, if known, and no rule may deny the new call.

    Raises:
        InvalidDecision: A part of the decision is unknown, missing or of another type, or the
            arguments of an edit do not fit the tool.
        DecisionNotAllowed: The call does not allow the decision, or the decision names another
            call.
    """
    kind = decision.get("type") if isinstance(decision, Mapping) else decision
    if not isinstance(decision, Mapping) or kind not in DECISIONS:
        close = get_close_matches(str(kind), DECISIONS, 1)
        example = _json({"type": close[0] if close else call.allowed[0]})
        expected = f"expected a decision with a type ({', '.join(call.allowed)})"
        hint = f"Did you mean {example}?" if close else f"Pass {example}, for example."
        raise InvalidDecision(call.name, f"{expected}, got {describe(decision)}.", hint)
    if kind not in call.allowed:
        raise DecisionNotAllowed(
            call.name,
            f"{kind!r} is not allowed here.",
            f"Allowed: {', '.join(call.allowed)}." + _HINTS.get(call.kind, ""),
        )
    complete = _parts_of(call, kind, decision)
    digest = complete.get("digest")
    if digest not in (None, call.call_digest, call.digest):
        raise DecisionNotAllowed(
            call.name,
            f"the decision names the digest {digest!r}, and the call has changed since: its digest "
            f"is {call.call_digest!r}.",
            "Look at the call again, and decide about what it is now.",
        )
    # The middleware compares the digest with the call about to run, which a layer may have changed.
    if call.kind == "review" and call.call_digest:
        complete["digest"] = call.call_digest
    if "remember" in complete:
        problem = "later calls may not be approved with this decision."
        if call.remember is not None:
            problem = remember_error(complete["remember"], call.args, call.remember) or ""
        if problem:
            hint = f'It takes Rule({call.name!r}, "ask", remember=3600) and a `store` of the agent.'
            raise DecisionNotAllowed(call.name, problem, hint)
    if kind == "edit":
        complete["edited_action"] = edit = _edit_of(call, complete["edited_action"], tools, rules)
        return Judgement(complete, edit)
    if kind in ("reject", "respond"):
        _check_message(call, kind, complete)
    runs = kind == "approve" and call.kind in ("review", "pause")
    return Judgement(complete, Action(name=call.name, args=dict(call.args)) if runs else None)


def judge_answer(calls: Sequence[PendingCall], answer: object, judge: Judge) -> list[Judgement]:
    """Judge the answer to an interrupt that asks about calls.

    The answer is `{"decisions": [...]}`, with a decision about each call in the order of the
    interrupt; any other form raises InvalidAnswer. The answer about a single call may be the
    decision, and the answer to a question of a tool or a hook is the value.
    """
    if calls[0].kind in VALUE_KINDS:
        return [judge(call, {"type": "respond", "message": answer}) for call in calls]
    keys = answer.keys() if isinstance(answer, Mapping) else set[str]()
    if not calls[0].batched and keys != {"decisions"}:
        # The answer is the decision about the single call.
        return [judge(calls[0], answer)]
    decisions: Any = answer.get("decisions") if isinstance(answer, Mapping) else None
    several = isinstance(decisions, list | tuple)
    if keys == {"decisions"} and several and len(decisions) == len(calls):
        return list(map(judge, calls, decisions))
    names = ", ".join(call.name for call in calls)
    if "decisions" not in keys:
        expected = f'expected {{"decisions": [...]}}, with a decision about each of {names}'
        reason = f"{expected}, got {describe(answer)}."
    elif others := sorted(map(repr, keys - {"decisions"})):
        reason = f"{', '.join(others)} is not a part of the answer to a review."
    else:
        got = len(decisions) if several else describe(decisions)
        expected = f"expected {len(calls)} decisions, one about each of {names} in this order"
        reason = f"{expected}, got {got}."
    example = _json({"decisions": [{"type": call.allowed[0]} for call in calls]})
    raise InvalidAnswer("resume", reason, f"Pass {example}.")


def is_about(call: PendingCall, decision: object) -> bool:
    """Return False if a decision names another call."""
    digest = decision.get("digest") if isinstance(decision, Mapping) else None
    return digest in (None, call.call_digest, call.digest)


# Reading a decision


def _parts_of(call: PendingCall, kind: str, decision: Mapping[str, object]) -> dict[str, object]:
    """The parts of a decision. Empty parts of other types of decision are absent."""
    own_part = PARTS[kind]
    parts: dict[str, object] = {"type": kind}
    for name, value in decision.items():
        if name in (own_part, "digest") and (value is not None or kind == "respond"):
            # A null of a JSON client is absent, except as an answer: null may answer a question.
            parts[name] = value
        elif name in PARTS.values() and name != own_part and value not in (None, "", {}):
            takers = " or ".join(repr(taker) for taker, part in PARTS.items() if part == name)
            raise InvalidDecision(
                call.name,
                f"{kind!r} takes no {name!r}.",
                f"Decide with {takers}, or leave {name!r} out.",
            )
        elif name not in ("type", "digest", *PARTS.values()):
            close = get_close_matches(str(name), {str(part) for part in PARTS.values()}, 1)
            suggestion = close[0] if close else _INTENDED.get(name)
            kinds = [repr(taker) for taker, part in PARTS.items() if part == suggestion]
            hint = f"Its parts are 'type', {own_part!r} and 'digest'."
            if suggestion == own_part:
                hint = f"Did you mean {own_part!r}?"
            elif suggestion:
                verb = "takes" if len(kinds) == 1 else "take"
                hint += f" {' and '.join(kinds)} {verb} {suggestion!r}."
            raise InvalidDecision(call.name, f"{name!r} is not a part of {kind!r}.", hint)
    if kind in ("edit", "respond") and own_part not in parts:
        example = {"type": kind, own_part: _example(call) if kind == "edit" else "The result."}
        reason = f"{kind!r} needs {own_part!r}, and it is missing."
        raise InvalidDecision(call.name, reason, f"Pass {_json(example)}.")
    if not isinstance(parts.get("digest", ""), str):
        reason = f"'digest' must be a string, got {describe(parts['digest'])}."
        raise InvalidDecision(call.name, reason, "Leave it out, or pass the digest of the call.")
    return parts


# The contents of a decision


def _check_message(call: PendingCall, kind: str, decision: dict[str, object]) -> None:
    message = decision.get("message")
    if kind == "respond" and call.kind == "question":
        return  # the tool or the hook may take any value
    if kind == "respond" and call.kind == "client":
        read_result(call.name, message)
        return
    if not isinstance(message, str | None if kind == "reject" else str):
        what = "the reason" if kind == "reject" else "the result of a call"
        raise InvalidDecision(
            call.name,
            f"{what} must be a string, got {describe(message)}.",
            f"Pass {_json({'type': kind, 'message': 'The text that the model reads.'})}.",
        )
    if kind == "reject" and not (message or "").strip():
        # Without a reason the model reads a default text: see `REJECTED`.
        decision.pop("message", None)


def _edit_of(call: PendingCall, action: Any, tools: Mapping[str, BaseTool], rules: Rules) -> Action:
    """The call of an edit; without a name, the tool stays."""
    is_action = isinstance(action, Mapping) and action.keys() <= {"name", "args"}
    args: Any = action.get("args") if is_action else None
    name: Any = action.get("name", call.name) if is_action else None
    has_names = isinstance(args, Mapping) and all(isinstance(key, str) for key in args)
    if not has_names or not isinstance(name, str) or not name:
        raise InvalidDecision(
            call.name,
            "'edited_action' must have the name of a tool and a dict with all of its arguments, "
            f"got {describe(action)}.",
            f"Pass {_json({'type': 'edit', 'edited_action': _example(call)})}.",
        )
    tool = tools.get(name)
    # A tool which the agent lacks may belong to an agent inside, or to a layer.
    if tool is None and name != call.name and call.name in tools:
        hint = did_you_mean(name, tools, f"Tools: {', '.join(sorted(tools))}.", repr)
        raise InvalidDecision(call.name, f"there is no tool {name!r} to run instead.", hint)
    if tool is not None and (problems := argument_errors(tool, args)):
        example = f" This call has {_json(dict(call.args))}." if name == call.name else ""
        raise InvalidDecision(
            call.name,
            f"the edited arguments do not fit {name}: {'; '.join(problems)}.",
            f"An edit replaces all arguments; pass each of them.{example}",
        )
    new_call = ToolCall(type="tool_call", name=name, args=args, id=call.id)
    for rule in rules(new_call):
        if rule.action == "deny":
            because = f": {rule.reason.removesuffix('.')}" if rule.reason else ""
            raise DecisionNotAllowed(
                call.name,
                f"the policy does not allow the edited call of {name}{because}.",
                "Edit it in another way, or reject it.",
            )
    return Action(name=name, args=dict(args))


def argument_errors(tool: BaseTool, args: Mapping[str, object]) -> list[str]:
    """Return the problems of the arguments of a tool call, one line each.

    >>> from langchain_core.tools import tool
    >>> @tool
    ... def refund(order_id: str, euros: int) -> str:
    ...     "Refund an order."
    ...     return "done"
    >>> argument_errors(refund, {"euro": 3, "order_id": "A1"})
    ["'euro' is not an argument (did you mean 'euros'?)", "'euros' is missing"]
    """
    # A tool of an MCP server has a JSON schema here, any other tool a class.
    schema: Any = tool.tool_call_schema
    if isinstance(schema, dict):
        properties = schema.get("properties") or {}
        # JSON Schema allows unlisted names, and a misspelt name would pass. So a list of properties
        # counts as complete, unless the schema says otherwise.
        takes_others = schema.get("additionalProperties", not properties) is not False
        problems = [] if takes_others else _unknown_arguments(args, [*properties])
        # An unknown name explains further problems, such as a missing argument.
        return problems or JsonSchema(schema).errors(dict(args))
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return []  # a model of pydantic 1, which the tool checks
    # A tool is called with the aliases of its fields.
    names = [field.alias or name for name, field in schema.model_fields.items()]
    extra = schema.model_config.get("extra")
    problems = [] if extra == "allow" else _unknown_arguments(args, names)
    # The schema of a call leaves injected arguments out, and validators with them.
    full: Any = tool.args_schema
    if isinstance(full, type) and issubclass(full, BaseModel):
        schema = full if full.model_fields.keys() == schema.model_fields.keys() else schema
    try:
        schema.model_validate(dict(args))
    except ValidationError as error:
        for mistake in error.errors(include_url=False, include_context=False):
            place = ".".join(map(str, mistake["loc"])) or "the arguments"
            if mistake["type"] == "missing":
                problems.append(f"{place!r} is missing")
            else:
                problems.append(f"{place!r}: {mistake['msg']}, got {describe(mistake['input'])}")
    return problems


def _unknown_arguments(args: Mapping[str, object], names: Sequence[str]) -> list[str]:
    problems = []
    for name in args:
        if name not in names:
            close = get_close_matches(name, names, 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            problems.append(f"{name!r} is not an argument{hint}")
    return problems


def _example(call: PendingCall) -> Action:
    return Action(name=call.name, args=dict(call.args))


def _json(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)
