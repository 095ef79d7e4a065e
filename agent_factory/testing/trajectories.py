"""Assert the course of a run, step by step, by a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from agent_factory.decisions.log import Outcome
from agent_factory.errors import ArgumentError, describe, did_you_mean
from agent_factory.factory.agent import tools_of, topology_of
from agent_factory.testing.trajectory_patterns import Break, PatternError, Rule, parse
from agent_factory.testing.trajectory_steps import StepKind, Trajectory, trajectory_of


class TrajectoryMismatch(AssertionError):
    """A run does not match a pattern; the message shows the steps and marks the first wrong one.

    Attributes:
        step: The number of the first wrong step, from 1; None for the end of the run.
        reasons: The reason for each broken rule.
    """

    def __init__(self, pattern: str, trajectory: Trajectory, breaks: Sequence[Break]) -> None:
        # An index behind the last step stands for the end of the run.
        end = len(trajectory.steps)
        reasons = [(end if item.index is None else item.index, item.reason) for item in breaks]
        reasons.sort(key=lambda reason: reason[0])
        self.step = None if reasons[0][0] == end else reasons[0][0] + 1
        self.reasons = [text if i == end else f"step {i + 1}: {text}" for i, text in reasons]
        lines = "\n".join(f"- {reason}" for reason in self.reasons)
        steps = trajectory.numbered(index for index, _ in reasons)
        super().__init__(f"the run does not match `{pattern}`:\n{lines}\n\n{steps}")


def assert_trajectory(run: object, pattern: str, *, agent: object = None) -> None:
    """Fail unless the steps of a run match a pattern.

    A pattern is a list of rules, separated by commas; each must hold. A rule looks only at the
    steps with its names: at all calls of its tools, whatever their arguments and results. These
    steps must match it from the first to the last. Other steps may come between.

    - `search`: one call. `search?`: at most one. `search*`: any number of calls.
      `search+`: at least one. `search{3}`, `search{1,3}`, `search{,3}`, `search{2,}`: so many.
    - `search < refund`: one call of each, `refund` in a later turn, when the model has seen
      the result. `search* < refund`: one call of `refund`, and no `search` afterwards.
    - `search, refund`: each is called once, in any order. These are two rules.
    - `(search | browse)+ < refund`: before `refund`, either of the two or both are called.
    - `never delete`, `never delete | drop`: no call.
    - `only search* < refund`: the same as without `only`, and no other tool is called.
    - `any{,5}`: at most five calls. `any* < refund`: `refund` is the last call.
    - `refund(euros<=50, order="A1")`: one call, with such arguments. The signs are
      `=`, `!=`, `<`, `<=`, `>`, `>=`, and `~` for a part of a text.
    - `search -> error < search -> ok`: two calls, of which only the first fails.
      `search -> "not found"`: the result contains the text. `pending`: there is no result.
    - `model{,4}`, `answer`, `user`, `review`: messages of the model; answers, also structured
      answers and answers of hooks; messages of the user; and waiting for a person.
    - `Guard.after_model -> jumped`: in a decision log, a hook or a layer and its outcome. An idle
      hook or layer is not a step.

    A failed call, a call rejected by a person, and an unfinished call are steps as well,
    with the result `error` or `pending`. `never refund -> ok` allows a rejected call. Quote the
    name of a tool if it equals a word above: `"answer"`.

    Args:
        run: The result of `invoke`, a state of `get_state`, or a list of messages; a list of
            decisions; the path of a file of decisions or of a recording; or a `Trajectory`.
            Messages have no steps of hooks. A decision log has no arguments, and has the steps of
            subagents, too.
        pattern: The pattern.
        agent: The agent of the run. With an agent, a name outside of the agent is an
            error in the pattern, so that a misspelt `never` does not pass. Without an agent, a name
            close to a name in the run is an error.

    Raises:
        TrajectoryMismatch: The run breaks a rule. The error is an AssertionError.
        PatternError: The pattern cannot be read, or has an unknown name.
        ArgumentError: `run` is of another kind, or lacks the subject of the pattern.
        FileNotFoundError, CassetteError: The file does not exist, or cannot be read.

    >>> from langchain_core.messages import AIMessage, ToolMessage
    >>> call = {"name": "refund", "args": {"euros": 90}, "id": "1"}
    >>> run = [AIMessage("", tool_calls=[call]), ToolMessage("Paid.", tool_call_id="1")]
    >>> assert_trajectory(run, "refund(euros<=100), never delete")
    >>> try:
    ...     assert_trajectory(run, "search < refund")
    ... except TrajectoryMismatch as error:
    ...     print(error)
    the run does not match `search < refund`:
    - step 2: refund was called before search, which `search < refund` expects first.
    <BLANKLINE>
      1  model: calls refund
    > 2  refund(euros=90) -> ok: Paid.
    """
    __tracebackhide__ = True
    if not isinstance(pattern, str):
        raise ArgumentError(
            "pattern",
            f"must be a str, got {describe(pattern)}.",
            'Write assert_trajectory(run, "search < refund").',
        )
    rules = parse(pattern)
    trajectory = trajectory_of(run)
    _check_names(pattern, rules, trajectory, agent)
    breaks = [rule_break for rule in rules if (rule_break := rule.check(trajectory.steps))]
    if breaks:
        raise TrajectoryMismatch(pattern, trajectory, breaks)


def _check_names(pattern: str, rules: Sequence[Rule], trajectory: Trajectory, agent: Any) -> None:
    """Refuse a pattern whose rules could hold only because nothing can break them."""
    tools, hooks = set(trajectory.offered), set()
    if agent is not None:
        plan = topology_of(agent)
        tools = {*tools_of(agent), *(tool.name for tool in plan.tools)}
        hooks = {hook.node for hook in plan.hooks}
        # A log names layers as it names hooks.
        hooks |= {f"{layer.owner}.{layer.method}" for layer in plan.layers}
    is_log = trajectory.source == "decisions"
    answers = (StepKind.MODEL, StepKind.ANSWER)
    # Without tools an agent has no routes, by which a log shows an answer.
    hides_answers = not any(
        step.kind in answers or step.outcome in (Outcome.JUMPED, Outcome.RAISED)
        for step in trajectory.steps
    )
    for atom in (atom for rule in rules for atom in rule.atoms):
        reason, text = "", f"`{atom.text}`"
        hint = "Pass the result of the run, or its messages."
        if atom.kind is StepKind.HOOK and not is_log:
            reason, text = "has messages and no decisions", atom.name
            hint = "Build the agent with decisions=log.append, and pass the list `log`."
        elif atom.kind is StepKind.TOOL and atom.conditions and is_log:
            reason = "is a decision log, which has no arguments of calls"
        elif is_log and atom.kind in answers and hides_answers:
            reason = "is the decision log of an agent without tools, which does not say when its "
            reason += "model answered"
        if reason:
            raise ArgumentError("run", f"{reason}, and the pattern asks about {text}.", hint)
        names = {StepKind.TOOL: tools, StepKind.HOOK: hooks}.get(atom.kind, set())
        # For `any`, nothing can be misspelt.
        if not atom.name or atom.name in names:
            continue
        if any(step.name == atom.name for step in trajectory.steps):
            continue  # possibly offered by a layer at run time
        if names:
            noun = "tool" if atom.kind is StepKind.TOOL else "hook or layer"
            reason = f"the agent has no {noun} {atom.name!r}."
            hint = did_you_mean(atom.name, names, f"It has {', '.join(sorted(names))}.")
            raise PatternError(pattern, atom.column, reason, hint)
        # Without an agent, the only known names are those in the run.
        steps = {step.name for step in trajectory.steps if step.kind is atom.kind}
        if close := get_close_matches(atom.name, steps, n=1, cutoff=_ALIKE):
            reason = f"the run has no {atom.name!r}, and it has {close[0]!r}."
            hint = f"Did you mean {close[0]}? If {atom.name!r} is another one, pass agent=."
            raise PatternError(pattern, atom.column, reason, hint)


_ALIKE = 0.8
"""Least likeness of a misspelt name to the right one, as for the tools of a middleware."""
