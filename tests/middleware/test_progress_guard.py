"""A run that repeats itself ends; one that gets on is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from recorded_runs import LOOPS, REPETITIONS, STOPPED, Loop, Repetition, Stage, play_loop

from agent_factory.middleware import NoProgressError, ProgressGuardMiddleware
from agent_factory.testing import assert_valid_history

Run = Callable[..., Any]
REMARK = "[You repeat yourself: "


def remarked(request: Any) -> bool:
    """Whether the last message of a request has a remark."""
    return REMARK in request[0][-1].text


def test_there_are_forty_of_each() -> None:
    assert len(LOOPS) >= 40
    assert len({loop.name for loop in LOOPS}) == len(LOOPS)
    assert len(REPETITIONS) >= 40
    assert len({one.name for one in REPETITIONS}) == len(REPETITIONS)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_a_loop_ends_within_two_calls_of_its_mark(loop: Loop, call: Run) -> None:
    guard = ProgressGuardMiddleware(**loop.guard)
    stage = Stage([*loop.before, *loop.repeated], [*loop.stack(), guard])
    if loop.ends_with_error:
        with pytest.raises(NoProgressError):
            stage.run(call, play_loop(loop))
        messages = stage.agent.get_state(stage.config).values["messages"]
    else:
        messages = stage.run(call, play_loop(loop))
        assert messages[-1].text == STOPPED
    assert_valid_history(messages)
    first = next(at for at, request in enumerate(stage.requests) if remarked(request))
    assert first == loop.mark, "the first remark comes with the request after the mark"
    assert stage.played == loop.mark + 2


@pytest.mark.parametrize("repetition", REPETITIONS, ids=lambda repetition: repetition.name)
def test_a_repetition_for_good_reason_is_left_alone(repetition: Repetition, call: Run) -> None:
    found = []
    for guards in ([], [ProgressGuardMiddleware(**repetition.guard)]):
        turns = [turn for run in repetition.runs for turn in run]
        stage = Stage(turns, [*repetition.stack(), *guards])
        for run in repetition.runs:
            ends = [] if isinstance(run[-1], str) else ["Done."]
            stage.run(call, [*run, *ends])
            stage.player.assert_done()
        found.append([[(m.type, m.content) for m in messages] for messages, _ in stage.requests])
    assert found[0] == found[1]
