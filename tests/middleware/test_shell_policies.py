"""Where a shell runs: what each policy starts, and what its sandbox withholds from a command."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shells import Slow, has_ended

from agent_factory import create_agent
from agent_factory.middleware.shell_tool import (
    BubblewrapExecutionPolicy,
    CodexSandboxExecutionPolicy,
    DockerExecutionPolicy,
    ExecutionPolicy,
    HostExecutionPolicy,
    ShellError,
    ShellToolMiddleware,
)
from agent_factory.middleware.shell_tool.policies import as_toml
from agent_factory.testing import ScriptedChatModel
from samples import tool_texts
from tables import each

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the shell needs a POSIX system")

POLICIES = [
    HostExecutionPolicy,
    BubblewrapExecutionPolicy,
    DockerExecutionPolicy,
    CodexSandboxExecutionPolicy,
]
Run = Callable[..., list[str]]

MANY_PROCESSES = (
    "grow() { [ $1 = 0 ] || { grow $(($1 - 1)) & grow $(($1 - 1)) & }; setsid sleep 94.4; }; grow 8"
)
"""Doubles as a fork bomb does, and stops at 511: a test that fails must not take the machine."""


@pytest.fixture
def run(call: Callable[..., Any]) -> Run:
    """Run commands in a shell, one a turn; return what the model read."""

    def run_commands(
        policy: ExecutionPolicy, folder: Path, *commands: str, **options: Any
    ) -> list[str]:
        shell = ShellToolMiddleware(folder, execution_policy=policy, **options)
        steps = [[{"name": "shell", "args": {"command": command}}] for command in commands]
        agent = create_agent(ScriptedChatModel([*steps, "Done."]), middleware=[shell])
        return tool_texts(call(agent, {"messages": "Go"}))

    return run_commands


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """A command that lasts longer than any limit, in the workspace."""
    return Slow(tmp_path, monkeypatch, seen_as=".")


def test_the_host_policy_passes_few_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    policy = HostExecutionPolicy(memory_bytes=2**30, cpu_time_seconds=9, max_processes=None)
    launch = policy.launch(["bash", "-u"], Path("/srv"), {"A": "b"}, "t1")
    assert (launch.argv, launch.folder) == (("bash", "-u"), Path("/srv"))
    assert launch.limits == "ulimit -v 1048576 && ulimit -t 9"
    assert (launch.max_processes, launch.env["A"]) == (None, "b")
    assert "SOME_API_KEY" not in launch.env


def has_bubblewrap() -> str:
    """Why bubblewrap cannot be used here; empty if it can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    tried = subprocess.run(
        ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], capture_output=True, text=True
    )
    return f"bubblewrap may not make namespaces here: {tried.stderr}" if tried.returncode else ""


needs_bubblewrap = pytest.mark.skipif(bool(has_bubblewrap()), reason=has_bubblewrap())


def test_bubblewrap_shares_only_the_system_and_the_workspace() -> None:
    policy = BubblewrapExecutionPolicy(read_only_paths=["/opt"], memory_bytes=2**30)
    launch = policy.launch(["bash"], Path("/srv/w"), {"A": "b"}, "t1")
    text = " ".join(launch.argv)
    assert launch.argv[-2:] == ("--", "bash")
    for part in (
        "--die-with-parent --new-session --unshare-all --cap-drop ALL",
        "--clearenv",
        "--setenv A b",
        "--ro-bind-try /usr /usr",
        "--size 268435456 --tmpfs /tmp --ro-bind /opt /opt --bind /srv/w /workspace",
        "--remount-ro /dev --remount-ro /proc --remount-ro /",
    ):
        assert part in text
    for part in ("--share-net", "resolv.conf", "/home", "/etc/shadow", "--dev-bind"):
        assert part not in text
    assert launch.limits == "ulimit -v 1048576"
    shared = BubblewrapExecutionPolicy(network_enabled=True).launch([], Path(), {}, "").argv
    assert {"--share-net", "/etc/resolv.conf"} <= set(shared)


@needs_bubblewrap
def test_a_session_in_bubblewrap_works_like_any_other(run: Run, tmp_path: Path) -> None:
    outputs = run(
        BubblewrapExecutionPolicy(),
        tmp_path,
        "pwd; mkdir a; cd a; x=1; sleep 94.1 & setsid sleep 94.1 & echo $A",
        "echo $x >file; pwd; (exit 3)",
        "exit 4",
        "pwd",
        env={"A": "given"},
    )
    assert outputs[0] == "/workspace\ngiven\n[exit code 0]"
    assert outputs[1] == "/workspace/a\n[exit code 3]"
    assert "[The shell exited with code 4." in outputs[2]
    assert outputs[3] == "/workspace\n[exit code 0]"
    assert (tmp_path / "a" / "file").read_text() == "1\n"
    assert has_ended("^sleep 94.1")


@needs_bubblewrap
def test_bubblewrap_confines_commands(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that a malicious prompt could make the model run."""
    monkeypatch.setenv("SOME_API_KEY", "secret")
    folder, outside = tmp_path / "w", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("secret")
    (folder / "link").symlink_to(outside)
    attempts = [
        f"cat {outside} ../outside link /workspace/../outside",
        "cat /etc/shadow /proc/1/environ | tr '\\0' '\\n'",
        f"echo pwned >{outside}; cd ..; echo pwned >outside",
        "touch /usr/x /etc/x /x /dev/x; rm -rf /usr/bin/env",
        f"kill -9 {os.getpid()}; ls /proc | grep -cx {os.getpid()}",
        "echo $SOME_API_KEY; env | grep -c KEY",
        "chroot / true; mount -t tmpfs none /usr; unshare -m true",
        "mknod /tmp/disk b 8 0; nsenter -t 1 -m true",
    ]
    outputs = run(BubblewrapExecutionPolicy(), folder, *attempts, "ls -A /home /root; ls /tmp")
    assert not [text for text in outputs if "secret" in text]
    assert outside.read_text() == "secret"
    assert Path("/usr/bin/env").exists()
    assert not [path for path in ("/usr/x", "/etc/x", "/x", "/dev/x") if Path(path).exists()]
    assert "Operation not permitted" in outputs[6]
    assert outputs[-1].count("No such file or directory") == 2
    assert outputs[-1].endswith("directory\n[exit code 0]")


@needs_bubblewrap
def test_bubblewrap_does_not_let_root_change_the_kernel_settings(run: Run, tmp_path: Path) -> None:
    """Settings such as kernel.core_pattern name a program that the kernel runs outside."""
    setting = "/proc/sys/kernel/core_pattern"
    outputs = run(
        BubblewrapExecutionPolicy(),
        tmp_path,
        f": >>{setting}",  # opens it and writes nothing
        f"unshare --user bash -c 'mount -o remount,rw /proc; : >>{setting}'",
        "find /proc /sys -not -type d -not -type l -writable 2>/dev/null",
        f"cat {setting} /proc/self/comm; echo on | tee /dev/stderr >/dev/stdout",
    )
    for output in outputs[:2]:  # a user other than root has no permission in the first place
        assert re.search("Read-only file system|Permission denied|not permitted", output)
        assert output.endswith("[exit code 1]")
    assert outputs[2].startswith("[no output]")
    assert outputs[3] == f"{Path(setting).read_text()}cat\non\non\n[exit code 0]"


@needs_bubblewrap
def test_bubblewrap_has_no_network_by_default(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        (result,) = run(BubblewrapExecutionPolicy(), tmp_path, command)
        assert "Connection refused" in result
        (result,) = run(BubblewrapExecutionPolicy(network_enabled=True), tmp_path, command)
        assert result == "connected\n[exit code 0]"


@needs_bubblewrap
def test_the_limits_of_bubblewrap_hold(run: Run, tmp_path: Path) -> None:
    outputs = run(
        BubblewrapExecutionPolicy(memory_bytes=2**28, max_processes=30, tmpfs_bytes=2**20),
        tmp_path,
        "ulimit -v; ulimit -v unlimited",
        "head -c 2000000 /dev/zero >/tmp/big; stat -c %s /tmp/big",
        MANY_PROCESSES,
        "echo on",
    )
    assert outputs[0].startswith("262144\n")
    assert "cannot modify limit" in outputs[0]
    assert "1048576" in outputs[1]
    assert "more than 30 processes" in "".join(outputs[2:]).lower()
    assert outputs[3].endswith("on\n[exit code 0]")


@needs_bubblewrap
def test_a_timeout_in_bubblewrap_leaves_nothing_behind(
    run: Run, tmp_path: Path, slow: Slow
) -> None:
    outputs = run(
        BubblewrapExecutionPolicy(), tmp_path, f"setsid {slow.sleep} & {slow.command}", "echo on"
    )
    assert "[The command took longer than 30 seconds" in outputs[0]
    assert outputs[1] == "on\n[exit code 0]"
    assert has_ended(f"^{slow.sleep}")
    # A sandbox that cannot be created is an error.
    policy = BubblewrapExecutionPolicy(read_only_paths=["/no/such/path"])
    with pytest.raises(ShellError, match="/no/such/path"):
        run(policy, tmp_path, "echo")


@pytest.mark.long
@needs_bubblewrap
def test_bubblewrap_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Even during a command, and without a chance to clean up."""
    script = """
import os, pathlib, sys, threading
from agent_factory.middleware.shell_tool.policies import BubblewrapExecutionPolicy
from agent_factory.middleware.shell_tool.process import ShellProcess
launch = BubblewrapExecutionPolicy().launch(["bash"], pathlib.Path(sys.argv[1]), {}, "t")
shell = ShellProcess(launch, 60, lambda: False)
shell.run("sleep 94.3 &", 60, lambda: False)
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], timeout=60, check=False)
    assert has_ended("^sleep 94.3")


def test_docker_gets_arguments_for_a_new_container() -> None:
    limits: Any = {"memory_bytes": 2**30, "cpu_time_seconds": 9, "max_processes": 64, "cpus": "1.5"}
    options: Any = {"read_only_rootfs": True, "user": "1000:1000"}
    policy = DockerExecutionPolicy(
        image="debian", extra_run_args=["--gpus", "all"], **limits, **options
    )
    launch = policy.launch(["bash"], Path("/srv/w"), {"A": "b"}, "t1")
    text = " ".join(launch.argv)
    assert text.startswith("docker run --interactive --init --name agent-factory-t1 ")
    assert text.endswith("--env A=b --gpus all debian bash")
    for part in (
        "--workdir /workspace --volume /srv/w:/workspace",
        "--security-opt no-new-privileges",
        "--rm --network none --read-only --tmpfs /tmp --user 1000:1000",
        "--memory 1073741824 --memory-swap 1073741824 --ulimit cpu=9 --pids-limit 64 --cpus 1.5",
    ):
        assert part in text
    assert launch.cleanup == ("docker", "rm", "--force", "agent-factory-t1")
    assert (launch.limits, launch.max_processes) == ("", None)
    # None for options that are not set.
    policy = DockerExecutionPolicy(
        network_enabled=True, remove_container_on_exit=False, max_processes=None, binary="podman"
    )
    launch = policy.launch(["bash"], Path("/w"), {}, "t1")
    absent = {"--rm", "--network", "--memory", "--pids-limit", "--cpus", "--user", "--read-only"}
    assert not absent & set(launch.argv)
    assert launch.cleanup == ("podman", "kill", "agent-factory-t1")


FAKE = """#!/bin/bash
printf '%s ' "$@" >>"$LOG"; echo >>"$LOG"
[ "$1" = run ] || [ "$1" = sandbox ] || exit 0
while [ "$1" != bash ]; do shift; done
exec "$@"
"""
"""Fake of a program that runs a shell in a sandbox: it runs the shell here."""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a program with a name on the PATH; return the file where it logs its arguments."""

    def put(name: str) -> Path:
        program = tmp_path / "bin" / name
        program.parent.mkdir()
        program.write_text(FAKE.replace("$LOG", str(tmp_path / "log")))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
        return tmp_path / "log"

    return put


def test_a_docker_session_removes_its_container(
    run: Run, tmp_path: Path, slow: Slow, fake: Callable[[str], Path]
) -> None:
    log = fake("docker")
    outputs = run(DockerExecutionPolicy(), tmp_path, "x=1", f"echo $x; {slow.command}", "echo $x.")
    assert outputs[1].startswith("1\n[The command took longer")
    assert outputs[2] == ".\n[exit code 0]"
    lines = [line.split() for line in log.read_text().splitlines()]
    assert [line[0] for line in lines] == ["run", "rm", "run", "rm"]
    names = [line[line.index("--name") + 1] for line in lines if line[0] == "run"]
    assert names == [line[-1] for line in lines if line[0] == "rm"]
    assert len(set(names)) == 2


def test_an_error_of_docker_is_reported(run: Run, tmp_path: Path, fake: Any) -> None:
    fake("docker")
    (tmp_path / "bin" / "docker").write_text("#!/bin/sh\necho Cannot connect >&2; exit 125\n")
    with pytest.raises(ShellError, match="exit code 125: Cannot connect"):
        run(DockerExecutionPolicy(), tmp_path, "echo")


def test_codex_gets_its_settings_in_toml() -> None:
    settings = {"sandbox_mode": "workspace-write", "sandbox_workspace_write.network_access": True}
    policy = CodexSandboxExecutionPolicy(platform="linux", config_overrides=settings)
    argv = policy.launch(["bash"], Path("/w"), {}, "t").argv
    network = "sandbox_workspace_write.network_access=true"
    options = ["-c", 'sandbox_mode="workspace-write"', "-c", network]
    assert argv == ("codex", "sandbox", "linux", *options, "--", "bash")
    plain = CodexSandboxExecutionPolicy().launch(["bash"], Path("/w"), {}, "t").argv
    assert plain == ("codex", "sandbox", "--", "bash")


def test_settings_are_valid_toml() -> None:
    tomllib = pytest.importorskip("tomllib")
    value = {"text": 'a "b" \\ \n\x00é', "n": [1, -2.5, True], "in": {"a b": [{"c": "d"}]}, "e": []}
    assert tomllib.loads(f"x = {as_toml(value)}") == {"x": value}


@each("limits", [{}, {"memory_bytes": 2**30, "cpu_time_seconds": 60}])
def test_a_policy_starts_a_process_by_itself(limits: dict[str, Any], tmp_path: Path) -> None:
    policy = HostExecutionPolicy(**limits)
    shell = policy.spawn(workspace=tmp_path, env={"GIVEN": "here"}, command=["bash"])
    output, errors = shell.communicate("echo $GIVEN $PWD; ulimit -v; echo oh >&2\n", timeout=60)
    memory = "1048576" if limits else "unlimited"
    assert (output.split(), errors) == (["here", str(tmp_path), memory], "oh\n")
    assert shell.returncode == 0


@each("policy", POLICIES)
def test_each_policy_starts_what_it_launches(policy: Any, tmp_path: Path, monkeypatch: Any) -> None:
    started: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **options: started.append(argv))
    policy().spawn(workspace=tmp_path, env={}, command=["bash"])
    (argv,) = started
    program = {"BubblewrapExecutionPolicy": "bwrap", "DockerExecutionPolicy": "docker"}
    program |= {"CodexSandboxExecutionPolicy": "codex"}
    assert (argv[0], argv[-1]) == (program.get(policy.__name__, "bash"), "bash")
