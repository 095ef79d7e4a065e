"""Whatever a stack does: who waits for a run gets what the database has of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Annotated, Any, NotRequired

import pytest
import random_stacks
from hypothesis import given, settings
from langgraph.channels import EphemeralValue
from random_stacks import CALM, Case, Mode, Trial, add, cases

from agent_factory import AgentState, OmitFromOutput
from agent_factory.service import RunFailed, Service
from agent_factory.service.outputs import Outputs
from agent_factory.upstream import INTERRUPT

WAIT = 60.0
EXAMPLES = 25 if settings.get_current_profile_name() == "test" else settings().max_examples // 5


class Kept(AgentState[Any]):
    """Keys of each kind whose values a checkpoint has, or no output."""

    log: NotRequired[Annotated[list[str], add]]
    last: NotRequired[str]
    flash: NotRequired[Annotated[str, EphemeralValue(str), OmitFromOutput]]


@pytest.mark.long
@pytest.mark.law
@pytest.mark.usefixtures("ends_when_awaited")
@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_is_handed_over_is_what_is_read(
    sqlite_service: Service, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    handed_over, numbers, of = list[str](), count(), Outputs.of

    def note(outputs: Outputs, run: str) -> Any:
        output = of(outputs, run)
        if output is not None:
            handed_over.append(run)
        return output

    monkeypatch.setattr(Outputs, "of", note)
    monkeypatch.setattr(random_stacks, "Stored", Kept)
    service = sqlite_service
    service.start()

    @settings(max_examples=EXAMPLES)
    @given(cases([act for act in CALM if act != "seen"]))
    def check(case: Case) -> None:
        trial = Trial(replace(case, pauses=()), True, mode, kept=False)
        name = f"agent {next(numbers)}"
        service.add(name, trial.agent, asynchronous=mode == "async")
        for _ in range(2):
            run = service.submit(name, thread=name, message="Well?")
            try:
                output = run.result(WAIT)
            except RunFailed:
                return
            if INTERRUPT in output:  # it waits for an answer, so its output is read
                return
            assert output == run.result(WAIT)

    check()
    assert len(handed_over) > EXAMPLES // 2
