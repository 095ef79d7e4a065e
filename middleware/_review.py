"""What passes between a run and the people who review its tool calls.

The types are plain dicts, so that they travel as JSON; an answer is checked against them, and
against what was asked, before LangGraph takes it. A wrong answer is refused with
`pydantic.ValidationError` (a ValueError) and the question stays open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, cast, get_args

from langgraph.types import interrupt
from pydantic import AfterValidator, Field, RootModel, create_model
from typing_extensions import TypedDict

DecisionType = Literal["approve", "edit", "reject", "respond"]
"""What a reviewer may do with a call."""

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
    """What may be decided about an action.

    Attributes:
        action_name: The tool.
        allowed_decisions: The types of decision.
        args_schema: A JSON schema of the arguments, for a form to edit them in.
    """

    action_name: str
    allowed_decisions: list[DecisionType]
    args_schema: NotRequired[dict[str, Any]]


class HITLRequest(TypedDict):
    """All calls of one turn that wait, each with what may be decided about it, in order."""

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]


class ToolApprovalRequest(TypedDict):
    """One call that waits, with what may be decided about it.

    Attributes:
        tool_call_id: The id the model gave the call.
        action_request: The call.
        review_config: What may be decided.
    """

    tool_call_id: str | None
    action_request: ActionRequest
    review_config: ReviewConfig


class ApproveDecision(TypedDict):
    """Run the call as it is."""

    type: Literal["approve"]


class EditDecision(TypedDict):
    """Run another call in its place; the model is told.

    Attributes:
        edited_action: What runs.
    """

    type: Literal["edit"]
    edited_action: Action


class RejectDecision(TypedDict):
    """Do not run the call.

    Attributes:
        message: What the model is told; without it, that a reviewer refused.
    """

    type: Literal["reject"]
    message: NotRequired[str | None]


class RespondDecision(TypedDict):
    """Answer in the place of the tool.

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
    """The decisions about a HITLRequest: one for each of its actions, in the same order."""

    decisions: list[Decision]


def ask_about_all(request: HITLRequest) -> list[Decision]:
    """Interrupt with one question about several calls; the decisions once it is answered.

    Raises:
        pydantic.ValidationError: The answer is none; the same interrupt can be answered again.
    """
    check = partial(_check_all, request["review_configs"])
    answer = _ask(request, "HITLResponse", Annotated[HITLResponse, AfterValidator(check)])
    return cast("list[Decision]", answer["decisions"])


def ask_about_one(request: ToolApprovalRequest) -> Decision:
    """Interrupt with a question about one call; the decision once it is answered.

    Raises:
        pydantic.ValidationError: The answer is none; the same interrupt can be answered again.
    """
    check = partial(_check_one, request["review_config"])
    answer = _ask(request, "Decision", Annotated[Decision, AfterValidator(check)])
    return cast("Decision", answer)


def _ask(request: Mapping[str, Any], title: str, schema: Any) -> Any:
    # LangGraph keeps an answer as soon as `interrupt` returns it. Only what is refused in there
    # can be answered again. The model gives the refusal its title.
    model: Any = create_model(title, __base__=RootModel[schema])
    return interrupt(request, response_schema=model).root


def _check_all(configs: Sequence[ReviewConfig], response: HITLResponse) -> HITLResponse:
    decisions = response["decisions"]
    if len(decisions) != len(configs):
        names = ", ".join(config["action_name"] for config in configs)
        raise ValueError(
            f"{len(configs)} decisions are needed, one for each of {names} in this order; "
            f"got {len(decisions)}."
        )
    for config, decision in zip(configs, decisions, strict=True):
        _check_one(config, decision)
    return response


def _check_one(config: ReviewConfig, decision: Decision) -> Decision:
    if decision["type"] not in config["allowed_decisions"]:
        raise ValueError(
            f"{decision['type']!r} is not allowed for {config['action_name']}; allowed: "
            f"{', '.join(config['allowed_decisions'])}."
        )
    return decision
