"""Where a shell runs and what it may use: what every policy has, and the host's.

A policy is a value. It says what to start, as a `Launch`, and starts nothing itself, so that what
it would run can be read and tested without Docker, bubblewrap or Codex.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent_factory.middleware._shared.validation import check_choice, check_count, check_number

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE")
"""What a shell on the host has of this process's variables. Keys and passwords stay here."""

_TERMINAL = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}
"""Output that no terminal reads: without colours, and without a pager that waits for a key."""


@dataclass(frozen=True)
class Launch:
    """A process to start.

    Args:
        argv: The program and its arguments.
        env: All of its variables.
        folder: Where it starts.
        limits: Shell commands that set limits, to be run first; empty for none.
        max_processes: How many processes to allow, to be watched from outside; None where
            something else holds that limit, or nothing does.
        cleanup: A program and its arguments to run when it was ended; empty for none.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    folder: Path
    limits: str = ""
    max_processes: int | None = None
    cleanup: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExecutionPolicy(ABC):
    """What every policy has.

    Args:
        command_timeout: Seconds a command may take. Then it is killed, and the shell with it.
        startup_timeout: Seconds the shell may take to answer, and each start-up command.
        termination_timeout: Seconds that background processes have at the end, between being
            asked to end and being killed.
        max_output_lines: Lines of an output that the model is shown: the first and the last half.
        max_output_bytes: Bytes of it; None for up to 262,144, which is what is kept.
        cpu_time_seconds: Seconds of processor time a process may use.
        memory_bytes: Bytes of memory a process may use.
        max_processes: Processes that may run at a time; None for any number.
        idle_timeout: Seconds after which a shell that nobody uses ends, for example while a
            person is to decide. An hour: a shell that waits costs a few megabytes.
    """

    command_timeout: float = 30.0
    startup_timeout: float = 30.0
    termination_timeout: float = 10.0
    max_output_lines: int = 100
    max_output_bytes: int | None = None
    cpu_time_seconds: int | None = None
    memory_bytes: int | None = None
    max_processes: int | None = 512
    idle_timeout: float = 3600.0

    def __post_init__(self) -> None:
        for name in ("command_timeout", "startup_timeout", "termination_timeout", "idle_timeout"):
            self._refuse_none(name)
            check_number(name, getattr(self, name), 0.001, unit="seconds")
        self._refuse_none("max_output_lines")
        counts = "max_output_lines", "max_output_bytes", "cpu_time_seconds", "max_processes"
        for name in counts:
            check_count(name, getattr(self, name), 1)
        check_count("memory_bytes", self.memory_bytes, LEAST_MEMORY)

    def _refuse_none(self, name: str) -> None:
        if getattr(self, name) is None:
            raise ValueError(f"{name} must be a number; there is no shell without that limit.")

    @abstractmethod
    def launch(
        self, shell: Sequence[str], workspace: Path, env: Mapping[str, str], token: str
    ) -> Launch:
        """What to start.

        Args:
            shell: The shell and its arguments.
            workspace: The folder it works in.
            env: Variables of the user's own.
            token: A word that no other shell has.
        """

    def _ulimits(self) -> str:
        """The limits that a shell can set for itself and what it starts."""
        memory, seconds = self.memory_bytes, self.cpu_time_seconds
        limits = [] if memory is None else [f"ulimit -v {memory // 1024}"]
        return " && ".join(limits + ([] if seconds is None else [f"ulimit -t {seconds}"]))


LEAST_MEMORY = 16 * 1024 * 1024
"""With less than 16 MiB a shell cannot start most programs."""


@dataclass(frozen=True)
class HostExecutionPolicy(ExecutionPolicy):
    """The shell runs on this machine, as this user, and nothing keeps it in its folder.

    Everything that this user may read, write and reach by network, the model may. Use it where
    the process already is in a container or a virtual machine of its own. Only variables are kept
    from the shell: of this process's it has PATH, HOME, USER, LOGNAME, TMPDIR, TZ and the locale.

    What the limits hold: time and output always. Memory and processor time for each process by
    itself (`ulimit`), not for all together; root may raise them again. The number of processes by
    watching them, on Linux: a fork bomb is killed within a tenth of a second or so, with the shell.

    >>> HostExecutionPolicy(command_timeout=5).command_timeout
    5
    """

    def launch(
        self, shell: Sequence[str], workspace: Path, env: Mapping[str, str], token: str
    ) -> Launch:
        """The shell itself."""
        return Launch(
            argv=tuple(shell),
            env={**host_env(), **env},
            folder=workspace,
            limits=self._ulimits(),
            max_processes=self.max_processes,
        )


def host_env() -> dict[str, str]:
    """What a process on this machine needs of our variables, and nothing secret."""
    return {**{k: os.environ[k] for k in INHERITED if k in os.environ}, **_TERMINAL}


def sandbox_env(home: str) -> dict[str, str]:
    """The variables of a shell that has a system of its own."""
    return {"HOME": home, "LANG": "C.UTF-8", **_TERMINAL}


@dataclass(frozen=True)
class CodexSandboxExecutionPolicy(ExecutionPolicy):
    """The shell runs in the sandbox of the Codex command line: Seatbelt, or Landlock and seccomp.

    What it may read, write and reach is what Codex's configuration says; `config_overrides`
    changes it. Variables and limits are those of HostExecutionPolicy.

    Args:
        binary: The program.
        platform: "auto" runs `codex sandbox`, which knows its platform (0.145 and newer); "linux"
            and "macos" name it, as older versions want.
        config_overrides: Settings by name, such as
            {"default_permissions": ":workspace"} or {"sandbox_mode": "workspace-write"}; each is
            passed as `-c name=value`, the value written in TOML.

    Raises:
        ValueError: `binary` is empty, `platform` unknown, or a value cannot be written in TOML.

    >>> policy = CodexSandboxExecutionPolicy(config_overrides={"default_permissions": ":workspace"})
    >>> policy.launch(["bash"], Path("."), {}, "a1").argv
    ('codex', 'sandbox', '-c', 'default_permissions=":workspace"', '--', 'bash')
    """

    binary: str = "codex"
    platform: Literal["auto", "linux", "macos"] = "auto"
    config_overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text("binary", self.binary)
        check_choice("platform", self.platform, ("auto", "linux", "macos"))
        if not isinstance(self.config_overrides, Mapping):
            raise ValueError("config_overrides must be a dict of settings by name.")
        for name, value in self.config_overrides.items():
            check_text("a name in config_overrides", name)
            as_toml(value)

    def launch(
        self, shell: Sequence[str], workspace: Path, env: Mapping[str, str], token: str
    ) -> Launch:
        """The shell behind `codex sandbox`."""
        settings = [f"{name}={as_toml(value)}" for name, value in self.config_overrides.items()]
        platform = [] if self.platform == "auto" else [self.platform]
        options = [word for setting in settings for word in ("-c", setting)]
        return Launch(
            argv=(self.binary, "sandbox", *platform, *options, "--", *shell),
            env={**host_env(), **env},
            folder=workspace,
            limits=self._ulimits(),
            max_processes=self.max_processes,
        )


def as_toml(value: Any) -> str:
    """A setting's value in TOML.

    Raises:
        ValueError: TOML has no way to write it.

    >>> as_toml({"network": True, "paths": ["/srv", "C:"]})
    '{"network" = true, "paths" = ["/srv", "C:"]}'
    """
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            return _toml_text(value)
        case Mapping():
            pairs = (f"{_toml_text(str(k))} = {as_toml(v)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list() | tuple():
            return f"[{', '.join(map(as_toml, value))}]"
    raise ValueError(f"config_overrides: {value!r} is no text, number, bool, list or dict.")


def _toml_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    plain = (c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped)
    return f'"{"".join(plain)}"'


def check_text(name: str, value: Any) -> None:
    """A text that is not empty.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"{name} must be a text that is not empty, not {value!r}.")
