"""Approval: the decision whether a tool call may run, as a machine with a next step.

The machine has no effects: no interrupt, no wait, no store, no call of a model. The caller carries
out the steps, and returns the answers:

    approval.begin(request)
    while not isinstance(step := approval.step, Run | Deny):
        approval.take(...)  # the answer of a person, a judge or a store
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypedDict

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest

from agent_factory.errors import NothingPending
from agent_factory.review.decision import Judgement, judge
from agent_factory.review.pending_calls import PendingCall
from agent_factory.review.policy import Rule
from agent_factory.review.records import call_digest, split_decisions
from agent_factory.review.standing_approvals import (
    StandingApproval,
    Subject,
    approval_by,
    subject_of,
)

EXPIRED = "Its standing approval was revoked or has expired."


@dataclass(frozen=True, slots=True)
class Run:
    """The call may run.

    Attributes:
        request: The call of the decision.
        remember: The standing approval of the decision, if a person has given one.
    """

    request: ToolCallRequest
    remember: StandingApproval | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """The call does not run.

    Attributes:
        request: The call.
        rule: The rule against the call; None after the answer of a person.
        reason: The reason of the rule, or of the judge.
        result: The result by a person; None if a rule denies the call.
    """

    request: ToolCallRequest
    rule: Rule | None = None
    reason: str = ""
    result: ToolMessage | None = None


@dataclass(frozen=True, slots=True)
class AskPerson:
    """A person decides; the answer is a decision, or the `Judgement` of a decision.

    Attributes:
        request: The call.
        rule: The rule with "ask".
        objection: The reason of a judge, or the reason for the end of an approval.
        call: The call in the form for the person.
    """

    request: ToolCallRequest
    rule: Rule
    objection: str
    call: PendingCall


@dataclass(frozen=True, slots=True)
class AskJudge:
    """A judge decides; the answer is the reason not to run the call, or None.

    Attributes:
        request: The call.
        rule: The rule with "judge".
    """

    request: ToolCallRequest
    rule: Rule


@dataclass(frozen=True, slots=True)
class LookUp:
    """A standing approval may cover the call; the answer is the approval, or None.

    Attributes:
        subject: The call, the digest of the tool and the rule, and the thread.
        approval_id: The id of an approval from an earlier answer, which may have ended since. No
            other approval counts.
    """

    subject: Subject
    approval_id: str | None = None


Step = Run | Deny | AskPerson | AskJudge | LookUp


class Evidence(TypedDict, total=False):
    """Answers of a store and of a judge, which must not change until a person answers.

    Attributes:
        approval: The id of a standing approval of the call.
        objection: The reason of the judge; None if the judge has no objection.
    """

    approval: str
    objection: str | None


class Approval:
    """Decision of a review about a call, also if a layer changes or repeats the call.

    An approved call may run again, and an answered call has the same result again. A decision holds
    for the call in question, and for the edited call if the tool and the rule stay the same.

    Args:
        review: The name of the review. Only standing approvals of this review count.
        rule_for: Returns the rule about a call.
        remembers: True to look up and give standing approvals.
    """

    def __init__(
        self,
        review: str,
        rule_for: Callable[[ToolCallRequest], Rule],
        *,
        remembers: bool = False,
    ) -> None:
        self._review, self._rule_for, self._remembers = review, rule_for, remembers
        self.approved: set[str] = set()
        """Digests of the calls with permission to run."""
        self.step: Step  # the next step, from `begin` on; Run and Deny end the decision
        # By the digests of further calls: the call to run instead, or the result.
        self._settled: dict[str, ToolCall | ToolMessage] = {}
        self.evidence: Evidence | None = None
        self._last_digest: tuple[ToolCallRequest | None, str] = (None, "")

    def begin(self, request: ToolCallRequest, *, is_changed: bool = False) -> None:
        """Begin with a call.

        Args:
            request: The call.
            is_changed: Whether a layer further in has made the call of an approved one. An edit
                that the layer has undone is not made again: people decide about the call as is.
        """
        self._first = self.request = request
        # Most calls need no decision, and no digest.
        earlier = self._settled.get(self.digest_of(request)) if self._settled else None
        if isinstance(earlier, ToolMessage):
            self.step = Deny(request, result=earlier)
        elif earlier is not None and not is_changed:
            self._run(edited(request, earlier))
        else:
            self._consider(request)

    @property
    def subject(self) -> Subject:
        """The subject of a standing approval of the call."""
        return subject_of(self._review, self.rule, self.request)

    def take(self, answer: Any) -> None:
        """Take the answer to the next step.

        Raises:
            ReviewError: The decision is not allowed, or no step waits. Nothing has changed.
        """
        step = self.step
        if isinstance(step, AskPerson):
            judgement = answer if isinstance(answer, Judgement) else self.judge(answer)
            self._decide(step, judgement.decision)
        elif isinstance(step, AskJudge):
            self.recall({"objection": answer})
        elif isinstance(step, LookUp) and step.approval_id is not None:
            self._settle_by(None if answer is not None else EXPIRED)
        elif isinstance(step, LookUp) and answer is not None:
            self.recall({"approval": answer.id})
        elif isinstance(step, LookUp) and self.rule.action == "judge":
            self.step = AskJudge(self.request, self.rule)
        elif isinstance(step, LookUp):
            self.recall({"objection": ""})
        else:
            reason = f"is decided, and {answer!r} answers nothing."
            hint = "Begin with a call, and answer while `step` asks."
            raise NothingPending(self.request.tool_call["name"], reason, hint)

    def recall(self, evidence: Evidence) -> None:
        """Take the first answers of the store and the judge."""
        self.evidence = evidence
        if "approval" in evidence:
            self.step = LookUp(self.subject, evidence["approval"])
        else:
            self._settle_by(evidence["objection"])

    @property
    def judge(self) -> Callable[[object], Judgement]:
        """Judge of a person's decision about the call: raises ReviewError, changes nothing."""
        step = self.step
        assert isinstance(step, AskPerson)  # the only step for a person

        def rules(edit: ToolCall) -> list[Rule]:
            return [self._rule_for(edited(step.request, edit))]

        return partial(judge, step.call, tools=tools_of(step.request), rules=rules)

    def digest_of(self, request: ToolCallRequest) -> str:
        """The digest of a call, by which approvals name the call."""
        # The schema of a tool takes a moment to make, and a call is looked up several times.
        if self._last_digest[0] is not request:
            self._last_digest = request, call_digest(request.tool_call, request.tool)
        return self._last_digest[1]

    def permits(self, request: ToolCallRequest, *, knows_tool: bool = True) -> bool:
        """Return True if a call has a decision and may run.

        Args:
            request: The call.
            knows_tool: False if a layer brings the tool: nobody knew the arguments of the tool at
                the approval of the call.
        """
        # The policy was asked about an approved call before, and a rule may call a function.
        is_approved = bool(self.approved) and (
            self.digest_of(request) in self.approved
            or (not knows_tool and call_digest(request.tool_call, None) in self.approved)
        )
        return is_approved or self._rule_for(request).action == "allow"

    def _consider(self, request: ToolCallRequest) -> None:
        """Set the first step of the decision about a call."""
        self.request, self.rule = request, (rule := self._rule_for(request))
        self.evidence = None
        if rule.action == "deny":
            self.step = Deny(request, rule, rule.reason)
        elif rule.action == "allow" or self.digest_of(request) in self.approved:
            self._run(request)
        elif self._remembers and rule.remember is not None and rule.asks:
            self.step = LookUp(self.subject)
        elif rule.action == "judge":
            self.step = AskJudge(request, rule)
        else:
            self._settle_by("")

    def _settle_by(self, objection: str | None) -> None:
        """Set the step after an objection to the call; None without an objection."""
        request, rule = self.request, self.rule
        if objection is None:
            self.approved.add(self.digest_of(request))
            self._run(request)
        elif not rule.asks:
            self.step = Deny(request, rule, objection)
        else:
            call = request.tool_call
            pending = PendingCall(
                str(call["id"]),
                call["name"],
                call["args"],
                "review",
                tuple(rule.allowed_decisions),
                call_digest=self.digest_of(request),
                reviewers=tuple(sorted(rule.reviewers)),
                remember=rule.remember if self._remembers else None,
            )
            self.step = AskPerson(request, rule, objection, pending)

    def _decide(self, step: AskPerson, decision: Mapping[str, Any]) -> None:
        """Carry out the decision of a person: run the call, run another call, or answer."""
        call, rule = step.request.tool_call, step.rule
        edits, results = split_decisions([(call, decision)])
        if results:
            # For a layer with repeated calls, such as a retry: nobody is asked twice.
            self._settled[self.digest_of(self._first)] = results[0]
            self.step = Deny(step.request, result=results[0])
            return
        request = edited(step.request, edits[call["id"]]) if edits else step.request
        new = self._rule_for(request) if edits else rule
        # The person was asked by this rule, about a call of this tool.
        is_same = new == rule and request.tool_call["name"] == call["name"]
        if is_same or new.action == "allow":
            self.approved.add(self.digest_of(request))
            self._run(request, approval_by(self._review, rule, request, decision))
        else:
            self._consider(request)

    def _run(self, request: ToolCallRequest, remember: StandingApproval | None = None) -> None:
        self.step, self.request = Run(request, remember), request
        if request.tool_call is not self._first.tool_call:
            self._settled[self.digest_of(self._first)] = request.tool_call


def tools_of(request: ToolCallRequest) -> dict[str, BaseTool]:
    """The tools of an agent by name. A tool of the request, from a layer, comes first."""
    tools = request.runtime.tools
    return {tool.name: tool for tool in (*tools, request.tool) if tool is not None}


def edited(request: ToolCallRequest, edit: ToolCall) -> ToolCallRequest:
    """The request for an edited call."""
    return replace(request, tool_call=edit, tool=tools_of(request).get(edit["name"]))
