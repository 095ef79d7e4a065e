"""What passes between a run and the people who review its tool calls.

The types are plain dicts, so that they travel as JSON; an answer is checked against them, and
against what was asked, before LangGraph takes it. A wrong answer is refused with
`pydantic.ValidationError` (a ValueError) and the question stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction
from typing import Annotated, Any, Literal, NotRequired, cast, get_args

from langchain_core.messages.tool import ToolCall
from langgraph.types import interrupt
from pydantic import AfterValidator, Field, RootModel, create_model
from typing_extensions import TypedDict

from agent_factory import AgentState, ToolCallRequest

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


class InterruptOnConfig(TypedDict, total=False):
    """How the calls of one tool are reviewed.

    Attributes:
        allowed_decisions: What a reviewer may do; default: all four.
        description: What the reviewer should know: a text, or a function of the call, the state
            and the runtime. Default: the tool and its arguments.
        args_schema: A JSON schema of the arguments, handed on for a form to edit them in.
        when: Whether a call needs a review at all, a function of the ToolCallRequest. In batched
            mode no tool is looked up yet: `request.tool` is None. It is asked again when a run is
            resumed, so it must depend on nothing but the call and the state.
    """

    allowed_decisions: list[DecisionType]
    description: str | Callable[[ToolCall, AgentState[Any], Any], str]
    args_schema: dict[str, Any]
    when: Callable[[ToolCallRequest], bool]


def checked(tool: Any, config: Any) -> InterruptOnConfig:
    """A tool's configuration with its defaults.

    Raises:
        ValueError: Something in it cannot work.
    """
    if not isinstance(tool, str):
        raise ValueError(f"interrupt_on: {tool!r} is no tool name.")
    if config is True:
        config = {}
    if not isinstance(config, Mapping):
        raise ValueError(
            f"interrupt_on[{tool!r}] must be True, False or an InterruptOnConfig, not {config!r}."
        )
    if unknown := config.keys() - InterruptOnConfig.__annotations__:
        raise ValueError(
            f"interrupt_on[{tool!r}] has no key {', '.join(map(repr, unknown))}; its keys are "
            f"{', '.join(InterruptOnConfig.__annotations__)}."
        )
    for key, value in config.items():
        fits, wanted = _WANTED[key]
        if not fits(value):
            raise ValueError(f"interrupt_on[{tool!r}][{key!r}] must be {wanted}, not {value!r}.")
    allowed = list(config.get("allowed_decisions", DECISIONS))
    return cast("InterruptOnConfig", {**config, "allowed_decisions": allowed})


def _is_function(value: Any) -> bool:
    return callable(value) and not iscoroutinefunction(value)


def _are_decisions(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(kind, str) and kind in DECISIONS for kind in value)
    )


_WANTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "allowed_decisions": (_are_decisions, f"a list of some of {', '.join(DECISIONS)}"),
    "description": (
        lambda value: isinstance(value, str) or _is_function(value),
        "a text or a plain function",
    ),
    "args_schema": (lambda value: isinstance(value, Mapping), "a JSON schema, a dict"),
    "when": (_is_function, "a plain function of the ToolCallRequest"),
}
