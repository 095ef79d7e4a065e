"""Requests to reviewers and their decisions.

The types are plain dicts that can be sent as JSON. An answer is validated against them, and
against what was asked, before LangGraph stores it. An invalid answer raises
`pydantic.ValidationError` (a ValueError), and the interrupt can be answered again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import iscoroutinefunction
from typing import Annotated, Any, Literal, NotRequired, cast, get_args

from langchain_core.messages.tool import ToolCall
from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from agent_factory import AgentState, ToolCallRequest
from agent_factory.middleware._shared.interrupts import ask

DecisionType = Literal["approve", "edit", "reject", "respond"]
"""A type of decision about a call."""

DECISIONS: tuple[DecisionType, ...] = get_args(DecisionType)


class Action(TypedDict):
    """A tool call: the name of the tool and its arguments."""

    name: str
    args: dict[str, Any]


class ActionRequest(TypedDict):
    """A call that waits for a decision.

    Attributes:
        name: The tool.
        args: Its arguments.
        description: What the reviewer should know.
    """

    name: str
    args: dict[str, Any]
    description: str


class ReviewConfig(TypedDict):
    """The decisions that may be made about an action.

    Attributes:
        action_name: The tool.
        allowed_decisions: The types of decision.
        args_schema: A JSON schema of the arguments, for a form to edit them in.
    """

    action_name: str
    allowed_decisions: list[DecisionType]
    args_schema: NotRequired[dict[str, Any]]


class HITLRequest(TypedDict):
    """The pending calls of one turn, and in the same order the decisions that may be made."""

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]


class ToolApprovalRequest(TypedDict):
    """One pending call, and the decisions that may be made about it.

    Attributes:
        tool_call_id: The id the model gave the call.
        action_request: The call.
        review_config: The decisions that may be made.
    """

    tool_call_id: str | None
    action_request: ActionRequest
    review_config: ReviewConfig


class ApproveDecision(TypedDict):
    """Run the call as it is."""

    type: Literal["approve"]


class EditDecision(TypedDict):
    """Run another call instead, and report that to the model.

    Attributes:
        edited_action: The call that runs.
    """

    type: Literal["edit"]
    edited_action: Action


class RejectDecision(TypedDict):
    """Do not run the call.

    Attributes:
        message: What the model reads; default: a text that says that a reviewer rejected the call.
    """

    type: Literal["reject"]
    message: NotRequired[str | None]


class RespondDecision(TypedDict):
    """Answer instead of the tool.

    Attributes:
        message: The result of the call.
    """

    type: Literal["respond"]
    message: str


Decision = Annotated[
    ApproveDecision | EditDecision | RejectDecision | RespondDecision, Field(discriminator="type")
]
"""One decision of a reviewer."""


class HITLResponse(TypedDict):
    """The answer to a HITLRequest: a decision for each of its actions, in the same order."""

    decisions: list[Decision]


class InterruptOnConfig(TypedDict, total=False):
    """How the calls of one tool are reviewed.

    Attributes:
        allowed_decisions: The decisions that may be made; default: all four.
        description: What the reviewer should know: a string, or a function of the call, the state
            and the runtime. Default: the tool and its arguments.
        args_schema: A JSON schema of the arguments, passed to the reviewer for a form.
        when: Whether a call needs a review, a function of the ToolCallRequest. In batched mode no
            tool is looked up yet: `request.tool` is None. It is called again when a run is
            resumed, so it must depend only on the call and the state.
    """

    allowed_decisions: list[DecisionType]
    description: str | Callable[[ToolCall, AgentState[Any], Any], str]
    args_schema: dict[str, Any]
    when: Callable[[ToolCallRequest], bool]


def ask_about_all(request: HITLRequest) -> list[Decision]:
    """Interrupt with one request about several calls, and return the decisions.

    Raises:
        pydantic.ValidationError: The answer is invalid; the interrupt can be answered again.
    """
    configs = request["review_configs"]

    def check(response: HITLResponse) -> HITLResponse:
        decisions = response["decisions"]
        if len(decisions) != len(configs):
            names = ", ".join(config["action_name"] for config in configs)
            raise ValueError(
                f"{len(configs)} decisions are needed, one for each of {names} in this order; "
                f"got {len(decisions)}."
            )
        for config, decision in zip(configs, decisions, strict=True):
            _check_allowed(config, decision)
        return response

    schema = Annotated[HITLResponse, AfterValidator(check)]
    answer = ask(request, schema, title="HITLResponse")
    return cast("list[Decision]", answer["decisions"])


def ask_about_one(request: ToolApprovalRequest) -> Decision:
    """Interrupt with a request about one call, and return the decision.

    Raises:
        pydantic.ValidationError: The answer is invalid; the interrupt can be answered again.
    """
    check = partial(_check_allowed, request["review_config"])
    schema = Annotated[Decision, AfterValidator(check)]
    return cast("Decision", ask(request, schema, title="Decision"))


def _check_allowed(config: ReviewConfig, decision: Decision) -> Decision:
    if decision["type"] not in config["allowed_decisions"]:
        raise ValueError(
            f"{decision['type']!r} is not allowed for {config['action_name']}; allowed: "
            f"{', '.join(config['allowed_decisions'])}."
        )
    return decision


def validated_config(tool: Any, config: Any) -> InterruptOnConfig:
    """The review configuration of a tool, with its defaults.

    Raises:
        ValueError: It cannot work; the message names the tool and the key.
    """
    if not isinstance(tool, str):
        raise ValueError(f"interrupt_on must be a dict with names of tools as keys, got {tool!r}.")
    if config is True:
        config = {}
    if not isinstance(config, Mapping):
        raise ValueError(
            f"interrupt_on[{tool!r}] must be True, False or an InterruptOnConfig, got {config!r}."
        )
    keys = InterruptOnConfig.__annotations__
    if unknown := config.keys() - keys:
        raise ValueError(
            f"interrupt_on[{tool!r}] has unknown keys {', '.join(map(repr, unknown))}. Use "
            f"{', '.join(keys)}."
        )
    for key, value in config.items():
        is_valid, expected = _VALUES[key]
        if not is_valid(value):
            raise ValueError(f"interrupt_on[{tool!r}][{key!r}] must be {expected}, got {value!r}.")
    allowed = list(config.get("allowed_decisions", DECISIONS))
    return cast("InterruptOnConfig", {**config, "allowed_decisions": allowed})


def _is_plain_function(value: Any) -> bool:
    return callable(value) and not iscoroutinefunction(value)


_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "allowed_decisions": (
        lambda value: (
            isinstance(value, list | tuple) and bool(value) and all(v in DECISIONS for v in value)
        ),
        f"a list of some of {', '.join(DECISIONS)}",
    ),
    "description": (
        lambda value: isinstance(value, str) or _is_plain_function(value),
        "a string or a plain function",
    ),
    "args_schema": (lambda value: isinstance(value, Mapping), "a JSON schema, a dict"),
    "when": (_is_plain_function, "a plain function of the ToolCallRequest"),
}
"""For each key of an InterruptOnConfig: whether a value is valid, and what is expected."""
