"""Let people decide about tool calls before they run: approve, edit, reject or respond."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, Required, cast, get_args

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.runnables.config import ensure_config
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Flow,
    Invoke,
    Ordering,
    ToolCallRequest,
    ToolGuard,
    get_tools,
    set_reason,
)
from agent_factory.errors import BuildWarning, EndlessLoop, SpecError
from agent_factory.review.approval import Approval, AskJudge, AskPerson, Deny, Evidence, LookUp, Run
from agent_factory.review.decision import Judgement
from agent_factory.review.errors import InvalidAnswer
from agent_factory.review.policy import (
    ALLOWED,
    OPTIONS,
    UNCOVERED,
    DecisionType,
    Rule,
    ToolPolicy,
    When,
    decides_as_written,
    seen_labels,
)
from agent_factory.review.questions import Question
from agent_factory.review.records import (
    EDITED,
    answers_of,
    approved_digest,
    digest,
    is_same_call,
    last_records,
    last_turn,
    original_of,
    with_edit,
    with_review,
    with_valid_calls,
    write_notice,
)
from agent_factory.review.requests import (
    Action,
    ActionRequest,
    ApproveDecision,
    Decision,
    EditDecision,
    HITLRequest,
    HITLResponse,
    RejectDecision,
    Remember,
    RespondDecision,
    ReviewConfig,
    ToolApprovalRequest,
)
from agent_factory.review.seen import labels_seen, seen_text
from agent_factory.review.standing_approvals import ApprovalStore, approval_store

from ._shared.changed_calls import CallChanged, Guard, approval_of
from ._shared.declarations import policy_findings, policy_guards
from ._shared.invocable import Called, flow_hook, once_per_task
from ._shared.judge import RiskJudge
from ._shared.messages import error_result
from ._shared.validation import check_choice, check_value, copied

__all__ = [
    "DEFAULT_EDIT_NOTICE",
    "Action",
    "ActionRequest",
    "ApproveDecision",
    "CallChanged",
    "Decision",
    "DecisionType",
    "EditDecision",
    "HITLRequest",
    "HITLResponse",
    "HumanInTheLoopMiddleware",
    "InterruptOnConfig",
    "RejectDecision",
    "Remember",
    "RespondDecision",
    "ReviewConfig",
    "Rule",
    "ToolApprovalRequest",
    "ToolPolicy",
]

DEFAULT_EDIT_NOTICE: Final = (
    "[A reviewer changed this call before it ran. You asked for {original_name} with "
    "{original_args}; {name} was called with {args} instead, and this is the result of that call. "
    "Go on from it, and do not repeat the original call.]"
)

_DENIAL: Final = (
    "Error: the policy of this agent does not allow this call of {name}, so it did not run. "
    "{reason}Do not make it again; find another way, or ask the user."
)


MOST_CHANGES: Final = 10
"""Number of decisions about a call because of changes by layers."""

MOST_QUESTIONS: Final = 100
"""Number of answers about earlier forms of calls to skip in a step."""


class InterruptOnConfig(TypedDict, total=False):
    """Review of the calls of one tool.

    Attributes:
        allowed_decisions: The allowed decisions, at least one.
        description: Text for the reviewer: a string, or a function of the call, the state and the
            runtime. Default: the tool and the arguments.
        args_schema: A JSON schema of the arguments, passed to the reviewer for a form.
        when: The calls with a review: a condition on the arguments, as in `Rule`, or a function of
            the ToolCallRequest. A resumed run calls the function again, so the result must depend
            only on the call and the state.
    """

    allowed_decisions: Required[list[DecisionType]]
    description: str | Callable[[ToolCall, AgentState[Any], Any], str]
    args_schema: dict[str, Any]
    when: When


class HumanInTheLoopMiddleware(AgentMiddleware[AgentState, Any]):
    """Interrupt the run when the model calls certain tools, until people have decided.

    The agent needs a checkpointer. Approved calls run. An edited call runs as edited; the thread
    then holds the edited call, and the result reports the edit to the model. The result of a
    rejected call is an error, and the result of a call with a response is the text of the reviewer;
    neither call runs. Calls with an answer of another middleware are not reviewed.

    An approval holds for the same tool, with the same description and parameters, called with the
    same arguments. If a layer or a new version of the agent has changed the call since, people are
    asked about the changed call.

    A decision holds for the call to run. After an edit into a call of another tool, or of another
    rule, people are asked again if this call needs a decision. An edit is refused if the arguments
    do not fit the tool, or if the policy denies the new call.

    A refused answer (a missing decision, an unknown part, a decision that is not allowed) raises a
    `ReviewError`, also a ValueError, and another answer to the interrupt may follow.

    In both modes no call of a reviewed tool runs without a decision: people are asked separately
    about a call that bypasses the hook by a jump to the tools. A subclass with its own
    `after_model` chooses, in batched mode, the calls to review. Put the middleware first among the
    layers around tools: a layer further out, such as a retry, would ask again at each attempt.

    Args:
        interrupt_on: A `ToolPolicy`; or, for each tool, True for a review with all four decisions
            allowed, False for no review, or an `InterruptOnConfig`. In the second form, tools
            without a key are not reviewed.
        description_prefix: First line of the description of a call without a `description`.
        edit_notice: Text for the model after the result of an edited call; None for no text.
            `{original_name}`, `{original_args}`, `{name}` and `{args}` are filled in.
        interrupt_mode: "batched": a single interrupt for all calls of a turn, a `HITLRequest`,
            resumed with a `HITLResponse`, before any of the calls runs. "per_call": an interrupt
            for each call, a `ToolApprovalRequest`, resumed with a `Decision` by interrupt id, in
            any order, in parallel with running calls; the model's message then keeps the original
            call. In both modes, calls under a rule with "judge" have separate interrupts.
        name: Distinguishes several instances.

    Attributes:
        policy: The rules about reviews.

    Raises:
        ValueError: The configuration cannot work; the message names the tool and the key.

    >>> middleware = HumanInTheLoopMiddleware(
    ...     {"send_email": {"allowed_decisions": ["approve", "reject"]}, "search": False}
    ... )
    >>> [(rule.tool, rule.action) for rule in middleware.policy.rules]
    [('send_email', 'ask'), ('*', 'allow')]
    """

    ordering = Ordering(before=("ToolRetryMiddleware",), reads=("tool_calls",))
    needs_checkpointer = True
    unused: Collection[str] = ()
    _guards: tuple[ToolPolicy, Sequence[ToolGuard]] | None = None

    def __init__(
        self,
        interrupt_on: ToolPolicy | Mapping[str, bool | InterruptOnConfig],
        *,
        description_prefix: str = "Tool execution requires approval",
        edit_notice: str | None = DEFAULT_EDIT_NOTICE,
        interrupt_mode: Literal["batched", "per_call"] = "batched",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if isinstance(interrupt_on, ToolPolicy):
            self.policy = interrupt_on
        elif isinstance(interrupt_on, Mapping):
            configs = {tool: copied(c) for tool, c in interrupt_on.items() if c is not False}
            asks = {tool: rule_of(tool, config) for tool, config in configs.items()}
            self.policy = ToolPolicy(*asks.values(), Rule("*", "allow"))
            interrupt_on = {
                tool: {
                    **(cast("InterruptOnConfig", {}) if config is True else config),
                    "allowed_decisions": [*asks[tool].allowed_decisions],
                }
                for tool, config in configs.items()
            }
        else:
            raise ValueError(
                f"interrupt_on must be a dict with names of tools as keys, got {interrupt_on!r}. "
                "Pass {'send_email': True}, or a ToolPolicy."
            )
        if not isinstance(description_prefix, str):
            raise ValueError(f"description_prefix must be a string, got {description_prefix!r}.")
        is_text = isinstance(edit_notice, str | None)
        hint = "Pass None to report no edits to the model."
        check_value("edit_notice", edit_notice, is_text, "a string or None", hint)
        check_choice("interrupt_mode", interrupt_mode, ("batched", "per_call"))
        self.interrupt_on = interrupt_on
        rules = self.policy.rules
        self.expected_tools = tuple(dict.fromkeys(rule.tool for rule in rules))
        self.description_prefix, self.edit_notice = description_prefix, edit_notice
        self.interrupt_mode = interrupt_mode
        ordering, judge = self.ordering, self.policy.judge
        self._judge = judge if isinstance(judge, RiskJudge | None) else RiskJudge(judge)
        if judge is not None:
            message_kinds = ("user_messages", "answers", "tool_calls", "tool_results")
            ordering = replace(ordering, sends_to_model=message_kinds)
        # People are asked about a call without a rule, too.
        asking = rules if "*" in self.policy.covered else (*rules, UNCOVERED)
        if any(rule.asks and "edit" in rule.allowed_decisions for rule in asking):
            ordering = replace(ordering, writes=(*ordering.writes, "tool_calls"))
        if any(seen_labels(rule.when) for rule in rules):
            ordering = replace(ordering, requires=(*ordering.requires, "FlowGuardMiddleware"))
        # A subclass with its own hook chooses the calls there, so `around_tool` does not ask.
        hooks, base = {type(self).after_model, type(self).aafter_model}, HumanInTheLoopMiddleware
        overrides = hooks != {base.after_model, base.aafter_model}
        self._chooses_calls = interrupt_mode == "batched" and overrides
        if interrupt_mode == "per_call":
            # A limit further in would refuse calls after people have decided about them.
            ordering = replace(ordering, after=(*ordering.after, "ToolCallLimitMiddleware"))
            self.unused = ("after_model",)
        self.ordering = ordering

    @property
    def guard_settings(self) -> Sequence[str]:  # type: ignore[override]
        """The judge of the policy, if any; the rules are guards."""
        return () if self.policy.judge is None else ("policy.judge",)

    @property
    def guards(self) -> Sequence[ToolGuard]:  # type: ignore[override]
        """The rules of the policy in the form of the plan: "allow" restricts later rules."""
        # A build reads the guards several times, and a policy may have many rules.
        if self._guards is None or self._guards[0] is not self.policy:
            place: Literal["after_model", "around_tool"] = (
                "after_model" if self._chooses_calls else "around_tool"
            )
            self._guards = self.policy, policy_guards(self.policy, place)
        return self._guards[1]

    def build_findings(self, tools: Sequence[Any]) -> Iterator[SpecError]:
        """Rules without effect, tools without a rule, and a policy which lets all calls run."""
        # The author did not write the last rule of another form.
        count = len(self.policy.rules) - (self.interrupt_on is not self.policy)
        yield from policy_findings(self.name, self.policy, tools, count)
        # A subclass of the middleware or of the policy may decide by code.
        cls, base = type(self), HumanInTheLoopMiddleware
        methods = ("after_model", "aafter_model", "around_tool")
        is_own = any(getattr(cls, name) is not getattr(base, name) for name in methods)
        if not (self.guards or is_own) and decides_as_written(self.policy):
            reason = "does nothing: no rule asks about a call, denies it or has it judged."
            hint = 'Name a tool, such as {"refund": True}, or remove it from the stack.'
            yield BuildWarning(self.name, reason, hint, code="AF212")

    @flow_hook
    def after_model(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """In batched mode: ask about all calls of the turn at once, and apply the decisions."""
        message, tail = last_turn(state["messages"])
        if self.interrupt_mode != "batched" or message is None:
            return None
        allows = self.policy.allows
        reviewed = {call["name"] for call in message.tool_calls if not allows(call["name"])}
        if not reviewed:
            return None
        # A direct call of the hook may come without a runtime.
        tools, runtime = get_tools(), runtime or Runtime()
        # A hook may have written calls with the same id: each needs a separate decision.
        message, store = with_valid_calls(message), approval_store(runtime.store)
        approvals = []
        results_by_id = answers_of(tail)
        for call in message.tool_calls:
            if call["id"] in results_by_id or call["name"] not in reviewed:
                continue
            tool_runtime: ToolRuntime[Any, Any] = ToolRuntime(
                state=state,
                context=runtime.context,
                config=ensure_config(),
                stream_writer=runtime.stream_writer,
                tool_call_id=call["id"],
                store=runtime.store,
                tools=[*tools.values()],
            )
            # The request in the form for a tool layer.
            approval = Approval(self.name, self.policy.rule_for, remembers=store is not None)
            approval.begin(ToolCallRequest(call, tools.get(call["name"]), state, tool_runtime))
            if approval.rule.action == "ask":
                approvals.append(approval)
        approvals = yield from _uncovered(approvals, store)
        if not approvals:
            return None
        calls = [approval.request.tool_call for approval in approvals]
        question, judgements = self._question(approvals, is_batch=True), None
        while judgements is None:
            judgements = question.judgements_of(interrupt(question))
        digests: dict[str | None, str] = {}
        edits: dict[str | None, ToolCall] = {}
        results = []
        for call, approval, judgement in zip(calls, approvals, judgements, strict=True):
            approval.take(judgement)
            step = approval.step
            if approval.request.tool_call is not call:
                edits[call["id"]] = approval.request.tool_call
            if isinstance(step, Deny) and step.result is not None:
                results.append(step.result)
            elif not isinstance(step, Run):
                continue  # nobody was asked about this edited call: `around_tool` asks
            elif step.remember is not None and store is not None:
                yield Invoke(Called(store.add), (step.remember,))
            digests[call["id"]] = approval.digest_of(approval.request)
        return {"messages": [with_review(message, self.name, digests, edits), *results]}

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Ask about a call without a decision; report an edit to the model."""
        call, records = request.tool_call, last_records(request.state["messages"])
        original = original_of(call, records) if EDITED in records else None
        store = approval_store(request.runtime.store)
        rule_for = self._chosen if self._chooses_calls else self.policy.rule_for
        new = partial(Approval, self.name, rule_for, remembers=store is not None)
        with approval_of(request, self.name, new) as approval:
            # In per_call mode each decision is made here, so no decision is on record.
            is_batched = self.interrupt_mode == "batched"
            if is_batched and (approved := approved_digest(call, records, self.name)):
                approval.approved.add(approved)
            first = changed = request
            for _ in range(MOST_CHANGES):
                # Most tools need no decisions about their calls, unless a layer further in makes a
                # call of another tool, which the guard notices.
                if not (is_free := self.policy.allows(changed.tool_call["name"])):
                    approval.begin(changed, is_changed=changed is not first)
                    while not isinstance(step := approval.step, Run | Deny):
                        yield from self._perform(approval, step, store)
                    if isinstance(step, Deny):
                        return step.result or _denied(step)
                    if step.remember is not None and store is not None:
                        yield Invoke(Called(store.add), (step.remember,))
                    runs = step.request.tool_call
                    if runs is not changed.tool_call and not is_same_call(runs, changed.tool_call):
                        request, original = step.request, original or call
                try:
                    with Guard(request, self.name, changed if is_free else None, approval):
                        result: ToolMessage | Command[Any] = yield request
                    break
                except CallChanged as change:
                    if change.reviewer != self.name:
                        raise  # for a reviewer further out, without a decision about the call
                    changed = change.request
            else:
                raise EndlessLoop(
                    call["name"],
                    f"layers changed this call {MOST_CHANGES} times after {self.name} had decided "
                    "about it, so it did not run.",
                    "Change a call in the same way each time, or put the layer outside of the "
                    "review.",
                )
        if original is not None:
            notice = write_notice(self.edit_notice or "", original, request.tool_call)
            result = with_edit(result, call, request.tool_call, notice)
        return result

    def _chosen(self, request: ToolCallRequest) -> Rule:
        """The rule about a call, where a subclass with its own hook chooses the reviewed calls."""
        rule = self.policy.rule_for(request)
        return rule if rule.action == "deny" else ALLOWED

    def _perform(
        self, approval: Approval, step: AskPerson | AskJudge | LookUp, store: ApprovalStore | None
    ) -> Flow[None]:
        """Carry out a step of the decision about a call, and take the answer."""
        if isinstance(step, AskPerson):
            # The task may have further interrupts: of the tool, or of the same question by an older
            # version of the agent. LangGraph assigns answers to the interrupts of a task by order.
            is_first = step.rule.action == "ask" and not step.objection and not approval.approved
            question = self._question([approval])
            judgements = question.judgements_of(interrupt(question)) if is_first else None
            if judgements is None:
                judgements = yield from _asked_apart(question)
            approval.take(judgements[0])
        elif isinstance(step, LookUp) and step.approval_id is not None:
            assert store is not None  # without a store, nothing is looked up
            # A resumed or repeated step may have the answer from before a revocation.
            still = yield Invoke(Called(store.find), (*step.subject, step.approval_id))
            if still is not None:
                yield Invoke(Called(store.use), (still, step.subject[0], step.subject[2]))
                set_reason(f"standing approval {still.id} by {still.by or 'a person'}")
            approval.take(still)
        else:
            subject, rule = approval.subject, approval.rule

            def consult() -> Flow[Evidence]:
                while (evidence := approval.evidence) is None:
                    if isinstance(approval.step, LookUp) and store is not None:
                        approval.take((yield Invoke(Called(store.find), subject)))
                    else:
                        judge = cast("RiskJudge", self._judge)  # a policy that judges has one
                        approval.take((yield from judge.objection_to(approval.request)))
                return evidence

            evidence = yield from once_per_task([digest(*subject)], consult)
            if "approval" not in evidence:
                set_reason(f"rule {rule.tool!r}: {evidence['objection'] or rule.action}")
            approval.recall(evidence)

    def _question(self, approvals: Sequence[Approval], *, is_batch: bool = False) -> Question:
        """The question about calls, with the judges of its answer."""
        calls, judges, schemas = [], [], []
        for approval in approvals:
            step = cast("AskPerson", approval.step)
            text = self._description_of(step)
            calls.append(replace(step.call, question=text, batched=is_batch))
            judges.append(approval.judge)
            schemas.append(step.rule.args_schema)
        return Question(calls, judges, schemas, None if is_batch else approvals[0].request.tool)

    def _description_of(self, step: AskPerson) -> str:
        """The description of a call for the reviewer, with the reasons to ask about the call."""
        request, rule, call = step.request, step.rule, step.call
        description = rule.description
        if description is None:
            args = json.dumps(call.args, default=str, ensure_ascii=False)
            description = f"{self.description_prefix}\n\nTool: {call.name}\nArgs: {args}"
        elif not isinstance(description, str):
            description = description(request.tool_call, request.state, request.runtime)
        texts = (description, rule.reason, _seen_by(request, rule), step.objection)
        return "\n".join(filter(None, texts))


def _uncovered(approvals: list[Approval], store: ApprovalStore | None) -> Flow[list[Approval]]:
    """The approvals of calls without a standing approval; `around_tool` decides about the rest."""
    if store is None:
        return approvals
    lookups = {a.request.tool_call["id"]: a for a in approvals if isinstance(a.step, LookUp)}
    if not lookups:
        return approvals

    def look() -> Flow[list[str | None]]:
        ids = []
        for id_, approval in lookups.items():
            if (yield Invoke(Called(store.find), approval.subject)) is not None:
                ids.append(id_)
        return ids

    keys = [digest(*approval.subject) for approval in lookups.values()]
    covered_ids = yield from once_per_task(keys, look)
    for id_ in lookups.keys() - {*covered_ids}:
        lookups[id_].take(None)
    return [a for a in approvals if a.request.tool_call["id"] not in covered_ids]


def _seen_by(request: ToolCallRequest, rule: Rule) -> str:
    """The results with the labels of a rule, for a rule about labels."""
    labels = seen_labels(rule.when)
    return seen_text(labels_seen(request), labels) if labels else ""


def _denied(step: Deny) -> ToolMessage:
    call, labels = step.request.tool_call, _seen_by(step.request, step.rule) if step.rule else ""
    reason = "".join(f"{text.removesuffix('.')}. " for text in (step.reason, labels) if text)
    return error_result(call, _DENIAL.format(name=call["name"], reason=reason))


def _asked_apart(question: Question) -> Flow[list[Judgement]]:
    """Ask about a call in a separate graph, so the interrupts are apart from those of the task."""

    def ask() -> Flow[object]:
        yield from ()
        return interrupt(question)

    call = question.calls[0]
    outside = InvalidAnswer(
        call.name,
        "cannot be asked about outside of an agent.",
        "Test the answers in an agent with a checkpointer.",
    )
    for _ in range(MOST_QUESTIONS):
        # An answer about an earlier form of the call is skipped.
        answer = yield from once_per_task(dict(question), ask, outside, _has_same_digest)
        if (judgements := question.judgements_of(answer)) is not None:
            return judgements
    raise EndlessLoop(
        call.name,
        f"{MOST_QUESTIONS} answers about calls of {call.name} were given in one step, and none was "
        "about this call.",
        "Reject the call, and let the model make another one.",
    )


def _has_same_digest(request: object, other: object) -> bool:
    requests = [part for part in (request, other) if isinstance(part, Mapping)]
    return len(requests) == 2 and requests[0].get("digest") == requests[1].get("digest")


interrupt = Question.ask
"""Interrupts the run with a question, and returns the answer. Tests may patch this function."""


def rule_of(tool: object, config: Any) -> Rule:
    """The rule for an entry of `interrupt_on`."""
    if not isinstance(tool, str):
        raise ValueError(f"interrupt_on must be a dict with names of tools as keys, got {tool!r}.")
    if config is True:
        return Rule(tool, "ask")
    expected = "True, False or an InterruptOnConfig"
    check_value(f"interrupt_on[{tool!r}]", config, isinstance(config, Mapping), expected)
    keys = InterruptOnConfig.__annotations__
    if unknown_keys := config.keys() - keys:
        raise ValueError(
            f"interrupt_on[{tool!r}] has unknown keys {', '.join(map(repr, unknown_keys))}. Use "
            f"{', '.join(keys)}."
        )
    for key, value in config.items():
        is_valid, expected = OPTIONS[key]
        if value is None or not is_valid(value):
            raise ValueError(f"interrupt_on[{tool!r}][{key!r}] must be {expected}, got {value!r}.")
    if "allowed_decisions" not in config:
        every = json.dumps(get_args(DecisionType))
        raise ValueError(
            f"interrupt_on[{tool!r}] must have 'allowed_decisions', got {config!r}. Pass "
            f"'allowed_decisions': {every}, or those of them that may be made."
        )
    return Rule(tool, "ask", **config)
