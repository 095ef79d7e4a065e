"""Figures of the tests themselves, of prose, and of ratchets with some slack."""

from __future__ import annotations

from figures import Figure
from measures import words
from measures.calls import approval
from measures.source import Source, context_variables
from measures.tests import fixed_waits, private_names

from tables import each


@each(
    "code, problem",
    [
        ("time.sleep(0.1)", "time.sleep(0.1)"),
        ("asyncio.sleep(x)", "asyncio.sleep(x)"),
        ("await asyncio.sleep(0)", None),
        ("clock.sleep(60)", None),
        ("time.sleep(1)  # waits: the clock of the system", None),
        ("subprocess.Popen([])", "subprocess.Popen"),
        ("run(timeout=0.5)", "timeout=0.5"),
        ("run(idle_timeout=0.5)", "idle_timeout=0.5"),
        ("run(after_seconds=0.5)", "after_seconds=0.5"),
        ("run(timeout=60)", None),
        ("run(timeout=0)", None),
        ("run(threshold=0.5)", None),
        ("run_virtually(main(timeout=0.5)); asyncio.sleep(9)", None),
        ("run_virtually(main()); time.sleep(9)", "time.sleep(9)"),
    ],
)
def test_a_wait_that_a_slow_machine_breaks_is_counted(code: str, problem: str | None) -> None:
    source = Source("tests/test_a.py", f"async def test() -> None:\n    {code}\n")
    assert [*fixed_waits([source])] == ([f"tests/test_a.py:2 {problem}"] if problem else [])
    assert [*fixed_waits([Source("tests/processes.py", source.text)])] == []


def test_names_of_the_insides_are_counted() -> None:
    source = Source("tests/a.py", "a._b\nself._c\na.__class__\na.b\nfrom x import _y\n")
    assert [*private_names([source])] == ["tests/a.py:1 _b"]


def test_words_are_counted_in_prose_and_not_in_examples() -> None:
    source = Source("a.py", '"""It is its own.\n\n>>> it()\n"""\nit = "it"  # So is it.\n')
    prose = words.prose([source])
    assert prose.split() == ["It", "is", "its", "own.", "#", "So", "is", "it."]
    assert words.rate(prose, "its?") == round(1000 * 3 / 7, 1)
    assert words.rate("", "it") == 0


def test_context_variables_are_counted() -> None:
    assert (
        context_variables(Source("a.py", "a = ContextVar('a')\nb = contextvars.ContextVar('b')"))
        == 2
    )


def test_a_ratchet_with_slack_follows_only_a_larger_step() -> None:
    def problem(value: float) -> str | None:
        return Figure("lines", value, 100, 200, slack=20).problem

    assert problem(201) == "worse than the ratchet of 200"
    assert problem(180) is None
    assert problem(179) == "lower the ratchet to 179"
    assert problem(100) == "the goal is reached: remove the ratchet"


def test_an_approval_enters_the_package() -> None:
    trace = approval()
    assert trace.calls > len(trace.files) > 1
    assert any(name.endswith("review/steps.py") for name in trace.files)
