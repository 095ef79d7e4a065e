"""The harness counts right, and every contender can be built and run. No speed is asserted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is never installed

from benchmarks import __main__ as command
from benchmarks import batteries, contenders, groups, harness
from benchmarks.harness import Comparison, Contender, Interval, Reading, compare, interval, measure
from benchmarks.report import as_json, table

TINY = groups.Effort(checks=2, runs=2, builds=2, imports=1, turns=1)


class FakeClock:
    """Time passes only when someone says so."""

    def __init__(self) -> None:
        self.wall = 0.0

    def __call__(self) -> Reading:
        return Reading(self.wall, self.wall / 2)

    def takes(self, *seconds: float) -> Callable[[], None]:
        """A run that takes these times in turn, the last one for ever."""
        left = list(seconds)

        def run() -> None:
            self.wall += left.pop(0) if len(left) > 1 else left[0]

        return run


def test_each_is_called_once_off_the_record_and_then_the_order_rotates() -> None:
    calls: list[str] = []
    rivals = {name: Contender(lambda name=name: calls.append(name)) for name in "abc"}  # type: ignore[misc]
    measure(rivals, rounds=4)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab" + "abc"


def test_only_the_run_is_on_the_clock() -> None:
    clock = FakeClock()
    contender = Contender(clock.takes(3), prepare=clock.takes(100), tidy=clock.takes(1000))
    assert contender.timed(clock) == Reading(wall=3, cpu=1.5)


def test_the_first_call_of_a_contender_does_not_count() -> None:
    clock = FakeClock()
    rounds = measure({"a": Contender(clock.takes(50, 1))}, 3, clock)
    assert [taken["a"].wall for taken in rounds] == [1, 1, 1]


def test_what_is_done_between_rounds_is_off_the_clock() -> None:
    clock = FakeClock()
    rounds = measure({"a": Contender(clock.takes(1))}, 2, clock, after_round=clock.takes(100))
    assert [taken["a"].wall for taken in rounds] == [1, 1]


def compared(clock: FakeClock, a: Contender, b: Contender, over: str | None) -> harness.Figure:
    @contextmanager
    def opened() -> Iterator[dict[str, Contender]]:
        yield {"a": a, "b": b}

    return compare(Comparison("group", "name", "a", over, opened, rounds=3, goal=2.0), clock)


def test_a_ratio_is_the_median_of_the_ratios_of_each_round() -> None:
    clock = FakeClock()
    # A machine ten times as slow in the second round changes no ratio.
    a = Contender(clock.takes(9, 2, 20, 6))
    b = Contender(clock.takes(9, 1, 10, 2))
    figure = compared(clock, a, b, over="b")
    assert figure.wall == Interval(middle=2, low=2, high=3)
    assert figure.cpu == figure.wall
    assert figure.milliseconds == {"a": 6000, "b": 2000}


def test_a_figure_over_nothing_is_in_milliseconds() -> None:
    clock = FakeClock()
    figure = compared(clock, Contender(clock.takes(0.5)), Contender(clock.takes(1)), over=None)
    assert figure.wall == Interval(500, 500, 500)
    assert figure.cpu.middle == 250


@pytest.mark.parametrize(
    ("wall", "verdict"),
    [
        (Interval(1.9, 1.8, 2.1), "yes"),
        (Interval(2.1, 1.9, 2.2), "within noise"),
        (Interval(2.2, 2.1, 2.3), "no"),
    ],
)
def test_a_goal_is_met_missed_or_hidden_by_noise(wall: Interval, verdict: str) -> None:
    figure = harness.Figure("group", "name", "a", "b", wall, wall, {"a": 1.0, "b": 1.0}, 3, 2.0)
    assert figure.verdict == verdict


def test_the_range_of_a_median_narrows_with_the_number_of_values() -> None:
    few, many = interval(range(10)), interval(range(1000))
    assert few == Interval(4.5, 1, 8)
    assert many == Interval(499.5, 469, 530)


def test_a_steady_machine_reads_one_for_a_thing_against_itself() -> None:
    assert harness.is_steady(Interval(1.04, 0.9, 1.2))
    assert not harness.is_steady(Interval(0.94, 0.9, 1.2))


def test_agents_compared_with_themselves_and_with_a_loop_by_hand_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "has_peer", lambda: False)
    figures = [compare(c) for c in (*groups.check(TINY), *groups.turns(TINY))]
    assert {figure.over for figure in figures} == {"itself", contenders.BY_HAND}
    assert all(figure.wall.low > 0 for figure in figures)


def test_a_run_takes_the_turns_it_was_asked_to_take(call: Callable[..., Any]) -> None:
    agent = contenders.ours().create_agent(contenders.FreeModel(turns=3), [contenders.add])
    done = call(agent, {"messages": [("user", "Count.")]})
    assert [message.type for message in done["messages"]] == ["human", *["ai", "tool"] * 3, "ai"]


@pytest.mark.parametrize("group", ["growth", "decisions", "batteries", "build"])
def test_every_group_can_be_measured_without_the_peer(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "has_peer", lambda: False)
    comparisons = list(groups.GROUPS[group](TINY))
    assert comparisons
    assert all(compare(comparison).wall.low > 0 for comparison in comparisons)


def test_built_ins_and_bare_hooks_take_the_same_steps(tmp_path: Path) -> None:
    model = batteries.ReportingModel(turns=2)
    stack = batteries.built_ins(model, str(tmp_path))
    create = contenders.ours().create_agent
    agents = [
        create(model, [contenders.add], middleware=members, checkpointer=InMemorySaver())
        for members in (stack, batteries.bare_hooks(stack))
    ]
    config = {"configurable": {"thread_id": "one"}}
    steps = [[[*step] for step in agent.stream({"messages": "Count."}, config)] for agent in agents]
    assert steps[0] == steps[1]
    assert steps[0].count(["tools"]) == 2


def test_an_import_is_timed_by_the_clocks_of_its_own_process() -> None:
    reading = contenders.Import("import json").timed(FakeClock())
    assert 0 < reading.wall < 60
    assert 0 <= reading.cpu < 60


def test_functions_are_new_to_a_factory_only_once() -> None:
    one, other = contenders.new_functions(1), contenders.new_functions(1)
    assert one[0] is not other[0]
    assert one[0].__name__ == other[0].__name__ == "tool_0"


def test_the_command_prints_a_table_and_writes_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(groups, "has_peer", lambda: False)
    monkeypatch.setattr(command, "QUICK", TINY)
    monkeypatch.setattr(command, "is_steady", lambda reading: True)
    file = tmp_path / "figures.json"
    assert command.main(["--quick", "--only", "build", "--json", str(file)]) == 0
    written = json.loads(file.read_text())
    assert written["versions"]["langgraph"] in capsys.readouterr().out
    assert {figure["group"] for figure in written["figures"]} == {"check", "build"}
    assert {"middle", "low", "high"} == written["figures"][0]["wall"].keys()


def test_an_unsteady_machine_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "QUICK", TINY)
    monkeypatch.setattr(command, "GROUPS", {"none": lambda effort: iter(())})
    monkeypatch.setattr(command, "is_steady", lambda reading: False)
    assert command.main(["--quick"]) == 1
    assert "no figure can be trusted" in capsys.readouterr().err


def test_a_table_has_a_line_for_each_figure() -> None:
    clock = FakeClock()
    figure = compared(clock, Contender(clock.takes(4)), Contender(clock.takes(2)), over="b")
    assert table([figure]).splitlines()[-1] == (
        "| group: name | a / b | 2.00 (2.00-2.00) | 2.00 (2.00-2.00) | 4000.0 / 2000.0 | 2 | yes |"
    )
    assert json.loads(as_json([figure]))["figures"][0]["met"] == "yes"
