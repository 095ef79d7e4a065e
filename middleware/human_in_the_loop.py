"""Let people decide about tool calls before they run: approve, edit, reject or respond.

Requests and decisions are plain dicts that can be sent as JSON. An answer is validated against what
was asked before LangGraph stores it, so an invalid one can be given again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, Required, cast, get_args

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from langgraph.func import entrypoint
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
    arun,
    get_tools,
    run,
    set_reason,
)
from agent_factory.errors import BuildWarning, EndlessLoop, SpecError
from agent_factory.review.approvals import ApprovalStore, approval_store
from agent_factory.review.decision import Judge, Judgement, is_about, judge, judge_answer
from agent_factory.review.pending_calls import PendingCall, calls_of, read_request
from agent_factory.review.policy import (
    OPTIONS,
    UNCOVERED,
    DecisionType,
    Rule,
    ToolPolicy,
    When,
    decides_as_written,
    seen_labels,
)
from agent_factory.review.questions import ask_about
from agent_factory.review.records import (
    EDITED,
    REVIEWED,
    approved_digest,
    call_digest,
    digest,
    is_same_call,
    last_records,
    original_of,
    split_decisions,
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
from agent_factory.types import setting

from ._shared.changed_calls import CallChanged, Decisions, Guard, decisions_of
from ._shared.declarations import policy_findings, policy_guards
from ._shared.invocable import Called, once_per_task
from ._shared.judge import RiskJudge
from ._shared.messages import error_result, last_turn, unanswered
from ._shared.standing_approvals import covered_calls, remember_approval, subject_of
from ._shared.validation import check_choice, copied

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
"""Times that a call is decided about again because a layer has changed it."""

MOST_QUESTIONS: Final = 100
"""Answers about calls as they were before that are passed over in one step."""


class InterruptOnConfig(TypedDict, total=False):
    """Review of the calls of one tool.

    Attributes:
        allowed_decisions: The decisions that may be made. Required: at least one.
        description: What the reviewer should know: a string, or a function of the call, the state
            and the runtime. Default: the tool and its arguments.
        args_schema: A JSON schema of the arguments, passed to the reviewer for a form.
        when: Which calls need a review: a condition on the arguments, as in `Rule`, or a function
            of the ToolCallRequest. It is called again when a run is resumed, so it must depend only
            on the call and the state.
    """

    allowed_decisions: Required[list[DecisionType]]
    description: str | Callable[[ToolCall, AgentState[Any], Any], str]
    args_schema: dict[str, Any]
    when: When


class HumanInTheLoopMiddleware(AgentMiddleware[AgentState, Any]):
    """Interrupt the run when the model calls certain tools, until people have decided.

    It needs a checkpointer. Approved calls run. An edited call runs as edited; the thread then
    holds the edited call, and its result reports the edit to the model. A rejected call gets an
    error as its result, and a call that a reviewer responds to gets their text; neither runs.
    Calls that another middleware has already answered are not asked about.

    What runs is what was approved: the same tool, with the same description and arguments, called
    with the same arguments. If a layer or a new version of the agent has changed the call since,
    people are asked about what it is now.

    A decision holds for the call that runs. An edit into a call of another tool, or into one that
    another rule is about, is asked about again if that call needs a decision. An edit whose
    arguments do not fit the tool, or into a call that the policy denies, is refused.

    An answer that is refused (a missing decision, an unknown part, one that is not allowed) raises
    a `ReviewError` that is a ValueError, and the interrupt can be answered again.

    In both modes no call of a reviewed tool runs without a decision: a call that bypasses the
    hook, by a jump to the tools, is asked about separately. A subclass that overrides
    `after_model` decides itself, in batched mode, which calls are reviewed. Put it first among the
    layers around tools: a layer further out, such as a retry, would ask again at each attempt.

    Args:
        interrupt_on: A `ToolPolicy`; or, for each tool, True to review its calls with all four
            decisions allowed, False not to review them, or an `InterruptOnConfig`. In the second
            form, other tools are not reviewed.
        description_prefix: First line of the description of a call without a `description`.
        edit_notice: What the model reads with the result of an edited call; None for nothing.
            `{original_name}`, `{original_args}`, `{name}` and `{args}` in it are filled in.
        interrupt_mode: "batched": one interrupt for all calls of a turn, a `HITLRequest`, resumed
            with a `HITLResponse`, before any of them runs. "per_call": an interrupt for each call,
            a `ToolApprovalRequest`, resumed with a `Decision` by interrupt id, in any order, while
            the other calls run; the model's message then keeps the original call. Calls about
            which a judge decides are asked about in this way in both modes.
        name: Distinguishes several instances.

    Attributes:
        policy: The rules that decide which calls are reviewed.

    Raises:
        ValueError: A configuration that cannot work; the message names the tool and the key.

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
        if edit_notice is not None and not isinstance(edit_notice, str):
            raise ValueError(
                f"edit_notice must be a string or None, got {edit_notice!r}. Pass None to report "
                "no edits to the model."
            )
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
        # A call that no rule is about is asked about, too.
        asking = rules if "*" in self.policy.covered else (*rules, UNCOVERED)
        if any(rule.asks and "edit" in rule.allowed_decisions for rule in asking):
            ordering = replace(ordering, writes=(*ordering.writes, "tool_calls"))
        if any(seen_labels(rule.when) for rule in rules):
            ordering = replace(ordering, requires=(*ordering.requires, "FlowGuardMiddleware"))
        # A subclass with its own hook decides there what is asked about, so `around_tool` does not
        # ask.
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
        """The judge of its policy, if that has one; its rules are guards."""
        return () if self.policy.judge is None else ("policy.judge",)

    @property
    def guards(self) -> Sequence[ToolGuard]:  # type: ignore[override]
        """The rules of its policy, as the plan shows them: "allow" restricts those that follow."""
        # A build reads them several times, and a policy may have many rules.
        if self._guards is None or self._guards[0] is not self.policy:
            place: Literal["after_model", "around_tool"] = (
                "after_model" if self._chooses_calls else "around_tool"
            )
            self._guards = self.policy, policy_guards(self.policy, place)
        return self._guards[1]

    def build_findings(self, tools: Sequence[Any]) -> Iterator[SpecError]:
        """Rules that never decide, tools that no rule is about, and a policy that lets all run."""
        # The last rule of another form was not written by the author.
        count = len(self.policy.rules) - (self.interrupt_on is not self.policy)
        yield from policy_findings(self.name, self.policy, tools, count)
        # A subclass of it, or of the policy, may decide by anything.
        cls, base = type(self), HumanInTheLoopMiddleware
        methods = ("after_model", "aafter_model", "around_tool")
        is_own = any(getattr(cls, name) is not getattr(base, name) for name in methods)
        if not (self.guards or is_own) and decides_as_written(self.policy):
            reason = "does nothing: no rule asks about a call, denies it or has it judged."
            hint = 'Name a tool, such as {"refund": True}, or remove it from the stack.'
            yield BuildWarning(self.name, reason, hint, code="AF212")

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """In batched mode: ask about all calls of the turn at once, and apply the decisions."""
        if not self._may_ask(state["messages"]):
            return None
        # A direct call of the hook may come without a runtime.
        return run(self._review_turn(state, runtime or Runtime()))

    async def aafter_model(self, state: AgentState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Async variant of `after_model`, which a subclass may override alone."""
        # A subclass that overrides the sync hook alone means it for async runs, too.
        if type(self).after_model is not HumanInTheLoopMiddleware.after_model:
            return self.after_model(state, runtime)
        if not self._may_ask(state["messages"]):
            return None
        return await arun(self._review_turn(state, runtime or Runtime()))

    def _may_ask(self, messages: Sequence[AnyMessage]) -> bool:
        """Return True if the last message of the model has calls that may need a decision."""
        for message in reversed(messages):
            if isinstance(message, AIMessage):
                for call in message.tool_calls:  # noqa: SIM110  # runs at each turn
                    if not self.policy.allows(call["name"]):
                        return True
                return False
        return False

    def _review_turn(self, state: AgentState, runtime: Runtime[Any]) -> Flow[dict[str, Any] | None]:
        tools = get_tools()
        message, tail = last_turn(state["messages"])
        if self.interrupt_mode != "batched" or message is None:
            return None
        # A hook may have written calls that share an id: each needs its own decision.
        message = with_valid_calls(message)
        questions: list[tuple[ToolCallRequest, Rule]] = []
        for call in unanswered(message, tail):
            if self.policy.allows(call["name"]):
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
            # As a tool layer would get it.
            request = ToolCallRequest(call, tools.get(call["name"]), state, tool_runtime)
            if (rule := self.policy.rule_for(request)).action == "ask":
                questions.append((request, rule))
        if not questions:
            return None
        store = approval_store(runtime.store)
        covered_ids = yield from covered_calls(self.name, questions, store)
        questions = [pair for pair in questions if pair[0].tool_call["id"] not in covered_ids]
        if not questions:
            return None
        reviews = [self._review_of(request, rule, store) for request, rule in questions]
        actions, configs = zip(*reviews, strict=True)
        question = HITLRequest(action_requests=[*actions], review_configs=[*configs])
        requests = [request for request, _ in questions]
        judge_one, decisions = self._judge_of(requests), None
        while decisions is None:
            decisions = _ask_reviewer(question, judge_one)
        calls = [request.tool_call for request in requests]
        edits, results = split_decisions(list(zip(calls, decisions, strict=True)))
        digests = {}
        for (request, rule), decision in zip(questions, decisions, strict=True):
            call = request.tool_call
            if (edit := edits.get(call["id"])) is not None:
                request = _edited(request, edit)
                # What it was edited into was not asked about: `around_tool` does.
                if not self._holds(rule, call, request):
                    continue
            digests[call["id"]] = call_digest(request.tool_call, request.tool)
            yield from remember_approval(self.name, rule, request, decision, store)
        return {"messages": [with_review(message, self.name, digests, edits), *results]}

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Ask about a call without a decision; report an edit to the model."""
        call, records = request.tool_call, last_records(request.state["messages"])
        original = original_of(call, records) if EDITED in records else None
        with decisions_of(request, self.name) as records_of_task:
            # In per_call mode each decision is made here, so that none can be on record.
            if self.interrupt_mode == "batched" and REVIEWED in records:
                # None without a decision, and no call has None as its digest.
                records_of_task.approved.add(approved_digest(call, records, self.name))
            open_request = request
            for _ in range(MOST_CHANGES):
                # Most calls are of tools whose calls all run. Such a call needs no decision, unless
                # a layer further in makes it a call of another tool, which the guard notices.
                allowed: str | None = open_request.tool_call["name"]
                if not self.policy.allows(open_request.tool_call["name"]):
                    allowed = None
                    outcome = yield from self._settle(open_request, records_of_task)
                    if isinstance(outcome, ToolMessage):
                        return outcome
                    asked, runs = open_request.tool_call, outcome.tool_call
                    if runs is not asked and not is_same_call(runs, asked):
                        request, original = outcome, original or call
                knows_tool = request.tool is not None
                may_run = partial(self._may_run, records_of_task.approved, knows_tool=knows_tool)
                try:
                    with Guard(request, self.name, allowed, may_run):
                        result: ToolMessage | Command[Any] = yield request
                    break
                except CallChanged as changed:
                    if changed.reviewer != self.name:
                        raise  # for a reviewer further out, which has not decided about it
                    open_request = changed.request
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

    def _settle(
        self, request: ToolCallRequest, decisions_so_far: Decisions
    ) -> Flow[ToolMessage | ToolCallRequest]:
        """Decide about a call: return its result, or else what runs, whose digest is approved."""
        settled, first_request = decisions_so_far.settled, request
        # Most calls need no decision, and no digest.
        if settled and (first := call_digest(request.tool_call, request.tool)) in settled:
            earlier = settled[first]  # a layer has begun the call again
            return earlier if isinstance(earlier, ToolMessage) else _edited(request, earlier)
        while True:  # each pass asks a person, and no pass asks about a call that is approved
            call, rule = request.tool_call, self.policy.rule_for(request)
            if rule.action == "deny":
                return _denied(call, rule.reason, _seen_by(request, rule))
            if rule.action == "allow" or self._chooses_calls:
                return request
            if (digest := call_digest(call, request.tool)) in decisions_so_far.approved:
                return request
            store = approval_store(request.runtime.store)
            objection = yield from self._objection(request, rule, store)
            if objection is None:
                decisions_so_far.approved.add(digest)
                return request
            if not rule.asks:
                return _denied(call, objection, _seen_by(request, rule))
            action, config = self._review_of(request, rule, store, objection)
            question = ToolApprovalRequest(type="tool_approval", **action, review_config=config)
            judge_one = self._judge_of([request])
            # The task may have other interrupts: of the tool, or of the same question before a new
            # version of the agent. LangGraph gives the interrupts of a task their answers by order.
            plain = rule.action == "ask" and not objection and decisions_so_far.approved <= {None}
            decisions = _ask_reviewer(question, judge_one, request.tool) if plain else None
            if decisions is None:
                decisions = yield from _ask_in_own_graph(question, judge_one, request.tool)
            (decision,) = decisions
            edits, results = split_decisions([(call, decision)])
            if results:
                # For a layer that begins the call again, as a retry does: it is not asked about
                # twice.
                first = call_digest(first_request.tool_call, first_request.tool)
                settled[first] = results[0]
                return results[0]
            if edits:
                request = _edited(request, edits[call["id"]])
                if not self._holds(rule, call, request):
                    continue
            decisions_so_far.approved.add(call_digest(request.tool_call, request.tool))
            if request.tool_call is not call:
                first = call_digest(first_request.tool_call, first_request.tool)
                settled[first] = request.tool_call
            yield from remember_approval(self.name, rule, request, decision, store)
            return request

    def _objection(
        self, request: ToolCallRequest, rule: Rule, store: ApprovalStore | None
    ) -> Flow[str | None]:
        """Reason why a call must not run unless a person approves it; None if it may run."""
        remembers = store is not None and rule.remember is not None and rule.asks
        if not remembers and rule.action == "ask":
            return ""
        subject = subject_of(self.name, rule, request)

        def look() -> Flow[dict[str, object]]:
            approval = None
            if store is not None and remembers:
                approval = yield Invoke(Called(store.find), subject)
            if approval is not None:
                return {"approval": approval.id}
            if rule.action == "judge" and self._judge is not None:
                return {"objection": (yield from self._judge.objection_to(request))}
            return {"objection": ""}

        result = yield from once_per_task([digest(*subject)], look)
        if "approval" not in result:
            set_reason(f"rule {rule.tool!r}: {result['objection'] or rule.action}")
            return cast("str | None", result["objection"])
        assert store is not None
        # A step that is resumed or repeated may have found it before it was revoked.
        still = yield Invoke(Called(store.find), (*subject, result["approval"]))
        if still is None:
            return "Its standing approval was revoked or has expired."
        yield Invoke(Called(store.use), (still, subject[0], subject[2]))
        set_reason(f"standing approval {still.id} by {still.by or 'a person'}")
        return None

    def _may_run(
        self, digests: Collection[str | None], ran: ToolCallRequest, *, knows_tool: bool
    ) -> bool:
        """Return True if a call that is about to run is one that was decided about."""
        rule = self.policy.rule_for(ran)
        if rule.action == "allow" or (self._chooses_calls and rule.action != "deny"):
            return True
        # A layer may bring the tool: then nobody knew its arguments when the call was approved.
        tool = ran.tool if knows_tool else None
        return call_digest(ran.tool_call, tool) in digests

    def _holds(self, rule: Rule, call: ToolCall, new_request: ToolCallRequest) -> bool:
        """Return True if a decision about a call by a rule is also about what it was edited into.

        Another call of the same tool by the same rule is what those who decide were asked about.
        """
        new, name = self.policy.rule_for(new_request), new_request.tool_call["name"]
        return new.action == "allow" or (new == rule and name == call["name"])

    def _judge_of(self, requests: Sequence[ToolCallRequest]) -> Judge:
        by_id = {str(request.tool_call["id"]): request for request in requests}

        def judge_one(call: PendingCall, decision: Any) -> Judgement:
            if not is_about(call, decision):
                return Judgement(dict(decision), None)  # the call is asked about again
            request = by_id[call.id]

            def rules(edit: ToolCall) -> list[Rule]:
                return [self.policy.rule_for(_edited(request, edit))]

            return judge(call, decision, _tools_of(request), rules)

        return judge_one

    def _review_of(
        self, request: ToolCallRequest, rule: Rule, store: ApprovalStore | None, objection: str = ""
    ) -> tuple[ActionRequest, ReviewConfig]:
        """Question about a call, and the decisions that may be made."""
        call, description = request.tool_call, rule.description
        if description is None:
            args = json.dumps(call["args"], default=str, ensure_ascii=False)
            description = f"{self.description_prefix}\n\nTool: {call['name']}\nArgs: {args}"
        elif not isinstance(description, str):
            description = description(call, request.state, request.runtime)
        texts = (description, rule.reason, _seen_by(request, rule), objection)
        description = "\n".join(filter(None, texts))
        action = ActionRequest(
            name=call["name"],
            args=call["args"],
            description=description,
            tool_call_id=call["id"],
            digest=call_digest(call, request.tool),
        )
        allowed = list(rule.allowed_decisions)
        config = ReviewConfig(action_name=call["name"], allowed_decisions=allowed)
        if rule.args_schema is not None:
            config["args_schema"] = dict(rule.args_schema)
        if rule.reviewers:
            config["reviewers"] = sorted(rule.reviewers)
        if rule.remember is not None and store is not None:
            config["remember"] = rule.remember
        return action, config


def _seen_by(request: ToolCallRequest, rule: Rule) -> str:
    """The results that a rule is about, if it is about what the thread has seen."""
    labels = seen_labels(rule.when)
    return seen_text(labels_seen(request), labels) if labels else ""


def _denied(call: ToolCall, *reasons: str) -> ToolMessage:
    reason = "".join(f"{text.removesuffix('.')}. " for text in reasons if text)
    return error_result(call, _DENIAL.format(name=call["name"], reason=reason))


def _tools_of(request: ToolCallRequest) -> dict[str, BaseTool]:
    """The tools of an agent by name. If a layer has replaced one, that of the request counts."""
    tools = request.runtime.tools
    return {tool.name: tool for tool in (*tools, request.tool) if tool is not None}


def _edited(request: ToolCallRequest, edit: ToolCall) -> ToolCallRequest:
    return replace(request, tool_call=edit, tool=_tools_of(request).get(edit["name"]))


# A graph, because its interrupts are counted apart from those of the task.
@entrypoint()
def _ask_again(question: ToolApprovalRequest) -> dict[str, object]:
    if read_request(question) is None:  # of another graph, which had this namespace before
        return {}
    return {"digest": calls_of(question)[0].call_digest, "decision": interrupt(question)}


def _ask_in_own_graph(
    question: ToolApprovalRequest, judge_one: Judge, tool: BaseTool | None
) -> Flow[list[dict[str, object]]]:
    """Ask about a call in a graph, whose interrupts are apart from those of the task."""
    for _ in range(MOST_QUESTIONS):
        # In a task that is resumed, a graph that has ended returns its old state: the decision
        # about what the call was then, or what another graph returned. The next one has another
        # namespace.
        with setting(_judge_now, (judge_one, tool)):
            answer = yield Invoke(_ask_again, question)
        if answer.get("digest") == question["digest"]:
            decisions = _judged(question, answer["decision"], judge_one)
            if decisions is not None:
                return decisions
    name = question["name"]
    raise EndlessLoop(
        name,
        f"{MOST_QUESTIONS} answers about calls of {name} were given in one step, and none was "
        "about this call.",
        "Reject the call, and let the model make another one.",
    )


_judge_now: ContextVar[tuple[Judge, BaseTool | None]] = ContextVar(
    "judge_now", default=(judge, None)
)
"""The judge of the answer that `interrupt` waits for, and the tool of the call."""


def interrupt(request: HITLRequest | ToolApprovalRequest) -> object:
    """Interrupt the run with a request, and return the answer. Tests may patch this function."""
    return ask_about(request, *_judge_now.get())


def _ask_reviewer(
    request: HITLRequest | ToolApprovalRequest, judge_one: Judge, tool: BaseTool | None = None
) -> list[dict[str, object]] | None:
    """The decisions about a request; None if the answer is about what a call was before."""
    with setting(_judge_now, (judge_one, tool)):
        answer = interrupt(request)
    return _judged(request, answer, judge_one)


def _judged(
    request: HITLRequest | ToolApprovalRequest, answer: object, judge_one: Judge
) -> list[dict[str, object]] | None:
    calls = calls_of(request)
    decisions = [judgement.decision for judgement in judge_answer(calls, answer, judge_one)]
    return decisions if all(map(is_about, calls, decisions)) else None


def rule_of(tool: object, config: object) -> Rule:
    """The rule that says the same as an entry of `interrupt_on`."""
    if not isinstance(tool, str):
        raise ValueError(f"interrupt_on must be a dict with names of tools as keys, got {tool!r}.")
    if config is True:
        return Rule(tool, "ask")
    if not isinstance(config, Mapping):
        raise ValueError(
            f"interrupt_on[{tool!r}] must be True, False or an InterruptOnConfig, got {config!r}."
        )
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
