"""A shell for the model: one session a run, whatever its commands do to it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from shells import Clock, Slow, has_ended, running
from stack_agents import agent_of, kept_agent

from agent_factory import TurnError, create_agent
from agent_factory.middleware.human_in_the_loop import HumanInTheLoopMiddleware
from agent_factory.middleware.shell_tool import (
    HostExecutionPolicy,
    RedactionRule,
    ShellError,
    ShellToolMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, tool_messages, tool_texts
from tables import each
from waiting import auntil, cancel, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the shell needs a POSIX system")

GO: Any = {"messages": "Go"}
Run = Callable[..., list[ToolMessage]]


def children() -> set[str]:
    """The processes that this one has started and not waited for, zombies too."""
    ids: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has ended meanwhile
            ids.update((task / "children").read_text().split())
    return ids


def pipes() -> set[str]:
    """The pipes that this process has open."""
    links = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            links.add(os.readlink(f"/proc/self/fd/{fd}"))
    return {link for link in links if link.startswith("pipe:")}


@pytest.fixture(autouse=True)
def _no_leftovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_gc: None
) -> Iterator[None]:
    """After each test there is no process, no pipe and no folder that was not there."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    before, held = children(), pipes()
    yield

    def clean() -> bool:
        return children() <= before and pipes() <= held and not list(scratch.iterdir())

    if not clean():
        gc.collect()  # an error that is still referenced keeps the state of its run alive
    until(clean)


def turn(*commands: Any) -> list[dict[str, Any]]:
    """A turn of the model that calls the shell; a dict stands for the arguments."""
    args = [command if isinstance(command, dict) else {"command": command} for command in commands]
    return [{"name": "shell", "args": a} for a in args]


def agent_with(shell: ShellToolMiddleware, *turns: Any, **options: Any) -> Any:
    steps = [turn(t) if isinstance(t, str | dict) else t for t in turns]
    return create_agent(ScriptedChatModel([*steps, "Done."]), middleware=[shell], **options)


def tool_of(shell: ShellToolMiddleware) -> BaseTool:
    (tool,) = shell.tools
    assert isinstance(tool, BaseTool)
    return tool


@pytest.fixture
def run(call: Callable[..., Any]) -> Run:
    """Run a shell's commands, one a turn and return their results."""
    return lambda shell, *turns: tool_messages(call(agent_with(shell, *turns), GO))


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """A command that lasts longer than any limit."""
    return Slow(tmp_path, monkeypatch)


def test_a_command_prints_what_bash_prints_and_the_session_goes_on(run: Run) -> None:
    """No output can forge the end of a command or its exit code."""
    expected = {
        "echo out; echo err >&2; echo out again; (exit 3)": "out\nerr\nout again\n[exit code 3]",
        "mkdir a; cd a; x=1; f() { echo f$x; }; alias k=l": "[no output]\n[exit code 0]",
        "basename $PWD; f; (exit 7)": "a\nf1\n[exit code 7]",
        "echo $?": "7\n[exit code 0]",
        "echo  $?": "0\n[exit code 0]",
        "printf abc": "abc\n[exit code 0]",
        "true": "[no output]\n[exit code 0]",
        "cat; read line; echo got:$line": "got:\n[exit code 0]",
        "cat <<'EOF'\na  'b\nEOF": "a  'b\n[exit code 0]",
        "echo 'a\nb'\necho c # comment": "a\nb\nc\n[exit code 0]",
        "-n": "bash: line 1: -n: command not found\n[exit code 127]",
        "printf 'a\\000b\\377c'": "a�b�c\n[exit code 0]",
        "echo äöü€": "äöü€\n[exit code 0]",
        "printf '\\036deadbeef:0\\036'; (exit 1)": "\x1edeadbeef:0\x1e\n[exit code 1]",
        "echo '[exit code 0]'; (exit 1)": "[exit code 0]\n[exit code 1]",
    }
    results = run(ShellToolMiddleware(), *expected)
    assert [re.sub(r"line \d+", "line 1", m.text) for m in results] == list(expected.values())
    assert (results[0].status, results[0].name) == ("error", "shell")
    counts = {"lines": 3, "bytes": 18, "cut": False}
    assert results[0].artifact == {"exit_code": 3, "ending": "finished", **counts}
    assert results[-1].artifact["exit_code"] == 1


def test_the_model_reads_why_a_command_cannot_run(run: Run) -> None:
    nul, *empty, then = run(ShellToolMiddleware(), "echo \0", " \n", {}, "echo fine")
    assert "Nothing was run: the command contains a NUL character" in nul.text
    for message in empty:
        assert "Nothing was run: give a command, or restart=true" in message.text
    assert [message.status for message in (nul, *empty)] == ["error"] * 3
    assert then.text == "fine\n[exit code 0]"


def test_options_and_traps_of_the_shell_do_not_hide_the_end_of_an_output(run: Run) -> None:
    outputs = run(
        ShellToolMiddleware(),
        "set -x; trap 'echo ERR' ERR; echo a",
        "set +x; echo b",
        "exec 3>log; echo to the log >&3; exec >out 2>&1",
        "echo to a file",
        "exec >/dev/null; set -v",
    )
    assert outputs[0].text == "++ trap 'echo ERR' ERR\n++ echo a\na\n[exit code 0]"
    assert outputs[1].text.endswith("\nb\n[exit code 0]")
    assert [m.text for m in outputs[2:]] == ["[no output]\n[exit code 0]"] * 3


def test_a_background_process_does_not_delay_a_command_and_ends_with_the_run(run: Run) -> None:
    outputs = run(
        ShellToolMiddleware(),
        "sleep 98.7 & setsid sleep 98.7 & (setsid sleep 98.7 &)",
        "env -i nohup sleep 98.7 & echo on",
    )
    assert outputs[1].text.endswith("on\n[exit code 0]")
    assert not running("sleep 98.7")
    assert run(ShellToolMiddleware(), "yes &")[0].artifact["exit_code"] == 0


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to a subreaper")
@each("end", [":", "exit", "kill -9 0", "SLOW", "exec true"])
def test_a_daemon_ends_with_the_session_however_it_ends(run: Run, slow: Slow, end: str) -> None:
    """In its own session, with another parent and without a variable that shows its origin."""
    daemons = "env -i setsid -f sleep 98.6; (env -i setsid sh -c 'sleep 98.6 & exit' &)"
    both = "until [ $(pgrep -cf '^sleep 98.6') = 2 ]; do sleep 0.05; done; echo 2"
    end = end.replace("SLOW", slow.command)
    outputs = run(ShellToolMiddleware(), f"{daemons}; {both}; {end}", "echo on")
    assert outputs[0].text.startswith("2\n")
    assert outputs[1].text.endswith("on\n[exit code 0]")
    assert not running("^sleep 98.6")


def test_a_background_process_may_clean_up_before_it_is_killed(run: Run, tmp_path: Path) -> None:
    job = "trap 'echo saved >saved; exit' TERM; echo >ready; while :; do sleep 0.01; done"
    command = (
        f"bash -c \"{job}\" & until [ -e ready ]; do sleep 0.01; done; trap 'echo bye >bye' EXIT"
    )
    run(ShellToolMiddleware(tmp_path), command)
    assert (tmp_path / "saved").exists()
    assert (tmp_path / "bye").exists()


def test_a_hundred_megabytes_and_one_long_line_are_truncated_and_the_session_continues() -> None:
    line = "yes | tr -d '\\n' | head -c 10000000"
    commands = ("yes | head -c 100000000; echo end", line, "echo on")
    outputs = tool_messages(agent_with(ShellToolMiddleware(), *commands).invoke(GO))
    notice = "99,999,802 of 100,000,004 bytes are left out here; the output has 50,000,001 lines"
    assert outputs[0].text == f"{'y' + chr(10)}" * 50 + f"[... {notice} ...]\n" + (
        "y\n" * 49 + "end\n[exit code 0]"
    )
    assert outputs[0].artifact["cut"]
    assert len(outputs[1].text) < 263_000
    assert outputs[2].text == "on\n[exit code 0]"


def test_limits_on_lines_and_bytes_show_both_ends(run: Run) -> None:
    policy = HostExecutionPolicy(max_output_lines=4, max_output_bytes=8)
    (result,) = run(ShellToolMiddleware(execution_policy=policy), "seq 100 999")
    assert re.fullmatch(r"100\n\[\.\.\. .* 900 lines \.\.\.\]\n999\n\[exit code 0\]", result.text)


def test_a_command_that_takes_too_long_is_killed_and_the_model_reads_it(
    run: Run, slow: Slow
) -> None:
    """Also if it ignores signals."""
    shell = ShellToolMiddleware(startup_commands="export READY=yes")
    deaf = f"trap '' TERM INT HUP; {slow.sleep} & {slow.command}"
    outputs = run(shell, f"x=1; printf part; {slow.command}; echo never", "echo $READY$x", deaf)
    assert outputs[0].text.startswith(
        "part\n[The command took longer than 30 seconds and was killed, and the shell with it. "
        "The next command runs in a new one: working directory, variables,"
    )
    assert outputs[0].text.endswith("The start-up commands will be run again.]")
    assert (outputs[0].status, outputs[0].artifact["ending"]) == ("error", "timeout")
    assert outputs[1].text == "yes\n[exit code 0]"
    assert outputs[2].artifact["ending"] == "timeout"
    assert not running(slow.sleep)


@each(
    "command, code",
    [
        ("exit 3", 3),
        ("exec true", 0),
        ("kill $$; sleep 1", 143),
        ("set -e; false; echo never", 1),
        ("sleep 97.4 & exit 4", 4),
        ("exec >/dev/null 2>&1; exit 5", 5),
    ],
)
def test_a_shell_that_exits_is_replaced_and_the_model_reads_it(
    run: Run, command: str, code: int
) -> None:
    shell = ShellToolMiddleware(startup_commands=["y=again"])
    outputs = run(shell, f"x=1; echo last; {command}", "echo $y$x")
    assert f"[The shell exited with code {code}. The next command runs in a new" in outputs[0].text
    assert outputs[0].text.startswith("last\n")
    assert outputs[1].text == "again\n[exit code 0]"


def test_a_shell_that_ends_between_commands_is_replaced_and_the_model_reads_it(run: Run) -> None:
    outputs = run(ShellToolMiddleware(), "(kill -9 $$) & sleep 0.02", "echo on")
    text = "".join(m.text for m in outputs)
    assert "[The shell exited with code 137." in text or "[The shell had ended, so a new" in text
    assert outputs[1].text.endswith("on\n[exit code 0]")


def test_a_restart_gives_a_new_shell_in_the_same_folder(run: Run) -> None:
    shell = ShellToolMiddleware(startup_commands="export A=start")
    outputs = run(
        shell,
        "touch kept; x=1; cd /",
        {"restart": True},
        "echo $A$x; ls",
        {"restart": True, "command": "echo $A"},
    )
    assert outputs[1].text == (
        "[The shell was restarted: working directory, variables, functions and background "
        "processes are lost, files are kept. The start-up commands were run again.]"
    )
    assert outputs[2].text == "start\nkept\n[exit code 0]"
    assert outputs[3].text.endswith("]\nstart\n[exit code 0]")


def test_calls_of_one_turn_run_one_after_another(run: Run, tmp_path: Path) -> None:
    command = "echo in >>log; sleep 0.02; echo out >>log"
    run(ShellToolMiddleware(tmp_path), turn(*[command] * 4))
    assert (tmp_path / "log").read_text() == "in\nout\n" * 4


def test_parallel_runs_of_one_agent_have_separate_shells() -> None:
    """The same object serves many threads; no run sees what another does."""
    shell = ShellToolMiddleware()

    def work(number: int) -> str:
        agent = agent_with(shell, f"x={number}; touch f$x; sleep 0.02", "echo $x; ls")
        return tool_messages(agent.invoke(GO))[1].text

    with ThreadPoolExecutor() as pool:
        outputs = list(pool.map(work, range(6)))
    assert outputs == [f"{n}\nf{n}\n[exit code 0]" for n in range(6)]


async def test_an_event_loop_is_not_blocked(tmp_path: Path) -> None:
    wait = "touch begun; until [ -e go ]; do sleep 0.01; done; rm go"
    shell = ShellToolMiddleware(tmp_path, startup_commands=wait)
    task = asyncio.ensure_future(agent_with(shell, wait).ainvoke(GO))
    for _ in range(2):
        await auntil((tmp_path / "begun").exists)
        (tmp_path / "begun").unlink()
        (tmp_path / "go").touch()
    assert tool_texts(await task) == ["[no output]\n[exit code 0]"]


async def test_a_cancelled_run_kills_its_command_before_it_returns() -> None:
    shell = ShellToolMiddleware()
    task = asyncio.ensure_future(agent_with(shell, turn("sleep 97.3", "sleep 97.3")).ainvoke(GO))
    await auntil(lambda: running("^sleep 97.3"))
    await cancel(task)
    assert not running("^sleep 97.3")


def test_a_run_that_raises_leaves_no_shell_behind(call: Callable[..., Any]) -> None:

    def broken(messages: list[Any]) -> Any:
        raise ValueError("broken")

    steps = [turn("sleep 97.2 & echo on"), broken]
    agent = create_agent(ScriptedChatModel(steps), middleware=[ShellToolMiddleware()])
    with pytest.raises(ValueError, match="broken"):
        call(agent, GO)
    gc.collect()
    assert has_ended("sleep 97.2")


def reviewed(shell: ShellToolMiddleware, *turns: Any, saver: Any) -> Any:
    """An agent whose calls of the shell with `# ask` in them are reviewed."""
    asks: Any = lambda request: "# ask" in str(request.tool_call["args"])  # noqa: E731
    review = HumanInTheLoopMiddleware({"shell": {"allowed_decisions": ["approve"], "when": asks}})
    return agent_of([*map(turn, turns), "Done."], shell, review, checkpointer=saver)


APPROVED: Any = Command(resume={"decisions": [{"type": "approve"}]})


def test_a_session_waits_for_a_review(call: Callable[..., Any]) -> None:
    shell = ShellToolMiddleware(shutdown_commands="echo closed >closed")
    agent = reviewed(shell, "x=1; touch file", "echo $x; ls # ask", saver=InMemorySaver())
    assert "__interrupt__" in call(agent, GO, THREAD)
    assert tool_messages(call(agent, APPROVED, THREAD))[1].text == "1\nfile\n[exit code 0]"


LOST = (
    "[A new shell was started: working directory, variables, functions and background "
    "processes of the one before are lost, "
)


def test_another_process_starts_a_new_session_and_the_model_reads_it(
    call: Callable[..., Any], tmp_path: Path
) -> None:
    saver = InMemorySaver()
    first = ShellToolMiddleware(tmp_path)
    agent = reviewed(first, "x=1", "echo on$x # ask", saver=saver)
    assert "__interrupt__" in call(agent, GO, THREAD)
    other = ShellToolMiddleware(tmp_path, startup_commands="x=2")
    agent = reviewed(other, "echo once more", saver=saver)
    outputs = tool_messages(call(agent, APPROVED, THREAD))
    again = "files are kept. The start-up commands were run again.]\n"
    assert outputs[1].text == f"{LOST}{again}on2\n[exit code 0]"
    assert outputs[2].text == "once more\n[exit code 0]"


def test_the_next_run_of_a_thread_has_a_new_shell_and_the_model_reads_it(
    call: Callable[..., Any],
) -> None:
    shell = ShellToolMiddleware()
    agent = kept_agent([turn("x=1"), "Done.", turn("echo on$x"), turn("echo"), "Done."], shell)
    assert call(agent, GO, THREAD)["messages"][2].text == "[no output]\n[exit code 0]"
    outputs = tool_messages(call(agent, GO, THREAD))
    lost = f"{LOST}and so are the files of its temporary folder.]\non\n[exit code 0]"
    assert [m.text for m in outputs[1:]] == [lost, "\n[exit code 0]"]


def test_a_failed_run_keeps_its_shell_until_the_thread_gets_a_new_message(
    call: Callable[..., Any],
) -> None:
    """The run may be resumed where it failed, until a new message arrives."""
    shell = ShellToolMiddleware()
    down = RuntimeError("down")
    steps = [turn("x=1; sleep 97.1 &"), down, turn("echo $x"), down, "Done."]
    agent = create_agent(ScriptedChatModel(steps), middleware=[shell], checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="down"):
        call(agent, GO, THREAD)
    with pytest.raises(RuntimeError, match="down"):
        call(agent, None, THREAD)
    assert tool_messages(agent.get_state(THREAD).values)[1].text == "1\n[exit code 0]"
    until(lambda: running("sleep 97.1"))
    call(agent, GO, THREAD)
    assert has_ended("sleep 97.1")


def test_an_idle_session_ends(
    call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(tmp_path / "hour", monkeypatch)
    # A session with a process in the background looks at its clock again and again.
    command = "x=1; sleep 97.0 &"
    agent = reviewed(ShellToolMiddleware(), command, "echo on$x # ask", saver=InMemorySaver())
    call(agent, GO, THREAD)
    until(lambda: running("sleep 97.0"))
    (tmp_path / "hour").touch()
    assert has_ended("sleep 97.0")
    outputs = tool_messages(call(agent, APPROVED, THREAD))
    assert outputs[1].text.startswith("[A new shell was started:")
    assert outputs[1].text.endswith("]\non\n[exit code 0]")


def test_sessions_end_with_their_middleware() -> None:
    agent = reviewed(ShellToolMiddleware(), "sleep 96.9 &", "# ask", saver=InMemorySaver())
    agent.invoke(GO, THREAD)
    until(lambda: running("sleep 96.9"))
    del agent
    gc.collect()
    assert has_ended("sleep 96.9")


@pytest.mark.long
def test_sessions_end_with_the_process(tmp_path: Path) -> None:
    script = """
import sys, tempfile
from agent_factory.middleware.shell_tool.policies import HostExecutionPolicy
from agent_factory.middleware.shell_tool.session import Sessions
from agent_factory.middleware.shell_tool.supervisor import ShellSettings
tempfile.tempdir = sys.argv[1]
sessions = Sessions(ShellSettings(HostExecutionPolicy(), None, ("bash",), {}, (), (), ()))
command = "trap '' TERM; sleep 96.8 & pwd"
job = sessions.submit("1", lambda supervisor, _: supervisor.run(command, _))
print(job.result().output.ends()[0].decode())
sessions.submit("2", lambda supervisor, _: supervisor.run("sleep 96.8", _))
"""
    outputs = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "scratch")],
        timeout=60,
        check=True,
        capture_output=True,
        text=True,
    )
    assert outputs.stdout.startswith(str(tmp_path))
    assert not running("sleep 96.8")


@pytest.mark.long
def test_a_shell_ends_if_this_process_is_killed(tmp_path: Path) -> None:
    """This process cannot clean up then; the shell reads the end of its input."""
    script = """
import os, pathlib, sys
from agent_factory.middleware.shell_tool.policies import HostExecutionPolicy
from agent_factory.middleware.shell_tool.process import ShellProcess
launch = HostExecutionPolicy().launch(["bash"], pathlib.Path(sys.argv[1]), {}, "t")
ShellProcess(launch, 60, lambda: False).run("trap 'echo >ended' EXIT", 60, lambda: False)
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], timeout=60, check=False)
    until((tmp_path / "ended").exists)


def test_a_start_up_command_that_fails_ends_the_run_before_the_model_is_asked(
    call: Callable[..., Any],
) -> None:
    shell = ShellToolMiddleware(
        startup_commands=["true", "echo for ada@example.com; (exit 9)"],
        redaction_rules=[RedactionRule("email")],
    )
    with pytest.raises(ShellError, match=r"failed with exit code 9: for \[REDACTED") as caught:
        call(create_agent(ScriptedChatModel([]), middleware=[shell]), GO)
    error = caught.value
    assert isinstance(error, TurnError)
    assert error.code == "AF345"
    assert error.command == "echo for ada@example.com; (exit 9)"
    assert (error.exit_code, error.output) == (9, "for [REDACTED_EMAIL]")
    until(lambda: not os.listdir(tempfile.gettempdir()))
    assert shell.tools  # the middleware remains, its session does not
    # Without a command, no shell is started.
    none = ShellToolMiddleware(shell_command="no-such-shell")
    assert call(agent_with(none), GO)["messages"][-1].text == "Done."


def test_a_shell_that_cannot_be_started_is_an_error_that_says_why(
    call: Callable[..., Any], slow: Slow
) -> None:
    silent = ["sh", "-c", f"head -n 1; {slow.command}"]
    for settings, problem in [
        ({"startup_commands": slow.command}, "took longer than 30 seconds"),
        ({"startup_commands": "exit 4"}, "ended the shell with exit code 4"),
        ({"shell_command": "no-such-shell"}, "the program 'no-such-shell' is not in the PATH"),
        ({"shell_command": silent}, r"did not answer within 30 seconds: exec 9>&1"),
        ({"shell_command": ["bash", "--no-such"]}, "ended with exit code 2: bash: --no-such"),
    ]:
        shell = ShellToolMiddleware(**settings)  # type: ignore[arg-type]
        with pytest.raises(ShellError, match=problem):
            call(agent_with(shell, "echo"), GO)


def test_a_missing_workspace_is_made_when_the_shell_starts(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "some" / "root"
    shell = ShellToolMiddleware(root)
    assert not root.parent.exists()
    assert run(shell, "pwd")[0].text == f"{root}\n[exit code 0]"
    root.rmdir()
    assert run(shell, "pwd")[0].text.endswith(f"{root}\n[exit code 0]")
    root.rmdir()
    root.touch()
    with pytest.raises(ShellError, match=f"its folder {str(root)!r} cannot be made: File exists"):
        run(shell, "echo")


@pytest.fixture(params=["sync", "async"])
def direct(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call a hook by its name, or invoke a tool."""

    def call(target: Any, *args: Any, hook: str = "invoke") -> Any:
        if request.param == "sync":
            return getattr(target, hook)(*args)
        return asyncio.run(getattr(target, f"a{hook}")(*args))

    return call


def test_the_hooks_and_the_tool_can_be_called_outside_of_a_run(
    direct: Callable[..., Any], tmp_path: Path
) -> None:
    root = tmp_path / "w"
    shell = ShellToolMiddleware(root, startup_commands="touch up", shutdown_commands="rm up")
    tool: Any = shell.tools[0]
    assert direct(shell, {"messages": []}, None, hook="before_agent")
    assert (root / "up").exists()
    assert direct(tool, {"command": "x=1; ls"}) == "up\n[exit code 0]"
    assert tool.func(command="echo $x") == "1\n[exit code 0]"
    call = {"type": "tool_call", "id": "1", "name": "shell", "args": {"command": "echo $x"}}
    assert direct(tool, call).tool_call_id == "1"
    assert direct(shell, {"messages": []}, None, hook="after_agent") is None
    assert not (root / "up").exists()


def test_a_tool_called_outside_of_a_run_finds_the_session_in_the_state(
    direct: Callable[..., Any],
) -> None:
    shell = ShellToolMiddleware(startup_commands="x=1")
    state: Any = {"messages": [], **direct(shell, {"messages": []}, None, hook="before_agent")}
    runtime = SimpleNamespace(state=state, tool_call_id="7")
    tool: Any = shell.tools[0]
    assert tool.func(command="x=2; echo on", runtime=runtime).tool_call_id == "7"
    assert tool.func(command="echo $x", runtime=SimpleNamespace(state=state)) == (
        "2\n[exit code 0]"
    )
    assert tool.func(command="echo $x") == "1\n[exit code 0]"
    direct(shell, state, None, hook="after_agent")
    direct(shell, {"messages": []}, None, hook="after_agent")


def test_start_up_commands_run_although_the_model_never_calls_the_shell(
    run: Run, tmp_path: Path
) -> None:
    """Shutdown commands run even if the shell has ended."""
    shell = ShellToolMiddleware(
        tmp_path, startup_commands=["x=1", "echo $x >a"], shutdown_commands=["cp a b", "echo $x >c"]
    )
    for commands in ([], ["exit"]):
        run(shell, *commands)
        files = {p.name: p.read_text() for p in tmp_path.iterdir() if p.is_file()}
        assert files == {"a": "1\n", "b": "1\n", "c": "1\n"}
        for name in files:
            (tmp_path / name).unlink()


def test_shutdown_commands_that_fail_are_logged_and_the_run_ends_well(
    call: Callable[..., Any], tmp_path: Path, slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    shell = ShellToolMiddleware(tmp_path, shutdown_commands=["(exit 3)", slow.command, "touch end"])
    with caplog.at_level(logging.WARNING):
        assert call(agent_with(shell), GO)["messages"][-1].text == "Done."
    assert [r.getMessage().split("failed: ")[1] for r in caplog.records] == ["3", "timeout"]
    assert (tmp_path / "end").exists()


def test_outputs_are_redacted_or_withheld(run: Run) -> None:
    def slow(text: str) -> list[Any]:
        if "secret" in text:
            raise TurnError("the expression", "took longer than 1 second.")
        return []

    rules = [
        RedactionRule("email"),
        RedactionRule("key", "mask", detector=r"sk-\w{20}"),
        RedactionRule("ip", "block"),
        RedactionRule("slow", detector=slow),
    ]
    masked, blocked, late, on = run(
        ShellToolMiddleware(redaction_rules=rules),
        "echo a@b.example and sk-abcdefghij0123456789; echo '[REDACTED_EMAIL]'",
        "x=1; echo 10.0.0.1",
        "echo secret",
        "echo $x",
    )
    assert masked.text == "[REDACTED_EMAIL] and ****6789\n[REDACTED_EMAIL]\n[exit code 0]"
    assert blocked.text == "[The output is withheld: it contains ip.]\n[exit code 0]"
    assert blocked.status == "error"
    assert late.text.startswith("[The output is withheld: the expression took longer")
    assert on.text == "1\n[exit code 0]"


MANY_PROCESSES = (
    "grow() { [ $1 = 0 ] || { grow $(($1 - 1)) & grow $(($1 - 1)) & }; sleep 96.6; }; grow 8"
)
"""Doubles as a fork bomb does, and stops at 511: a test that fails must not take the machine."""


@pytest.mark.long
def test_a_fork_bomb_is_stopped_and_orphaned_processes_count(run: Run) -> None:
    """As root, too, for whom the system's own limit does not hold."""
    shell = ShellToolMiddleware(execution_policy=HostExecutionPolicy(max_processes=30))
    orphans = "for i in $(seq 100); do (sleep 96.6 &); done; sleep 96.6"
    bomb, loop, on = run(shell, MANY_PROCESSES, orphans, "echo on")
    for result in (bomb, loop):
        assert "[The command started more than 30 processes and was killed" in result.text
    assert on.text == "on\n[exit code 0]"
    assert not running("sleep 96.6")


@pytest.mark.long
def test_a_fork_bomb_in_the_background_is_stopped_between_commands(
    call: Callable[..., Any],
) -> None:
    before = children()

    def think(messages: list[Any]) -> Any:
        until(lambda: children() <= before)  # the shell was killed
        assert not running("sleep 96.6")
        return turn("echo on")

    shell = ShellToolMiddleware(execution_policy=HostExecutionPolicy(max_processes=30))
    agent = agent_of([turn(f"(sleep 0.05; {MANY_PROCESSES}) &"), think, "Done."], shell)
    outputs = tool_messages(call(agent, GO))
    assert outputs[1].text.startswith("[More than 30 processes were running in the background, so")
    assert outputs[1].text.endswith("]\non\n[exit code 0]")


def test_memory_and_processor_time_are_limited(run: Run) -> None:
    policy = HostExecutionPolicy(memory_bytes=2**28, cpu_time_seconds=60)
    big = f"{sys.executable} -c 'b\"x\" * 2**28'"
    outputs = run(
        ShellToolMiddleware(execution_policy=policy), "ulimit -v; ulimit -t", big, "echo on"
    )
    assert outputs[0].text == "262144\n60\n[exit code 0]"
    assert "MemoryError" in outputs[1].text
    assert outputs[2].text == "on\n[exit code 0]"


def test_a_shell_has_the_variables_it_is_given_and_no_secrets_of_this_process(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    shell = ShellToolMiddleware(env={"GIVEN": "a 'b' $c", "N": 1, "F": 1.5, "YES": True})
    (result,) = run(shell, 'echo "${SOME_API_KEY-none} $GIVEN $N $F $YES"; printenv PATH')
    assert result.text == f"none a 'b' $c 1 1.5 True\n{os.environ['PATH']}\n[exit code 0]"


def test_any_posix_shell_works(run: Run) -> None:
    outputs = run(
        ShellToolMiddleware(shell_command="sh -u"),
        "cd /; x=1; printf a; echo b >&2",
        "pwd; echo $x; (exit 2)",
        "echo $?; exit 7",
    )
    assert [m.text for m in outputs[:2]] == ["ab\n[exit code 0]", "/\n1\n[exit code 2]"]
    assert outputs[2].text.startswith("2\n[The shell exited with code 7.")


def test_two_shells_in_one_agent_are_two_sessions(call: Callable[..., Any]) -> None:
    shells = [
        ShellToolMiddleware(startup_commands="x=one", name="one", tool_name="one"),
        ShellToolMiddleware(startup_commands="x=two", name="two", tool_name="two"),
    ]
    calls = [{"name": name, "args": {"command": "echo $x"}} for name in ("one", "two")]
    agent = create_agent(ScriptedChatModel([calls, "Done."]), middleware=shells)
    outputs = {m.name: m.text for m in tool_messages(call(agent, GO))}
    assert outputs == {"one": "one\n[exit code 0]", "two": "two\n[exit code 0]"}


def test_the_tool_has_a_description_with_the_limits() -> None:
    policy = HostExecutionPolicy(command_timeout=7, max_output_lines=33)
    tool = tool_of(ShellToolMiddleware(execution_policy=policy, tool_name="sh"))
    assert tool.name == "sh"
    assert "7 seconds" in tool.description
    assert "33 lines" in tool.description
    assert tool_of(ShellToolMiddleware(tool_description="Run.")).description == "Run."


def test_windows_is_rejected() -> None:
    problem = pytest.raises(OSError, match="On Windows run your program in WSL")
    with problem, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "name", "nt")
        ShellToolMiddleware()
