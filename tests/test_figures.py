"""The figures of `scripts/figures.py`: how each is counted, and when a ratchet has to move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from figures import Figure, figures
from measures import words
from measures.calls import traced
from measures.source import (
    Source,
    any_count,
    bound_names,
    clauses,
    code_lines,
    comment_lines,
    copies,
    used_once,
)

from tables import each

SAMPLE = Source(
    "sample.py",
    '''"""Whether this is a sample."""

from typing import Any

# A reason.
LIMIT: int = 3  # after code


def total(given: list[Any], start: Any = 0) -> int:
    """Sum of the values.

    It has two paragraphs.
    """
    # Another reason.
    text = """one
    and two"""
    for one in given:
        found, self_made = one, text
    return start


class Sum:
    """What remains."""

    def _add(self) -> None:
        self.asked = 1
        self._only()

    def _only(self) -> None: ...
''',
)


def test_lines_of_code_and_of_comments_docstrings_that_are_clauses_and_any_are_counted() -> None:
    assert code_lines(SAMPLE) == 13
    assert any_count(SAMPLE) == 3, "with its import"
    assert comment_lines(SAMPLE) == 2, "without the comment after code"
    assert clauses(SAMPLE) == [1, 23]
    assert len(SAMPLE.docstrings) == 3


def test_names_are_bound_by_assignments_arguments_and_loops() -> None:
    names = list(bound_names(SAMPLE))
    assert sorted(names) == sorted(
        ["LIMIT", "given", "start", "text", "one", "found", "self_made", "self", "self", "asked"]
    )
    participles = {name for name in names if words.is_participle(name)}
    assert participles == {"given", "one", "found", "asked"}


def test_a_participle_alone_is_counted_and_a_word_of_the_field_is_fine() -> None:
    names = ["found", "_given", "one", "asked", "KNOWN", "refused"]
    others = ["pending_calls", "is_known", "expected", "need", "rows", "key"]
    assert [name for name in (*names, *others) if words.is_participle(name)] == names


def test_private_functions_are_used_once_where_one_place_names_them() -> None:
    assert used_once([SAMPLE]) == (["sample.py:29 _only"], 2)


def test_helpers_are_copies_whatever_they_are_called() -> None:
    first = Source(
        "a.py", 'def add(a, b):\n    """Add."""\n    return a + b\n\n\ndef sole(): ...\n'
    )
    second = Source("b.py", "def plus(a, b: int):\n    return a + b\n\n\nclass Sole(dict): ...\n")
    test = Source("test_c.py", "def test_add(a, b):\n    return a + b\n")
    assert list(copies([first, second, test]).values()) == [["a.py:1 add", "b.py:1 plus"]]


def test_words_of_our_own_are_listed_by_line() -> None:
    page = Source("page.md", f"A node.\nThis is read {'in'} vain.\nThere is no longer a limit.\n")
    (place,) = words.private_words([page])
    assert place.startswith("page.md:2 ")


def function(file: str, *callees: Callable[[], None]) -> Callable[[], None]:
    """A function in a file, which calls others in turn."""
    namespace: dict[str, Any] = {"callees": callees}
    exec(compile("def call():\n    for callee in callees: callee()", file, "exec"), namespace)
    return cast(Callable[[], None], namespace["call"])


def test_a_trace_counts_calls_and_moves_between_files() -> None:
    inner = function("/ours/inner.py")
    theirs = function("/theirs/module.py", inner, inner)
    outer = function("/ours/outer.py", inner, theirs)
    trace = traced(function("/ours/outer.py", outer, outer), lambda name: "/ours/" in name)
    assert trace.files == {"/ours/inner.py", "/ours/outer.py"}
    assert (trace.calls, trace.deepest) == (1 + 2 * 4, 3)
    assert trace.moves == 3, "outer, outer, inner (3 times), outer, inner (3 times)"


@each(
    "figure, problem",
    [
        (Figure("f", 3, 3), None),
        (Figure("f", 4, 3), "the goal of 3 is missed"),
        (Figure("f", 5, 3, 5), None),
        (Figure("f", 6, 3, 5), "worse than the ratchet of 5"),
        (Figure("f", 4, 3, 5), "lower the ratchet to 4"),
        (Figure("f", 3, 3, 5), "the goal is reached: remove the ratchet"),
        (Figure("f", 1.2, 3, 1.2, rises=True), None),
        (Figure("f", 1.1, 3, 1.2, rises=True), "worse than the ratchet of 1.2"),
        (Figure("f", 1.3, 3, 1.2, rises=True), "raise the ratchet to 1.3"),
        (Figure("f", 3, 3, rises=True), None),
    ],
)
def test_a_ratchet_follows_the_value_and_never_goes_back(
    figure: Figure, problem: str | None
) -> None:
    assert figure.problem == problem


@pytest.mark.long
def test_the_default_run_comes_first() -> None:
    names = [figure.name for figure in figures()]
    assert names[0] == "files that a tool call behind two layers enters"
    assert len(set(names)) == len(names), "in JSON each figure has its own key"
