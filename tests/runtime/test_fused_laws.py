"""Whatever a stack does: a fused run is the run hook by hook, in fewer steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from random_stacks import ACTS, CALM, Case, Mode, Trial, cases, is_stuck


def _same(case: Case, fused: Any, mode: Mode) -> None:
    plain, fused_run = Trial(case, False, mode), Trial(case, fused, mode)
    for doing, watched in (("ask", False), *case.doings):
        plain.do(doing, watched)
        fused_run.do(doing, watched)
        assert fused_run.diary.pages == plain.diary.pages
        assert fused_run.model.asked == plain.model.asked
        if is_stuck(plain.results[-1]):
            assert fused_run.results[-1][0] == plain.results[-1][0]
            return
        assert fused_run.results == plain.results


# Twelve laws of one kind, and each example is two agents with a thread each.
IN_TESTS = settings.get_current_profile_name() == "test"
EXAMPLES = 10 if IN_TESTS else settings().max_examples // 2


pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning"),
    pytest.mark.parametrize("fused", [True, "turn"]),
    pytest.mark.parametrize("mode", ["sync", "async"]),
]


@pytest.mark.parametrize("acts", [CALM, [*ACTS]], ids=["calm", "all"])
def test_a_fused_run_is_and_fails_as_the_run_hook_by_hook(
    acts: list[str], fused: Any, mode: Mode
) -> None:
    """Every hook's view, the state, what is next, what waits, and how it ends.

    Hooks that are not calm raise, or return what cannot be written.
    """

    @settings(max_examples=EXAMPLES)
    @given(cases(acts))
    def check(case: Case) -> None:
        _same(case, fused, mode)

    check()


def test_a_run_without_a_checkpointer_is_the_run_hook_by_hook(fused: Any, mode: Mode) -> None:
    """Without a saver all of it may be one step."""

    @settings(max_examples=EXAMPLES)
    @given(cases(list(ACTS)))
    def check(case: Case) -> None:
        case = replace(case, pauses=())
        plain, fused_run = (Trial(case, how, mode, kept=False) for how in (False, fused))
        for _ in range(2):
            plain.ask()
            fused_run.ask()
            assert fused_run.diary.pages == plain.diary.pages
            assert fused_run.model.asked == plain.model.asked
            assert fused_run.results == plain.results

    check()
