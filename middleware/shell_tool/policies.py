"""Execution policies: place and limits of a shell. `launch()` returns the command only."""

from __future__ import annotations

import json
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from agent_factory.middleware._shared.validation import check_choice, check_count, check_number

_WORKSPACE = "/workspace"  # path of the workspace inside a sandbox or container
_LEAST_MEMORY = 16 * 1024 * 1024  # with less than 16 MiB a shell cannot start most programs

# Environment variables that a shell on the host inherits: no keys, no passwords.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE")
# The output is read by a program: no escape codes, and no pager that waits for a key.
_TERMINAL = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}
# Environment variables of a shell without a view of this machine's home folders.
_SANDBOX_ENV = {"HOME": "/tmp", "LANG": "C.UTF-8", **_TERMINAL}

_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
# Files of /etc that programs need. The rest, such as /etc/shadow, does not exist in the sandbox.
_ETC_SYSTEM = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "ssl")
_ETC_NAMES = ("group", "mime.types", "nsswitch.conf", "passwd", "protocols", "services")
_ETC_NETWORK = ("hosts", "resolv.conf")
_SANDBOX_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Launch:
    """Process to start: the program with arguments, all variables, and the folder."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    folder: Path
    limits: str = ""  # shell commands that set limits; they run first
    # Enforced by watching from outside. None: unlimited, or the sandbox enforces the limit itself.
    max_processes: int | None = None
    cleanup: tuple[str, ...] = ()  # a program and its arguments to run after the process has ended


@dataclass(frozen=True)
class ExecutionPolicy(ABC):
    """Base class of all policies.

    Args:
        command_timeout: Seconds a command may take. Then it is killed, together with the shell.
        startup_timeout: Seconds the shell may take to answer, and each start-up command may take.
        termination_timeout: Seconds that background processes get at the end of a session,
            between the request to end and being killed.
        max_output_lines: Lines of an output for the model: the first and the last half.
        max_output_bytes: Bytes of an output for the model. None: up to 262,144, as many as
            are kept.
        cpu_time_seconds: Seconds of processor time a process may use.
        memory_bytes: Bytes of memory a process may use.
        max_processes: Processes that may run at a time. None: any number.
        idle_timeout: Seconds after which an unused shell ends, for example while a person
            decides. The default is an hour: a waiting shell costs a few megabytes.
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
        timeouts = ("command_timeout", "startup_timeout", "termination_timeout", "idle_timeout")
        for name in (*timeouts, "max_output_lines"):
            if getattr(self, name) is None:
                raise ValueError(
                    f"{name} must be a number, got None. Every shell needs this limit."
                )
        for name in timeouts:
            check_number(name, getattr(self, name), 0.001, unit="seconds")
        for name in ("max_output_lines", "max_output_bytes", "cpu_time_seconds", "max_processes"):
            check_count(name, getattr(self, name), 1)
        check_count("memory_bytes", self.memory_bytes, _LEAST_MEMORY)

    @abstractmethod
    def launch(
        self, shell: Sequence[str], workspace: Path, env: Mapping[str, str], token: str
    ) -> Launch:
        """Return the process to start.

        Args:
            shell: The shell and its arguments.
            workspace: The folder to work in.
            env: Environment variables of the user.
            token: A unique word for this shell.
        """

    def spawn(
        self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]
    ) -> subprocess.Popen[str]:
        """Start a process in the way of this policy, for programs with their own input and output.

        ShellToolMiddleware does not use it. The number of processes is not watched here, and
        `launch()` has the command to run after the process.

        Args:
            workspace: The folder to work in.
            env: Environment variables to add.
            command: The program and its arguments, such as a shell.

        >>> shell = HostExecutionPolicy().spawn(workspace=Path("."), env={}, command=["bash"])
        >>> shell.communicate("echo hello", timeout=10)[0]
        'hello\\n'
        """
        launch = self.launch(command, Path(workspace), env, uuid4().hex)
        argv = launch.argv
        if launch.limits:  # `exec`, so that the process is the program itself
            argv = ("sh", "-c", f'{launch.limits} && exec "$@"', "sh", *argv)
        return subprocess.Popen(
            argv,
            env=launch.env,
            cwd=launch.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def _local_launch(self, argv: Sequence[str], workspace: Path, env: Mapping[str, str]) -> Launch:
        """A launch on this machine, where the shell itself and this process enforce the limits."""
        limits = []
        if self.memory_bytes is not None:
            # `ulimit` counts in KiB.
            limits.append(f"ulimit -v {self.memory_bytes // 1024}")
        if self.cpu_time_seconds is not None:
            limits.append(f"ulimit -t {self.cpu_time_seconds}")
        variables = {k: os.environ[k] for k in _INHERITED if k in os.environ}
        return Launch(
            argv=tuple(argv),
            env={**variables, **_TERMINAL, **env},
            folder=workspace,
            limits=" && ".join(limits),
            max_processes=self.max_processes,
        )


@dataclass(frozen=True)
class HostExecutionPolicy(ExecutionPolicy):
    """Runs the shell on this machine, as this user, without confining the shell to its folder.

    The model may read, write and connect to everything that this user may. Use this policy where
    the process already runs in a container or a virtual machine. Only environment variables are
    withheld: of this process's variables the shell gets PATH, HOME, USER, LOGNAME, TMPDIR, TZ and
    the locale.

    How the limits are enforced: time and output always. Memory and processor time for each process
    separately (`ulimit`), not for all together; root may raise them again. The number of processes
    by watching them, on Linux: a fork bomb is killed within about a tenth of a second, together
    with the shell.

    Args:
        create_process_group: For langchain's sake, and without an effect: the shell always gets a
            process group, by which its processes are ended.

    >>> HostExecutionPolicy(command_timeout=5).command_timeout
    5
    """

    create_process_group: bool = True

    def launch(
        self, shell: Sequence[str], workspace: Path, env: Mapping[str, str], token: str
    ) -> Launch:
        """Return the shell itself."""
        return self._local_launch(shell, workspace, env)


@dataclass(frozen=True)
class CodexSandboxExecutionPolicy(ExecutionPolicy):
    """Runs the shell in the sandbox of the Codex CLI: Seatbelt, or Landlock and seccomp.

    The Codex configuration decides about reading, writing and connections; `config_overrides`
    changes the configuration. Environment variables and limits are as in HostExecutionPolicy.

    Args:
        binary: The program.
        platform: "auto" runs `codex sandbox`, which detects the platform (0.145 and newer);
            "linux" and "macos" name it, as older versions require.
        config_overrides: Settings by name, such as
            {"default_permissions": ":workspace"} or {"sandbox_mode": "workspace-write"}. Each is
            passed as `-c name=value`, with the value written in TOML.

    Raises:
        ValueError: `binary` is empty, `platform` is unknown, or TOML cannot express a value.

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
            raise ValueError(
                "config_overrides must be a dict of settings by name, got "
                f"{self.config_overrides!r}."
            )
        for name, value in self.config_overrides.items():
            check_text("a name in config_overrides", name)
            as_toml(value)

    def launch(
        self, shell: Sequence[str], workspace: Path, env: Mapping[str, str], token: str
    ) -> Launch:
        """Return the shell wrapped in `codex sandbox`."""
        argv = [self.binary, "sandbox"]
        if self.platform != "auto":
            argv.append(self.platform)
        for name, value in self.config_overrides.items():
            argv += ("-c", f"{name}={as_toml(value)}")
        return self._local_launch([*argv, "--", *shell], workspace, env)


@dataclass(frozen=True)
class BubblewrapExecutionPolicy(ExecutionPolicy):
    """Runs the shell in a sandbox of Linux namespaces, made by `bwrap` (Debian: bubblewrap).

    The sandbox has this machine's programs, read-only; the workspace as /workspace, writable; an
    empty /tmp; only its own processes, in a /proc that is read-only; and no network. Nothing else
    of the machine is visible: no home folders, no /etc/shadow, none of this process's environment
    variables. The shell has no capabilities, even if root starts it, and ends with this process,
    however this process ends.

    The system must let this user create namespaces; many containers do not. The kernel is the
    boundary, not a virtual machine.

    Beyond the limits of HostExecutionPolicy: no process can leave the sandbox and survive it, even
    as root, and `ulimit` cannot be raised again.

    Args:
        binary: The program.
        network_enabled: Let the shell use this machine's network.
        read_only_paths: More files and folders of this machine for the shell to read. They keep
            their paths.
        tmpfs_bytes: Size of /tmp and of /dev/shm, in bytes. Files there use memory.

    Raises:
        ValueError: `binary` is empty, a path is not absolute, or the size is too small.

    >>> policy = BubblewrapExecutionPolicy()
    >>> "--share-net" in policy.launch(["bash"], Path("."), {}, "a1").argv
    False
    """

    binary: str = "bwrap"
    network_enabled: bool = False
    read_only_paths: Sequence[str | Path] = ()
    tmpfs_bytes: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text("binary", self.binary)
        if isinstance(self.read_only_paths, str | Path):
            paths = str(self.read_only_paths)
            raise ValueError(
                f"read_only_paths must be a list, got {paths!r}. Pass read_only_paths=[{paths!r}]."
            )
        for path in self.read_only_paths:
            if not Path(path).is_absolute():
                raise ValueError(f"read_only_paths must be absolute paths, got {str(path)!r}.")
        if self.tmpfs_bytes is None:
            raise ValueError("tmpfs_bytes must be a whole number, got None: it limits memory use.")
        check_count("tmpfs_bytes", self.tmpfs_bytes, 4096)

    def launch(
        self, shell: Sequence[str], workspace: Path, env: Mapping[str, str], token: str
    ) -> Launch:
        """Return the shell wrapped in `bwrap`."""
        # With a new session, a program cannot push characters into the terminal of this process.
        argv = [self.binary, "--die-with-parent", "--new-session", "--unshare-all"]
        argv += ("--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv")
        for name, value in {"PATH": _SANDBOX_PATH, **_SANDBOX_ENV, **env}.items():
            argv += ("--setenv", name, value)
        etc_files: tuple[str, ...] = _ETC_SYSTEM + _ETC_NAMES
        if self.network_enabled:
            argv.append("--share-net")
            etc_files += _ETC_NETWORK
        # "try", because machines differ in which of them exist.
        for system_path in (*_SYSTEM_FOLDERS, *(f"/etc/{name}" for name in etc_files)):
            argv += ("--ro-bind-try", system_path, system_path)
        argv += ("--proc", "/proc", "--dev", "/dev")
        for folder in ("/dev/shm", "/tmp"):
            argv += ("--size", str(self.tmpfs_bytes), "--tmpfs", folder)
        # Later mounts cover earlier ones: a workspace or a path below /tmp stays visible.
        for path in self.read_only_paths:
            argv += ("--ro-bind", str(path), str(path))
        argv += ("--bind", str(workspace), _WORKSPACE, "--chdir", _WORKSPACE)
        # /proc/sys and others in /proc belong to the whole machine. The files there check for the
        # user root and not for capabilities, so a sandbox that root starts could change them.
        # Whatever in / and /dev is not a mount would be a writable file system in memory.
        for folder in ("/dev", "/proc", "/"):
            argv += ("--remount-ro", folder)
        return self._local_launch([*argv, "--", *shell], workspace, {})


@dataclass(frozen=True)
class DockerExecutionPolicy(ExecutionPolicy):
    """Runs the shell in a new container, which is removed with the shell.

    The container has the image's files, the workspace as /workspace, and no network. Limits apply
    to the container as a whole: memory (without swap), processes, processors. The variables in
    `env` are part of the command line, which other users of this machine can read.

    Args:
        binary: The program; `podman` takes the same arguments.
        image: The image. It must have bash, or the shell of `shell_command`; the default
            has bash and Python.
        remove_container_on_exit: Remove the container when its shell ends.
        network_enabled: Let the shell use the network.
        extra_run_args: More arguments for `docker run`, before the image.
        cpus: How many processors the container may use, such as 1.5. None: all.
        read_only_rootfs: Make the image's files read-only; /tmp stays writable.
        user: User who runs the shell, as in `docker run --user`. None: the image's user, usually
            root, who then owns new files in the workspace.

    Raises:
        ValueError: A string is empty, or a number is invalid.

    >>> policy = DockerExecutionPolicy(memory_bytes=2**30)
    >>> " ".join(policy.launch(["bash"], Path("/srv/w"), {}, "a1").argv[:7])
    'docker run --interactive --init --name agent-factory-a1 --workdir'
    """

    binary: str = "docker"
    image: str = "python:3.12-slim"
    remove_container_on_exit: bool = True
    network_enabled: bool = False
    extra_run_args: Sequence[str] = ()
    cpus: float | str | None = None
    read_only_rootfs: bool = False
    user: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text("binary", self.binary)
        check_text("image", self.image)
        if self.user is not None:
            check_text("user", self.user)
        cpus: object = self.cpus
        with suppress(ValueError):  # check_number reports a string that is not a number
            cpus = float(cpus) if isinstance(cpus, str) else cpus
        check_number("cpus", cpus, 0.01)
        if isinstance(self.extra_run_args, str):
            raise ValueError(
                f"extra_run_args must be a list, got {self.extra_run_args!r}. "
                f"Pass extra_run_args={self.extra_run_args.split()}."
            )
        for argument in self.extra_run_args or ():
            check_text("an argument in extra_run_args", argument)

    def launch(
        self, shell: Sequence[str], workspace: Path, env: Mapping[str, str], token: str
    ) -> Launch:
        """Return the shell wrapped in `docker run`, and the command that removes its container."""
        name = f"agent-factory-{token}"
        # With an init process, orphans are reaped; a shell with the number 1 would keep them.
        argv = [self.binary, "run", "--interactive", "--init", "--name", name]
        argv += ("--workdir", _WORKSPACE, "--volume", f"{workspace}:{_WORKSPACE}")
        argv += ("--security-opt", "no-new-privileges")
        memory = str(self.memory_bytes)
        options: Sequence[tuple[bool, Sequence[str]]] = (
            (self.remove_container_on_exit, ("--rm",)),
            (not self.network_enabled, ("--network", "none")),
            (self.read_only_rootfs, ("--read-only", "--tmpfs", "/tmp")),
            (self.user is not None, ("--user", str(self.user))),
            # Docker counts memory and swap together: equal values mean no swap.
            (self.memory_bytes is not None, ("--memory", memory, "--memory-swap", memory)),
            (self.cpu_time_seconds is not None, ("--ulimit", f"cpu={self.cpu_time_seconds}")),
            (self.max_processes is not None, ("--pids-limit", str(self.max_processes))),
            (self.cpus is not None, ("--cpus", str(self.cpus))),
        )
        argv += [word for is_set, words in options if is_set for word in words]
        for variable, value in {**_SANDBOX_ENV, **env}.items():
            argv += ("--env", f"{variable}={value}")
        # A container that stays must be stopped all the same.
        removal = ("rm", "--force") if self.remove_container_on_exit else ("kill",)
        return Launch(
            argv=(*argv, *(self.extra_run_args or ()), self.image, *shell),
            # The docker client needs the full environment: it names the daemon and credentials.
            env=dict(os.environ),
            folder=workspace,
            # The container outlives the `docker run` process if that is killed.
            cleanup=(self.binary, *removal, name),
        )


def as_toml(value: object) -> str:
    """Write a setting's value in TOML; a ValueError means that TOML cannot express it."""
    match value:
        case bool() | str():
            # TOML reads what JSON writes, but for DEL, which JSON does not escape.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case Mapping():
            pairs = (f"{as_toml(str(k))} = {as_toml(v)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list() | tuple():
            return f"[{', '.join(map(as_toml, value))}]"
    raise ValueError(
        f"config_overrides must hold strings, numbers, bools, lists and dicts, got {value!r}."
    )


def check_text(name: str, value: object) -> None:
    """Check that a value is a string with more than blanks, and without NUL."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"{name} must be a non-empty string without NUL, got {value!r}.")
