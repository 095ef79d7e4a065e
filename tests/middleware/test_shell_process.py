"""One shell process: the protocol of its commands, their output, its life, its process tree."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shells import has_ended

from agent_factory.middleware.shell_tool import process
from agent_factory.middleware.shell_tool.output import EDGE, Output, decode, truncate_output
from agent_factory.middleware.shell_tool.policies import HostExecutionPolicy
from agent_factory.middleware.shell_tool.process import (
    CannotStart,
    CommandResult,
    ProcessTree,
    ShellProcess,
    encode_command,
    new_token,
    split_at_marker,
)
from processes import Processes
from tables import each

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the shell needs a POSIX system")


def never() -> bool:
    return False


def end_marker(token: str, code: int) -> bytes:
    return b"\x1e%s:%d\x1e" % (token.encode(), code)


@given(st.binary(), st.integers(0, 255), st.binary(), st.lists(st.integers(1, 40)))
def test_an_end_marker_is_found_wherever_the_pipe_splits_it(
    before: bytes, code: int, after: bytes, cuts: list[int]
) -> None:
    token = new_token()
    data, left, output, found = before + end_marker(token, code) + after, b"", b"", None
    ends = [sum(cuts[:i]) for i in range(len(cuts) + 1)] + [len(data)]
    for start, end in pairwise(sorted({min(end, len(data)) for end in ends})):
        left += data[start:end]
        if found is None:
            certain, left, found = split_at_marker(left, token)
            output += certain
    assert (output, found, left) == (before, code, after)


@given(st.binary())
def test_without_an_end_marker_of_its_token_no_byte_is_lost(data: bytes) -> None:
    data += end_marker(new_token(), 0)
    certain, rest, code = split_at_marker(data, "token")
    assert (certain + rest, code) == (data, None)
    assert len(rest) <= len(b"\x1etoken:")


@each("command", ["\0", "\udcff"])
def test_a_command_that_no_shell_can_read_is_rejected(command: str) -> None:
    with pytest.raises(ValueError, match="the command"):
        encode_command(command, "t")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[ShellProcess]:
    shell = start(tmp_path)
    yield shell
    shell.kill()


def start(folder: Path, **limits: Any) -> ShellProcess:
    launch = HostExecutionPolicy(**limits).launch(["bash"], folder, {}, new_token())
    return ShellProcess(launch, 60, never)


def text_of(outcome: CommandResult) -> str:
    assert outcome.ending == "finished"
    return decode(outcome.output.ends()[0])


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


@pytest.mark.long
@settings(max_examples=15)
@given(st.lists(st.sampled_from(HARMLESS), max_size=12))
def test_a_session_prints_what_plain_bash_prints(commands: list[str]) -> None:
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
        printed = "".join(text_of(session.run(command, 60, never)) for command in commands)
        session.kill()
        assert printed == plain.stdout.decode()


def _folder(parent: str) -> Path:
    folder = Path(parent, *["w"] * 13)  # twelve times `cd ..` lead to no name of `parent`
    folder.mkdir(parents=True)
    return folder


@pytest.mark.long
@settings(max_examples=20)
@given(st.binary(max_size=200))
def test_no_bytes_make_a_session_hang(data: bytes) -> None:
    """Printed, and given as a command."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").write_bytes(data)
        session = start(Path(folder))
        outcome = session.run("cat data", 60, never)
        assert (outcome.ending, outcome.output.ends()) == ("finished", (data, None))
        command = data.decode("latin-1").replace("\0", "")
        assert session.run(f": '{command}'", 60, never).ending in ("finished", "exited")
        session.kill()


def test_a_long_command_arrives_complete(shell: ShellProcess) -> None:
    assert text_of(shell.run(f"x='{'é' * 50_000}'; echo ${{#x}}", 60, never)) in (
        "50000\n",
        "100000\n",  # where the locale counts bytes
    )


def test_a_cancelled_command_is_killed(shell: ShellProcess, tmp_path: Path) -> None:
    """It would last longer than a test may."""
    outcome = shell.run("echo part; > said; sleep 900", 900, (tmp_path / "said").exists)
    assert (outcome.ending, outcome.output.ends()[0]) == ("cancelled", b"part\n")
    assert not shell.alive


def test_a_shell_that_rejects_its_limits_or_cannot_be_executed_does_not_start(
    tmp_path: Path,
) -> None:
    launch = HostExecutionPolicy().launch(["bash"], tmp_path, {}, "t")
    with pytest.raises(CannotStart, match=r"refused its limits \(ulimit -t much\): bash: "):
        ShellProcess(replace(launch, limits="ulimit -t much"), 60, never)
    program = tmp_path / "shell"
    program.write_text("no program")
    program.chmod(0o755)
    with pytest.raises(CannotStart, match="Exec format error"):
        ShellProcess(replace(launch, argv=(str(program),)), 60, never)


@each("error", ["echo 'a", 'echo "$(', "if true; then", ")", "cat <<EOF", "("])
def test_a_session_continues_after_a_syntax_error(shell: ShellProcess, error: str) -> None:
    shell.run("x=kept", 60, never)
    assert "bash: " in text_of(shell.run(error, 60, never))
    assert text_of(shell.run("echo $x", 60, never)) == "kept\n"


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")


def test_zombies_and_unrelated_processes_are_not_found(processes: Processes) -> None:
    processes.start(["sleep", "95.4"])
    zombie = processes.start(["true"], start_new_session=True)
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert ProcessTree(zombie.pid, zombie.pid).pids() == set()


@on_linux
@pytest.mark.parametrize("lists_children", [True, False])
def test_all_processes_of_a_shell_are_counted(shell: ShellProcess, lists_children: bool) -> None:
    """Orphans and the children of threads, too, and on a kernel without lists of children."""
    shell.process_tree._lists_children = lists_children
    threads = "import subprocess as s, threading as t, time"
    threads += "; [t.Thread(target=s.run, args=(['sleep', '95.2'],)).start() for _ in range(3)]"
    threads = f"{shlex.quote(sys.executable)} -c {shlex.quote(threads)}"
    shell.run("for i in 1 2; do (setsid sleep 95.2 &); sleep 95.2 & done; x=kept", 60, never)
    shell.run(f"{threads} & while [ $(pgrep -cxf 'sleep 95.2') != 7 ]; do :; done", 60, never)
    assert shell.process_tree.is_larger_than(8)
    assert not shell.process_tree.is_larger_than(9)
    assert text_of(shell.run("echo $x", 60, never)) == "kept\n"


def test_a_command_may_kill_the_process_that_adopts_its_orphans(shell: ShellProcess) -> None:
    outcome = shell.run("sleep 95.5 & kill -9 $PPID; sleep 95.5", 60, never)
    assert (outcome.ending, outcome.exit_code) == ("exited", 137)
    assert has_ended("sleep 95.5")


def test_without_an_interpreter_a_shell_runs_without_a_subreaper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a frozen program."""
    monkeypatch.setattr(process, "_SUBREAPER", ())
    shell = start(tmp_path, max_processes=20)
    assert text_of(shell.run("sleep 95.6 & setsid sleep 95.6 & echo on", 60, never)) == "on\n"
    assert shell.process_tree.is_larger_than(2)
    shell.kill()
    assert has_ended("^sleep 95.6")
    assert start(tmp_path).run("exit 4", 60, never).exit_code == 4


def test_without_proc_only_the_process_group_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    monkeypatch.setattr(process, "_PROC", str(tmp_path / "none"))
    shell = start(tmp_path, max_processes=5)
    assert shell.run("sleep 95.3 & echo", 60, never).exit_code == 0
    assert not shell.exceeds_max_processes()
    shell.close(60, never)
    assert has_ended("sleep 95.3")


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
