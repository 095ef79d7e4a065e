"""Requests for decisions about tool calls, and the decisions, as plain dicts for JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, BeforeValidator, Field
from typing_extensions import TypedDict

from agent_factory.review.approvals import remember_error
from agent_factory.review.policy import DecisionType

from .interrupts import BuiltOnce


class Action(TypedDict):
    """A tool call: the name of the tool and its arguments."""

    name: str
    args: dict[str, Any]


class ActionRequest(Action):
    """A call that waits for a decision.

    Attributes:
        description: What the reviewer should know.
        tool_call_id: The id of the call.
        digest: Names the tool, its description and its arguments, and the arguments of the call. A
            decision with this digest is not applied to another call.
    """

    description: str
    tool_call_id: str | None
    digest: NotRequired[str]


class ReviewConfig(TypedDict):
    """The decisions that may be made about an action.

    Attributes:
        action_name: The tool.
        allowed_decisions: The types of decision.
        args_schema: A JSON schema of the arguments, for a form to edit them in.
        reviewers: Who may decide, as names or roles.
        remember: The longest time in seconds for which later calls may be approved as well.
    """

    action_name: str
    allowed_decisions: list[DecisionType]
    args_schema: NotRequired[dict[str, Any]]
    reviewers: NotRequired[list[str]]
    remember: NotRequired[float]


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


class Remember(TypedDict):
    """Approve later calls of the tool as well.

    Attributes:
        seconds: For how long.
        when: A condition on their arguments; `{}` holds for any. Default: the same arguments.
        thread: Only in this thread.
        by: Who approves them.
    """

    seconds: float
    when: NotRequired[dict[str, Any]]
    thread: NotRequired[bool]
    by: NotRequired[str]


class ApproveDecision(TypedDict):
    """Run the call as it is.

    Attributes:
        remember: Approve later calls as well.
        digest: The digest of the call that is approved; each decision may have one.
    """

    type: Literal["approve"]
    remember: NotRequired[Remember]
    digest: NotRequired[str]


class EditDecision(TypedDict):
    """Run another call instead, and report that to the model.

    Attributes:
        edited_action: The call that runs.
    """

    type: Literal["edit"]
    edited_action: Action
    digest: NotRequired[str]


class RejectDecision(TypedDict):
    """Do not run the call.

    Attributes:
        message: What the model reads; default: a text that says that a reviewer rejected the call.
    """

    type: Literal["reject"]
    message: NotRequired[str | None]
    digest: NotRequired[str]


class RespondDecision(TypedDict):
    """Answer instead of the tool.

    Attributes:
        message: The result of the call.
    """

    type: Literal["respond"]
    message: str
    digest: NotRequired[str]


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
    actions = request["action_requests"] if batched else [request["action_request"]]
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
        check = AfterValidator(partial(check_response, actions, configs))
        return Annotated[Any, _RESPONSE, check, shape], "HITLResponse"
    check = AfterValidator(partial(_check_allowed, actions[0], configs[0]))
    return Annotated[Any, _DECISION, check, shape], "Decision"


def check_response(
    actions: Sequence[ActionRequest], configs: Sequence[ReviewConfig], response: HITLResponse
) -> HITLResponse:
    """The response, if it has an allowed decision for each action."""
    decisions = response["decisions"]
    if len(decisions) != len(configs):
        names = ", ".join(config["action_name"] for config in configs)
        raise ValueError(
            f"{len(configs)} decisions are needed, one for each of {names} in this order; "
            f"got {len(decisions)}."
        )
    for action, config, decision in zip(actions, configs, decisions, strict=True):
        _check_allowed(action, config, decision)
    return response


def _check_allowed(action: ActionRequest, config: ReviewConfig, decision: Decision) -> Decision:
    name = config["action_name"]
    if decision["type"] not in config["allowed_decisions"]:
        raise ValueError(
            f"{decision['type']!r} is not allowed for {name}; allowed: "
            f"{', '.join(config['allowed_decisions'])}."
        )
    if decision["type"] == "approve" and "remember" in decision:
        if "remember" not in config:
            raise ValueError(
                f"Later calls of {name} may not be approved. Write Rule({name!r}, 'ask', "
                "remember=604800) in the policy."
            )
        problem = remember_error(decision["remember"], action["args"], config["remember"])
        if problem is not None:
            raise ValueError(f"{name}: {problem}")
    return decision
