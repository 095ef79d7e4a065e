"""Requests for decisions about tool calls, and the decisions, as plain dicts for JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from agent_factory.review.policy import DecisionType

# pydantic drops unknown keys of a TypedDict, so a misspelt part would have no effect.
_NO_OTHER_KEYS = with_config(ConfigDict(extra="forbid"))


class Action(TypedDict):
    """A tool call: the name of the tool and its arguments."""

    name: str
    args: dict[str, Any]


class ActionRequest(Action):
    """A call before a decision.

    Attributes:
        description: Text for the reviewer.
        tool_call_id: The id of the call.
        digest: Digest of the tool with description and arguments, and of the arguments of the call.
            A decision with this digest is not applied to another call.
    """

    description: str
    tool_call_id: str | None
    digest: NotRequired[str]


class ReviewConfig(TypedDict):
    """The allowed decisions about an action.

    Attributes:
        action_name: The tool.
        allowed_decisions: The types of decision.
        args_schema: A JSON schema of the arguments, for a form to edit the arguments.
        reviewers: People who may decide: roles, and names as "@ann".
        remember: The longest time in seconds of a standing approval for later calls.
    """

    action_name: str
    allowed_decisions: list[DecisionType]
    args_schema: NotRequired[dict[str, Any]]
    reviewers: NotRequired[list[str]]
    remember: NotRequired[float]


class HITLRequest(TypedDict):
    """The pending calls of a turn, and in the same order the allowed decisions."""

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]


class ToolApprovalRequest(ActionRequest):
    """A pending call, and the allowed decisions about the call.

    The keys are the keys of langchain's request, `digest` and `review_config`.

    Attributes:
        type: Marks the request.
        review_config: The allowed decisions.
    """

    type: Literal["tool_approval"]
    review_config: ReviewConfig


@_NO_OTHER_KEYS
class Remember(TypedDict):
    """Approve later calls of the tool as well.

    Attributes:
        seconds: Duration of the approval.
        when: A condition on the arguments of later calls; `{}` holds for any arguments. Default:
            the same arguments.
        thread: Only in this thread.
        by: The person who approves.
    """

    seconds: float
    when: NotRequired[dict[str, Any]]
    thread: NotRequired[bool]
    by: NotRequired[str]


@_NO_OTHER_KEYS
class ApproveDecision(TypedDict):
    """Run the call unchanged.

    Attributes:
        remember: Approve later calls as well.
        digest: The digest of the approved call; each decision may have a digest.
    """

    type: Literal["approve"]
    remember: NotRequired[Remember]
    digest: NotRequired[str]


@_NO_OTHER_KEYS
class EditDecision(TypedDict):
    """Run another call instead, and report the change to the model.

    Attributes:
        edited_action: The call to run, with all arguments. Nothing is merged.
    """

    type: Literal["edit"]
    edited_action: Action
    digest: NotRequired[str]


@_NO_OTHER_KEYS
class RejectDecision(TypedDict):
    """Do not run the call.

    Attributes:
        message: The reason for the model; default: a text about the rejection.
    """

    type: Literal["reject"]
    message: NotRequired[str | None]
    digest: NotRequired[str]


@_NO_OTHER_KEYS
class RespondDecision(TypedDict):
    """Answer instead of the tool.

    Attributes:
        message: The result of the call; for a question of a tool or a hook, any JSON value.
    """

    type: Literal["respond"]
    # A tool may take any value as the answer to its question.
    message: Any
    digest: NotRequired[str]


# With a discriminator, an error is about the intended decision, and not about all four.
Decision = Annotated[
    ApproveDecision | EditDecision | RejectDecision | RespondDecision, Field(discriminator="type")
]
"""A decision of a reviewer, without further parts."""


class HITLResponse(TypedDict):
    """The answer to a HITLRequest: a decision for each action, in the same order."""

    decisions: list[Decision]
