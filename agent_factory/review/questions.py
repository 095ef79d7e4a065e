"""Interrupt a run with a question, and accept only valid answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal, Union, get_type_hints

from langchain_core.tools import BaseTool
from langchain_core.utils.json_schema import dereference_refs
from langgraph.types import interrupt
from pydantic import (
    BaseModel,
    Field,
    GetPydanticSchema,
    RootModel,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic_core.core_schema import no_info_wrap_validator_function
from typing_extensions import TypedDict

from agent_factory.errors import ReviewError, describe
from agent_factory.review.decision import Judgement, is_about, judge, judge_answer
from agent_factory.review.errors import InvalidAnswer
from agent_factory.review.pending_calls import PendingCall, write_request
from agent_factory.review.requests import (
    ApproveDecision,
    EditDecision,
    HITLResponse,
    RejectDecision,
    RespondDecision,
)
from agent_factory.tools.schemas import arguments_schema
from agent_factory.upstream import mark_invalid_resume


@cache
def _response() -> type[RootModel[Any]]:
    # Making the class takes ten times as long as its use in a question.
    return answer_form("HITLResponse", HITLResponse)


class Question(dict[str, Any]):
    """A request for decisions about calls, as clients see it, and the judges of its answer.

    Args:
        calls: The calls of a batch, or a single call.
        judges: For each call, a function that judges a decision. Default: by the call alone.
        args_schemas: For each call, a JSON schema of its arguments for a form, or None.
        tool: The tool of a single call. The schema of the answer has its arguments, for a form.
    """

    def __init__(
        self,
        calls: Sequence[PendingCall],
        judges: Sequence[Callable[[Any], Judgement]] = (),
        args_schemas: Sequence[Mapping[str, Any] | None] = (),
        tool: BaseTool | None = None,
    ) -> None:
        super().__init__(write_request(calls, args_schemas or [None] * len(calls)))
        self.calls = calls
        judges = judges or [partial(judge, call) for call in calls]
        self._judges = dict(zip((call.id for call in calls), judges, strict=True))
        self._tool = tool
        self._answer: object = None
        self._judgements: list[Judgement] = []

    def ask(self) -> Any:
        """Interrupt with the question, and return the answer with complete decisions.

        A refused answer raises ReviewError, and another answer may follow.
        """
        if self.calls[0].batched:
            return ask(dict(self), _response(), self._check)
        form = answer_form("Decision", decision_form(self.calls[0], self._tool))
        return ask(dict(self), form, self._check)

    def judgements_of(self, answer: object) -> list[Judgement] | None:
        """Judge an answer; None if the answer is about an earlier form of a call."""
        if answer is not self._answer or not self._judgements:
            self._check(answer, None)
        decisions = [judgement.decision for judgement in self._judgements]
        return self._judgements if all(map(is_about, self.calls, decisions)) else None

    def _check(self, answer: object, _: object) -> object:
        self._judgements = judge_answer(self.calls, answer, self._judge)
        decisions = [judgement.decision for judgement in self._judgements]
        self._answer = {"decisions": decisions} if self.calls[0].batched else decisions[0]
        return self._answer

    def _judge(self, call: PendingCall, decision: Any) -> Judgement:
        # The person is asked about the changed call later.
        if not is_about(call, decision):
            return Judgement(decision, None)
        return self._judges[call.id](decision)


def decision_form(call: PendingCall, tool: BaseTool | None) -> Any:
    """Return the type of an allowed decision about a call, with the arguments of the call.

    Only the JSON schema of the type is used: `judge` validates decisions, and also takes an edit
    into a call of another tool.
    """
    forms: dict[str, Any] = {
        "approve": ApproveDecision,
        "reject": RejectDecision,
        "respond": RespondDecision,
    }
    if "edit" in call.allowed:
        # Functional, because the types of the parts are values. mypy takes only literal names.
        make: Any = TypedDict
        name: Any = Literal[call.name]
        action = make("EditedAction", {"name": name, "args": arguments_of(tool)})
        parts = {**get_type_hints(EditDecision, include_extras=True), "edited_action": action}
        forms["edit"] = make("EditDecision", parts)
    allowed_forms = [forms[kind] for kind in call.allowed]
    if len(allowed_forms) == 1:
        return allowed_forms[0]
    return Annotated[Union[tuple(allowed_forms)], Field(discriminator="type")]  # noqa: UP007


def arguments_of(tool: BaseTool | None) -> Any:
    """Return a type with the JSON schema of the arguments of a tool."""
    model: Any = tool and tool.tool_call_schema
    if isinstance(model, type) and issubclass(model, BaseModel):
        return model
    schema = {"type": "object"} if tool is None else arguments_schema(tool)
    # Definitions would have to stand at the top of the outer schema.
    plain = {key: part for key, part in dereference_refs(schema).items() if key != "$defs"}
    return Annotated[dict[str, Any], WithJsonSchema(plain)]


def answer_form(title: str, form: Any) -> type[RootModel[Any]]:
    """Return a form with a title."""
    return create_model(title, __base__=RootModel, root=(form, ...))


def ask(
    question: Mapping[str, object],
    form: type[RootModel[Any]],
    check: Callable[[object, object], object] | None = None,
) -> Any:
    """Interrupt with a question, and return the answer; a refused answer raises ReviewError.

    The JSON schema of the form goes with the question. A check, a "wrap" validator of pydantic,
    returns the complete answer, in place of a validation by the form.
    """
    schema: Any = form
    if check is not None:  # in `Annotated`, it would stay in a cache of typing, with its agent
        schema = GetPydanticSchema(
            lambda _, handler: no_info_wrap_validator_function(check, handler.generate_schema(form))
        )
    # LangGraph stores an answer as soon as `interrupt` returns. Only after a refusal by the
    # `response_schema` may another answer follow, so all validation is part of the schema.
    try:
        answer = interrupt(question, response_schema=schema)
        return answer.root if check is None else answer
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        # An exception of `check` is a ValueError, which pydantic keeps in the context.
        refusal = (mistakes[0].get("ctx") or {}).get("error")
        if not isinstance(refusal, ReviewError):
            place = ".".join(map(str, mistakes[0]["loc"])) or "the answer"
            reason = f"{place}: {refusal or mistakes[0]['msg']}".removesuffix(".")
            reason += f", got {describe(mistakes[0]['input'])}."
            refusal = InvalidAnswer(form.__name__, reason, "Answer again.")
        # LangGraph keeps the question open for an error with this mark of the ValidationError.
        raise mark_invalid_resume(refusal) from None
