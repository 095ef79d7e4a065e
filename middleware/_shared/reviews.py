"""Requests for decisions about tool calls, and the decisions, as plain dicts for JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, get_args

from pydantic import AfterValidator, BeforeValidator, Field
from typing_extensions import TypedDict

from .interrupts import BuiltOnce

DecisionType = Literal["approve", "edit", "reject", "respond"]
"""A type of decision about a call."""

DECISIONS: tuple[DecisionType, ...] = get_args(DecisionType)


class Action(TypedDict):
    """A tool call: the name of the tool and its arguments."""

    name: str
    args: dict[str, Any]


class ActionRequest(Action):
    """A call that waits for a decision.

    Attributes:
        description: What the reviewer should know.
        tool_call_id: The id of the call.
    """

    description: str
    tool_call_id: str | None


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


_RESPONSE, _DECISION = BuiltOnce(HITLResponse), BuiltOnce(Decision)


def answer_schema(request: Any) -> tuple[Any, str]:
    """The type of a valid answer, and its name in errors."""
    batched = "action_requests" in request
    configs = request["review_configs"] if batched else [request["review_config"]]
    key = "decisions" if batched else "type"
    names = ", ".join(config["action_name"] for config in configs)

    def check_shape(answer: Any) -> Any:
        if isinstance(answer, Mapping) and key in answer:
            return answer
        examples = [{"type": config["allowed_decisions"][0]} for config in configs]
        if batched:
            expected = f'{{"decisions": [...]}}, with a decision for each of {names}'
            example = json.dumps({"decisions": examples})
        else:
            expected = f'a decision, such as {{"type": "approve"}}, about {names}'
            example = json.dumps(examples[0])
        raise ValueError(
            f"the answer must be {expected}, got {type(answer).__name__} ({answer!r}). "
            f"Write Command(resume={{interrupt.id: {example}}})."
        )

    shape = BeforeValidator(check_shape)
    if batched:
        check = AfterValidator(partial(check_response, configs))
        return Annotated[Any, _RESPONSE, check, shape], "HITLResponse"
    check = AfterValidator(partial(_check_allowed, configs[0]))
    return Annotated[Any, _DECISION, check, shape], "Decision"


def check_response(configs: Sequence[ReviewConfig], response: HITLResponse) -> HITLResponse:
    """The response, if it has an allowed decision for each action."""
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


def _check_allowed(config: ReviewConfig, decision: Decision) -> Decision:
    if decision["type"] not in config["allowed_decisions"]:
        raise ValueError(
            f"{decision['type']!r} is not allowed for {config['action_name']}; allowed: "
            f"{', '.join(config['allowed_decisions'])}."
        )
    return decision
