"""The parts of a shell tool by themselves: the protocol, the output, the process, its family."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_factory.middleware.shell_tool import process_tree as _processes
from agent_factory.middleware.shell_tool.output import EDGE, Output, readable, shown
from agent_factory.middleware.shell_tool.policies import HostExecutionPolicy
from agent_factory.middleware.shell_tool.process import (
    CannotStart,
    Outcome,
    Shell,
    new_token,
    request,
    split,
)
from agent_factory.middleware.shell_tool.process_tree import Family

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the shell needs a POSIX system")


def never() -> bool:
    return False


def mark(token: str, code: int) -> bytes:
    return b"\x1e%s:%d\x1e" % (token.encode(), code)


# The protocol


@given(st.binary(), st.integers(0, 255), st.binary(), st.lists(st.integers(1, 40)))
def test_a_mark_is_found_wherever_the_pipe_cuts_it(
    before: bytes, code: int, after: bytes, cuts: list[int]
) -> None:
    token = new_token()
    data, left, said, found = before + mark(token, code) + after, b"", b"", None
    ends = [sum(cuts[:i]) for i in range(len(cuts) + 1)] + [len(data)]
    for start, end in pairwise(sorted({min(end, len(data)) for end in ends})):
        left += data[start:end]
        if found is None:
            certain, left, found = split(left, token)
            said += certain
    assert (said, found, left) == (before, code, after)


@given(st.binary())
def test_without_the_mark_nothing_is_lost(data: bytes) -> None:
    certain, rest, code = split(data, "token")
    assert certain + rest == data
    assert code is None
    assert len(rest) <= len(b"\x1etoken:")


def test_a_mark_with_another_word_is_output() -> None:
    forged = mark(new_token(), 0)
    certain, rest, code = split(forged, new_token())
    assert (certain + rest, code) == (forged, None)


def test_a_request_is_one_line_for_the_shell_whatever_the_command() -> None:
    line = request("a\n'b'", "t", status=3).decode()
    assert line.startswith("(exit 3) 2>/dev/null; eval ' a\n'")
    assert line.endswith("9>&-; { command printf '\\036%s:%d\\036' t \"$?\" >&9; } 2>/dev/null\n")


@pytest.mark.parametrize("command", ["\0", "\udcff"])
def test_a_command_that_cannot_be_sent_is_refused(command: str) -> None:
    with pytest.raises(ValueError, match="the command"):
        request(command, "t")


# The output


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
def test_what_is_shown_keeps_within_its_limits(
    text: str, max_lines: int, max_bytes: int | None
) -> None:
    told, cut = shown(output_of(text.encode("utf-8", "replace"), 50), max_lines, max_bytes)
    if not cut:
        assert told == readable(text.encode("utf-8", "replace"))
        assert told.removesuffix("\n").count("\n") < max_lines
        assert max_bytes is None or len(told.encode()) <= max_bytes
        return
    head, notice, tail = told.rpartition("[... ")[0], "left out here", told.rpartition("...]\n")[2]
    assert notice in told
    assert head.removesuffix("\n").count("\n") + tail.removesuffix("\n").count("\n") <= max_lines
    assert max_bytes is None or len(head.encode()) + len(tail.encode()) <= max_bytes + 1


def test_memory_is_bounded_whatever_is_printed() -> None:
    output = Output(keep=1000)
    for _ in range(1000):
        output.add(b"x" * 10_000)
    assert len(output._head) + len(output._tail) <= 13_000
    assert output.size == 10_000_000


def test_no_cut_parts_a_secret_from_its_rule() -> None:
    """Lines, bytes and what is dropped while reading: each might show half of it."""
    secret = "ada@example.com"

    def hide(text: str) -> str:
        return text.replace(secret, "[GONE]")

    text = "\n".join(f"{i} {secret}" for i in range(3000))
    for keep in range(6000, 6040):
        for limits in [(10, None), (1000, None), (1000, 300), (1000, 301 + keep % 20)]:
            told, _ = shown(output_of(text.encode(), keep, 4096), *limits, [hide])
            assert "ada@" not in told
            assert "example" not in told


def test_next_to_a_gap_nothing_is_shown_that_might_be_half_a_secret() -> None:
    text = "a" * 10_000 + "b" * 10_000
    told, _ = shown(output_of(text.encode(), 6000), 10, None, [str.upper])
    assert told.count("A") == told.count("B") == 6000 - EDGE


def test_characters_are_not_cut_in_two() -> None:
    told, _ = shown(output_of(("€" * 1000).encode(), 100), 10, None)
    assert "�" not in told
    told, _ = shown(output_of(("€" * 1000).encode(), 5000), 10, 100)
    assert "�" not in told


# The process


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = start(tmp_path)
    yield shell
    shell.kill()


def start(folder: Path, **limits: Any) -> Shell:
    launch = HostExecutionPolicy(**limits).launch(["bash"], folder, {}, new_token())
    return Shell(launch, new_token(), 5, never)


def text_of(outcome: Outcome) -> str:
    assert outcome.ending == "finished"
    return readable(outcome.output.ends()[0])


HARMLESS = [
    "x=$((x + 1))",
    'echo "$x"',
    "printf 'no newline'",
    "mkdir -p a/b; cd a",
    "cd ..",
    'basename "$PWD"',
    'f() { echo "f$x"; return 3; }',
    "f 2>/dev/null",
    "false",
    "echo $?",
    "echo error >&2",
    "set -- one two 'three  four'",
    'echo "$# $3"',
    "cat <<EOF\n$x and 'quotes\" and \\\\ \nEOF",
    "for i in 1 2 3; do\n  echo $i\ndone",
    "(exit 4)",
    "true | false",
    "y='a\nb'; echo \"$y\" | wc -l",
    "shopt -s nullglob; echo *.none",
    'read -r line; echo "<$line>"',
    "case $x in 1) echo one;; *) echo other;; esac",
    "exec 5>&1; echo five >&5; exec 5>&-",
    "declare -A map=([k]=v); map[n]=$x; echo ${map[k]} ${map[n]}",
    "trap 'echo caught' USR1; kill -USR1 $$; trap - USR1",
    "echo 'a' # b",
    "wait; echo done & wait",
    "! true",
]


@settings(max_examples=15)
@given(st.lists(st.sampled_from(HARMLESS), max_size=12))
def test_a_session_gives_what_one_plain_bash_gives(commands: list[str]) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        plain = subprocess.run(
            ["bash", "-c", "".join(f"{command}\n" for command in ["cd .", *commands])],
            cwd=_folder(one),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        session = start(_folder(other))
        told = "".join(text_of(session.run(command, 5, never)) for command in commands)
        session.kill()
        assert told == plain.stdout.decode()


def _folder(parent: str) -> Path:
    folder = Path(parent, "w")
    folder.mkdir()
    return folder


@settings(max_examples=20)
@given(st.binary(max_size=200))
def test_no_bytes_make_a_session_hang(data: bytes) -> None:
    """Printed, and given as a command."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").write_bytes(data)
        session = start(Path(folder))
        outcome = session.run("cat data", 5, never)
        assert (outcome.ending, outcome.output.ends()) == ("finished", (data, None))
        command = data.decode("latin-1").replace("\0", "")
        assert session.run(f": '{command}'", 5, never).ending in ("finished", "exited")
        session.kill()


def test_a_long_command_arrives_whole(shell: Shell) -> None:
    assert text_of(shell.run(f"x='{'é' * 50_000}'; echo ${{#x}}", 10, never)) in (
        "50000\n",
        "100000\n",  # where the locale counts bytes
    )


def test_a_caller_who_gives_up_ends_the_command(shell: Shell) -> None:
    started = time.monotonic()
    outcome = shell.run("echo part; sleep 9", 9, lambda: time.monotonic() - started > 0.1)
    assert (outcome.ending, outcome.output.ends()[0]) == ("cancelled", b"part\n")
    assert not shell.alive
    assert time.monotonic() - started < 5


def test_a_shell_whose_limits_are_refused_does_not_start(tmp_path: Path) -> None:
    launch = HostExecutionPolicy().launch(["bash"], tmp_path, {}, "t")
    with pytest.raises(CannotStart, match=r"refused its limits \(ulimit -t much\): bash: "):
        Shell(replace(launch, limits="ulimit -t much"), new_token(), 5, never)


@pytest.mark.parametrize("error", ["echo 'a", 'echo "$(', "if true; then", ")", "cat <<EOF", "("])
def test_after_a_syntax_error_the_session_goes_on(shell: Shell, error: str) -> None:
    shell.run("x=kept", 5, never)
    assert "bash: " in text_of(shell.run(error, 5, never))
    assert text_of(shell.run("echo $x", 5, never)) == "kept\n"


# The family


def test_a_family_is_found_by_descent_by_session_and_by_its_variable(tmp_path: Path) -> None:
    shell = start(tmp_path)
    try:
        shell.run("sleep 95.1 & setsid sleep 95.1 & (setsid sleep 95.1 &); sleep 0.05", 5, never)
        assert len(shell._family.alive()) == 4
        shell.run("env -i setsid sleep 95.1 & sleep 0.05", 5, never)
        assert len(shell._family.alive()) == 5
    finally:
        shell.kill()
    assert not shell._family.alive()


def test_zombies_and_strangers_are_no_family() -> None:
    stranger = subprocess.Popen(["sleep", "5"])
    zombie = subprocess.Popen(["true"], start_new_session=True)
    try:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert Family(zombie.pid, "no such cookie").alive() == set()
    finally:
        stranger.kill()
        stranger.wait()
        zombie.wait()


def test_a_family_under_its_limit_goes_on_after_it_was_counted(shell: Shell) -> None:
    shell.run("for i in 1 2 3 4 5 6; do sleep 95.2 & done; x=kept", 5, never)
    shell._family._fewest = 0  # the system looks crowded
    assert not shell._family.outgrew(20)
    assert text_of(shell.run("echo $x", 5, never)) == "kept\n"
    shell._family._fewest = 0
    assert shell._family.outgrew(6)


def test_nothing_that_ends_elsewhere_hides_that_a_family_grows(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_processes, "_tasks", lambda: 0)
    shell.run("for i in 1 2 3 4 5 6; do sleep 95.4 & done", 5, never)
    assert shell._family.outgrew(6)
    assert not shell._family.outgrew(7)


def test_without_proc_the_process_group_is_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    monkeypatch.setattr(_processes, "_PROC", str(tmp_path / "none"))
    shell = start(tmp_path, max_processes=5)
    assert shell.run("sleep 95.3 & echo", 5, never).exit_code == 0
    assert not shell.crowded()
    shell.close(0.1, never)
    assert subprocess.run(["pgrep", "-f", "sleep 95.3"], capture_output=True).returncode
