"""Output of a command: kept within bounds, redacted and truncated."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_factory.middleware.shell_tool.output import EDGE, Output, decode, truncate_output


def output_of(data: bytes, keep: int = 1000, step: int = 7) -> Output:
    output = Output(keep)
    for start in range(0, len(data), step):
        output.add(data[start : start + step])
    return output


@given(st.binary(max_size=300), st.integers(1, 50), st.integers(1, 100))
def test_an_output_keeps_its_ends_and_counts_the_rest(data: bytes, keep: int, step: int) -> None:
    output = output_of(data, keep, step)
    assert output.size == len(data)
    assert output.lines == len(data.removesuffix(b"\n").split(b"\n")) - (not data)
    first, last = output.ends()
    assert data.startswith(first)
    if last is None:
        assert first == data
    else:
        assert data.endswith(last)
        assert len(first) == len(last) == keep < len(data)


@given(st.text(max_size=300), st.integers(1, 10), st.none() | st.integers(1, 100))
def test_truncated_output_stays_within_its_limits(
    text: str, max_lines: int, max_bytes: int | None
) -> None:
    visible, cut = truncate_output(
        output_of(text.encode("utf-8", "replace"), 50), max_lines, max_bytes
    )
    if not cut:
        assert visible == decode(text.encode("utf-8", "replace"))
        assert visible.removesuffix("\n").count("\n") < max_lines
        assert max_bytes is None or len(visible.encode()) <= max_bytes
        return
    head, notice, tail = (
        visible.rpartition("[... ")[0],
        "left out here",
        visible.rpartition("...]\n")[2],
    )
    assert notice in visible
    assert head.removesuffix("\n").count("\n") + tail.removesuffix("\n").count("\n") <= max_lines
    assert max_bytes is None or len(head.encode()) + len(tail.encode()) <= max_bytes + 1


def test_the_memory_of_an_output_is_bounded() -> None:
    output = Output(keep=1000)
    for _ in range(1000):
        output.add(b"x" * 10_000)
    assert len(output._head) + len(output._tail) <= 13_000
    assert output.size == 10_000_000


def test_no_cut_hides_a_secret_from_its_rule() -> None:
    """Lines, bytes and what is dropped while reading: each might show half of it."""
    secret = "ada@example.com"

    def hide(text: str) -> str:
        return text.replace(secret, "[GONE]")

    text = "\n".join(f"{i} {secret}" for i in range(3000))
    for keep in range(6000, 6040):
        for limits in [(10, None), (1000, None), (1000, 300), (1000, 301 + keep % 20)]:
            visible, _ = truncate_output(output_of(text.encode(), keep, 4096), *limits, [hide])
            assert "ada@" not in visible
            assert "example" not in visible


def test_text_next_to_a_gap_is_hidden_if_there_are_rules() -> None:
    text = "a" * 10_000 + "b" * 10_000
    visible, _ = truncate_output(output_of(text.encode(), 6000), 10, None, [str.upper])
    assert visible.count("A") == visible.count("B") == 6000 - EDGE


def test_characters_are_not_split() -> None:
    visible, _ = truncate_output(output_of(("€" * 1000).encode(), 100), 10, None)
    assert "�" not in visible
    visible, _ = truncate_output(output_of(("€" * 1000).encode(), 5000), 10, 100)
    assert "�" not in visible
