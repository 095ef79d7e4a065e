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
        reviewers: Who may decide: roles, and people as "@ann".
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


class ToolApprovalRequest(ActionRequest):
    """One pending call, and the decisions that may be made about it.

    The keys are those of langchain's request, and `digest` and `review_config`.

    Attributes:
        type: Marks the request.
        review_config: The decisions that may be made.
    """

    type: Literal["tool_approval"]
    review_config: ReviewConfig


@_NO_OTHER_KEYS
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


@_NO_OTHER_KEYS
class ApproveDecision(TypedDict):
    """Run the call as it is.

    Attributes:
        remember: Approve later calls as well.
        digest: The digest of the call that is approved; each decision may have one.
    """

    type: Literal["approve"]
    remember: NotRequired[Remember]
    digest: NotRequired[str]


@_NO_OTHER_KEYS
class EditDecision(TypedDict):
    """Run another call instead, and report that to the model.

    Attributes:
        edited_action: The call that runs, with all of its arguments. Nothing is merged.
    """

    type: Literal["edit"]
    edited_action: Action
    digest: NotRequired[str]


@_NO_OTHER_KEYS
class RejectDecision(TypedDict):
    """Do not run the call.

    Attributes:
        message: What the model reads; default: a text that says that a reviewer rejected the call.
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
    # A tool that asks may take any value as its answer.
    message: Any
    digest: NotRequired[str]


# With a discriminator, an error is about the decision that was meant, and not about all four.
Decision = Annotated[
    ApproveDecision | EditDecision | RejectDecision | RespondDecision, Field(discriminator="type")
]
"""One decision of a reviewer. It has no other parts than these."""


class HITLResponse(TypedDict):
    """The answer to a HITLRequest: a decision for each of its actions, in the same order."""

    decisions: list[Decision]
