"""Policies that give the shell a system of its own: bubblewrap and Docker."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_factory.middleware._shared.validation import check_count, check_number
from agent_factory.middleware.shell_tool.policies import (
    ExecutionPolicy,
    Launch,
    check_text,
    host_env,
    sandbox_env,
)

WORKSPACE = "/workspace"
"""Where a shell with a system of its own finds its folder."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_SETTINGS = (
    "alternatives",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "passwd",
    "protocols",
    "services",
    "ssl",
)
"""What programs need of /etc; the rest of it, such as /etc/shadow, is not there."""

_NETWORK_SETTINGS = ("hosts", "resolv.conf")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class BubblewrapExecutionPolicy(ExecutionPolicy):
    """The shell runs in a sandbox of Linux namespaces, made by `bwrap` (Debian: bubblewrap).

    It sees this machine's programs, read-only, and its folder as /workspace, writable; an empty
    /tmp; its own processes; and no network. Nothing else of the machine is there: no home
    folders, no /etc/shadow, none of this process's variables. It has no capabilities, also where
    root starts it, and it ends with this process, whatever ends that.

    It needs a system that lets this user make namespaces; many containers do not. It is a
    boundary of the kernel, not of a virtual machine.

    What the limits hold, beside those of HostExecutionPolicy: no process can leave the sandbox
    and stay behind, root or not, and `ulimit` cannot be raised again.

    Args:
        binary: The program.
        network_enabled: Let the shell use this machine's network.
        read_only_paths: More files and folders of this machine that it may read, at their paths.
        tmpfs_bytes: The size of /tmp and of /dev/shm, in bytes; files there take up memory.

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
            raise ValueError(f"read_only_paths must be a list, as in [{self.read_only_paths!r}].")
        for path in self.read_only_paths:
            if not Path(path).is_absolute():
                raise ValueError(f"read_only_paths: {str(path)!r} must be an absolute path.")
        if self.tmpfs_bytes is None:
            raise ValueError("tmpfs_bytes must be a whole number: files there take up memory.")
        check_count("tmpfs_bytes", self.tmpfs_bytes, 4096)

    def launch(
        self, shell: Sequence[str], workspace: Path, env: Mapping[str, str], token: str
    ) -> Launch:
        """The shell behind `bwrap`."""
        inside = {"PATH": _PATH, **sandbox_env("/tmp"), **env}
        return Launch(
            argv=(self.binary, *self._sandbox(workspace, inside), "--", *shell),
            env=host_env(),
            folder=workspace,
            limits=self._ulimits(),
            max_processes=self.max_processes,
        )

    def _sandbox(self, workspace: Path, env: Mapping[str, str]) -> Iterator[str]:
        yield from ("--die-with-parent", "--new-session", "--unshare-all", "--cap-drop", "ALL")
        yield from ("--hostname", "sandbox", "--clearenv")
        for name, value in env.items():
            yield from ("--setenv", name, value)
        yield from self._read_only()
        yield from ("--proc", "/proc", "--dev", "/dev")
        for folder in ("/dev/shm", "/tmp"):
            yield from ("--size", str(self.tmpfs_bytes), "--tmpfs", folder)
        # Later mounts lie over earlier ones: a workspace or a path below /tmp is still seen.
        for path in self.read_only_paths:
            yield from ("--ro-bind", str(path), str(path))
        yield from ("--bind", str(workspace), WORKSPACE, "--chdir", WORKSPACE)
        # What is no mount of its own is a writable file system in memory, unless it is closed.
        yield from ("--remount-ro", "/dev", "--remount-ro", "/")

    def _read_only(self) -> Iterator[str]:
        if self.network_enabled:
            yield "--share-net"
        settings = (*_SETTINGS, *(_NETWORK_SETTINGS if self.network_enabled else ()))
        for path in (*_SYSTEM, *(f"/etc/{name}" for name in settings)):
            yield from ("--ro-bind-try", path, path)


@dataclass(frozen=True)
class DockerExecutionPolicy(ExecutionPolicy):
    """The shell runs in a container of its own, made for it and removed with it.

    It sees the image's files, its folder as /workspace, and no network. Limits hold for the
    container as a whole: memory (without swap), processes, processors. What is given by `env` is
    part of the command line, which other users of this machine can read.

    Args:
        binary: The program; `podman` takes the same arguments.
        image: The image. It must have bash, or the shell that `shell_command` names; the default
            has bash and Python.
        remove_container_on_exit: Remove the container when its shell ends.
        network_enabled: Let the shell use the network.
        extra_run_args: More arguments of `docker run`, before the image.
        cpus: How many processors it may use, such as 1.5; None for all.
        read_only_rootfs: Make the image's files read-only; /tmp stays writable.
        user: Who runs the shell, as in `docker run --user`; None for the image's own, usually
            root, whose files in the workspace then belong to root.

    Raises:
        ValueError: A text is empty, or a number is none.

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
        check_number("cpus", _number(self.cpus), 0.01)
        if isinstance(self.extra_run_args, str):
            raise ValueError(f"extra_run_args must be a list, as in {self.extra_run_args.split()}.")
        for argument in self.extra_run_args or ():
            check_text("an argument in extra_run_args", argument)

    def launch(
        self, shell: Sequence[str], workspace: Path, env: Mapping[str, str], token: str
    ) -> Launch:
        """The shell behind `docker run`, and what removes its container."""
        name = f"agent-factory-{token}"
        inside = {**sandbox_env("/tmp"), **env}
        run = (*self._container(name, workspace), *self._limits(), *_variables(inside))
        return Launch(
            argv=(self.binary, "run", *run, *(self.extra_run_args or ()), self.image, *shell),
            env=dict(os.environ),  # the client's own: which daemon, which credentials
            folder=workspace,
            # The end of the program that watches a container does not end the container.
            cleanup=(self.binary, *self._removal, name),
        )

    @property
    def _removal(self) -> tuple[str, ...]:
        return ("rm", "--force") if self.remove_container_on_exit else ("kill",)

    def _container(self, name: str, workspace: Path) -> Iterator[str]:
        yield from ("--interactive", "--init", "--name", name)
        yield from ("--workdir", WORKSPACE, "--volume", f"{workspace}:{WORKSPACE}")
        yield from ("--security-opt", "no-new-privileges")
        if self.remove_container_on_exit:
            yield "--rm"
        if not self.network_enabled:
            yield from ("--network", "none")
        if self.read_only_rootfs:
            yield from ("--read-only", "--tmpfs", "/tmp")
        if self.user is not None:
            yield from ("--user", self.user)

    def _limits(self) -> Iterator[str]:
        if self.memory_bytes is not None:
            memory = str(self.memory_bytes)
            yield from ("--memory", memory, "--memory-swap", memory)
        if self.cpu_time_seconds is not None:
            yield from ("--ulimit", f"cpu={self.cpu_time_seconds}")
        if self.max_processes is not None:
            yield from ("--pids-limit", str(self.max_processes))
        if self.cpus is not None:
            yield from ("--cpus", str(self.cpus))


def _variables(env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        yield from ("--env", f"{name}={value}")


def _number(value: float | str | None) -> float | str | None:
    """A number that may be written as text; anything else as it is."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
