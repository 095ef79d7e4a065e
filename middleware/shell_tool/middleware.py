"""A shell for the model: one session a run, in a place and within limits that a policy names.

A session belongs to a run, not to the middleware: one agent may serve many runs at a time. Its key
is in the state, so that a run which was interrupted and is resumed in this process finds its shell
again. A session ends after the agent; where a run does not come that far, it ends with the run's
state, or, in a thread that may be taken up again, when it has been idle for long.
"""

from __future__ import annotations

import operator
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NotRequired
from uuid import uuid4
from weakref import finalize

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, model_validator

from agent_factory import AgentMiddleware, AgentState, PrivateStateAttr, ToolRuntime
from agent_factory.middleware._shared.redaction.rules import RedactionRule
from agent_factory.middleware.shell_tool.policies import (
    CodexSandboxExecutionPolicy,
    ExecutionPolicy,
    HostExecutionPolicy,
    check_text,
)
from agent_factory.middleware.shell_tool.responses import Answer, carry_out, description
from agent_factory.middleware.shell_tool.sandboxes import (
    BubblewrapExecutionPolicy,
    DockerExecutionPolicy,
)
from agent_factory.middleware.shell_tool.session import Job, Sessions
from agent_factory.middleware.shell_tool.supervisor import Keeper, Settings, ShellError

__all__ = [
    "BubblewrapExecutionPolicy",
    "CodexSandboxExecutionPolicy",
    "DockerExecutionPolicy",
    "ExecutionPolicy",
    "HostExecutionPolicy",
    "RedactionRule",
    "ShellError",
    "ShellState",
    "ShellToolMiddleware",
]


class ShellInput(BaseModel):
    """What the model gives to the tool."""

    command: str | None = Field(description="Lines for the shell to run; null only to restart.")
    restart: bool = Field(
        default=False, description="Start a new shell, before the command if there is one."
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nothing(cls, given: Any) -> Any:
        """Models are told to give a command; one that only wants to restart may leave it out."""
        return {"command": None, **given} if isinstance(given, dict) else given


class ShellState(AgentState[Any]):
    """The state of an agent with a shell.

    Attributes:
        shell_sessions: The key of the run's session, by the name of its middleware.
    """

    shell_sessions: NotRequired[Annotated[dict[str, str], operator.or_, PrivateStateAttr]]


class _Lease(str):
    """The key of a session in the state of a run that nobody can resume.

    It lives as long as that state does; what becomes of the session then is a finalizer's work.
    """


class ShellToolMiddleware(AgentMiddleware[ShellState, Any]):
    """Gives the model a tool that runs commands in a shell, in one session a run.

    Working directory, variables and functions stay from one command to the next; the output comes
    back with the exit code, cut to size and redacted. A command that takes too long is killed, and
    the shell with it; the next command runs in a new one, and the model is told what is lost. It
    is told the same where it knows an earlier shell that is gone: after `exit`, in the next run of
    a thread, or where a run is resumed in another process.

    A command that exits with another code than 0 gives a tool message of status "error", as does
    one that was killed; its `artifact` has exit_code, ending, lines, bytes and cut.

    Which harm a command can do is a matter of the policy alone. The default, HostExecutionPolicy,
    prevents none.

    Args:
        workspace_root: The folder to work in. None: a temporary one for each run, removed with it.
        startup_commands: Run in each new shell, in order; then the shell starts with the run, and
            otherwise with its first command.
        shutdown_commands: Run in the shell when the run ends, by itself and not by an error. One
            that fails is logged.
        execution_policy: Where the shell runs, and its limits. Default: HostExecutionPolicy().
        redaction_rules: What to replace in outputs before the model sees them. With strategy
            "block" the model is told that the output is withheld.
        tool_description: What the model is told of the tool instead of the description here.
        tool_name: The name of the tool.
        shell_command: The shell and its arguments: a list, or one text. Any POSIX shell will do.
            Default: bash.
        env: Variables for the shell, beside the few it has.
        name: Tells several instances apart; give them different tool names, too.

    Raises:
        ValueError: The folder is none, a command is empty, a name or a variable cannot be one.
        TypeError: The policy or a rule is none.
        OSError: This is no POSIX system.
        ShellError: At run time: the shell cannot be started, or a start-up command failed.

    >>> shell = ShellToolMiddleware(execution_policy=HostExecutionPolicy(command_timeout=5))
    >>> shell.tools[0].name
    'shell'
    """

    state_schema = ShellState

    def __init__(
        self,
        workspace_root: str | os.PathLike[str] | None = None,
        *,
        startup_commands: str | Sequence[str] | None = None,
        shutdown_commands: str | Sequence[str] | None = None,
        execution_policy: ExecutionPolicy | None = None,
        redaction_rules: Sequence[RedactionRule] | None = (),
        tool_description: str | None = None,
        tool_name: str = "shell",
        shell_command: str | Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        _check_system(os.name)
        settings = Settings(
            policy=_checked_policy(execution_policy),
            root=_checked_root(workspace_root),
            shell=_checked_shell(shell_command),
            env=_checked_env(env),
            startup=_checked_commands("startup_commands", startup_commands),
            shutdown=_checked_commands("shutdown_commands", shutdown_commands),
            rules=_checked_rules(redaction_rules),
        )
        check_text("tool_name", tool_name)
        if tool_description is not None:
            check_text("tool_description", tool_description)
        self.execution_policy = settings.policy
        self.tool_name = tool_name
        self._startup = bool(settings.startup)
        self._sessions = Sessions(settings)
        shell = Path(settings.shell[0]).name
        self.tools = [
            StructuredTool.from_function(
                self._call,
                coroutine=self._acall,
                name=tool_name,
                description=tool_description or description(shell, settings.policy),
                args_schema=ShellInput,
            )
        ]

    def before_agent(self, state: ShellState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Gives the run a session, and starts its shell if there are start-up commands."""
        key, start = self._begun(state, runtime)
        if start:
            start.result()
        return {"shell_sessions": {self.name: key}}

    async def abefore_agent(self, state: ShellState, runtime: Runtime[Any]) -> dict[str, Any]:
        """As `before_agent`, awaited."""
        key, start = self._begun(state, runtime)
        if start:
            await start.awaited()
        return {"shell_sessions": {self.name: key}}

    def after_agent(self, state: ShellState, runtime: Runtime[Any]) -> None:
        """Runs the shutdown commands and ends the session."""
        if end := self._sessions.finish(self._key(state, runtime)):
            end.result()

    async def aafter_agent(self, state: ShellState, runtime: Runtime[Any]) -> None:
        """As `after_agent`, awaited."""
        if end := self._sessions.finish(self._key(state, runtime)):
            await end.awaited()

    def _begun(self, state: ShellState, runtime: Runtime[Any]) -> tuple[str, Job[Any] | None]:
        if left := state.get("shell_sessions", {}).get(self.name):
            self._sessions.discard(left)  # of a run of this thread that did not end well
        key = uuid4().hex
        start = self._sessions.submit(key, Keeper.ensure) if self._startup else None
        return (key if _thread_of(runtime) else self._leased(key)), start

    def _leased(self, key: str) -> _Lease:
        lease = _Lease(key)
        finalize(lease, self._sessions.discard, key).atexit = False
        return lease

    def _key(self, state: Any, runtime: Any) -> str:
        """The key of the run's session; in a graph without our hooks, that of its thread."""
        sessions = state.get("shell_sessions") or {} if isinstance(state, Mapping) else {}
        return str(sessions.get(self.name) or _thread_of(runtime) or "")

    def _call(
        self,
        command: str | None = None,
        restart: bool = False,
        *,
        runtime: ToolRuntime[Any, Any],
    ) -> ToolMessage:
        return self._message(self._submitted(command, restart, runtime).result(), runtime)

    async def _acall(
        self,
        command: str | None = None,
        restart: bool = False,
        *,
        runtime: ToolRuntime[Any, Any],
    ) -> ToolMessage:
        job = self._submitted(command, restart, runtime)
        return self._message(await job.awaited(), runtime)

    def _submitted(
        self, command: str | None, restart: bool, runtime: ToolRuntime[Any, Any]
    ) -> Job[Answer]:
        seen_before = _has_results_of(self.tool_name, runtime.state)
        work = partial(carry_out, command=command, restart=restart, seen_before=seen_before)
        return self._sessions.submit(self._key(runtime.state, runtime), work)

    def _message(self, answer: Answer, runtime: ToolRuntime[Any, Any]) -> ToolMessage:
        return ToolMessage(
            answer.text,
            name=self.tool_name,
            tool_call_id=str(runtime.tool_call_id),
            status="error" if answer.failed else "success",
            artifact=answer.facts,
        )


def _thread_of(runtime: Any) -> str | None:
    """The thread of a run; without one, nobody can resume it."""
    info = runtime.execution_info
    return info.thread_id if info else None


def _has_results_of(tool: str, state: Any) -> bool:
    """Whether a shell has answered before; refusals that ran nothing do not count."""
    messages = state.get("messages", ()) if isinstance(state, Mapping) else ()
    told = (m for m in messages if isinstance(m, ToolMessage) and m.name == tool)
    return any(message.artifact or message.status != "error" for message in told)


def _check_system(system: str) -> None:
    """Refuse systems without pipes that can be waited for, process groups and a POSIX shell."""
    if system != "posix":
        raise OSError(
            "ShellToolMiddleware needs Linux, macOS or another POSIX system; on Windows run your "
            "program in WSL or in a container."
        )


def _checked_policy(policy: Any) -> ExecutionPolicy:
    if policy is None:
        return HostExecutionPolicy()
    if not isinstance(policy, ExecutionPolicy):
        raise TypeError(
            "execution_policy must be an instance of HostExecutionPolicy, DockerExecutionPolicy, "
            f"BubblewrapExecutionPolicy or CodexSandboxExecutionPolicy, not {policy!r}."
        )
    return policy


def _checked_root(root: Any) -> Path | None:
    if root is None:
        return None
    if not isinstance(root, str | os.PathLike) or not str(root) or not Path(root).is_dir():
        raise ValueError(
            f"workspace_root must be a folder, and {str(root)!r} is none. Create it first, or "
            "leave it out for a temporary one."
        )
    return Path(root).resolve()


def _checked_shell(shell: Any) -> tuple[str, ...]:
    words = shlex.split(shell) if isinstance(shell, str) else ("bash",) if shell is None else shell
    if not isinstance(words, Sequence) or not words:
        raise ValueError(f"shell_command must be a shell, such as ['bash'], not {shell!r}.")
    for word in words:
        check_text("each word of shell_command", word)
    return tuple(words)


def _checked_env(env: Any) -> Mapping[str, str]:
    if env is not None and not isinstance(env, Mapping):
        raise ValueError(f"env must be a dict of texts by name, not {env!r}.")
    for key, value in (env or {}).items():
        if not isinstance(key, str) or not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
            raise ValueError(f"env: {key!r} is no name of a variable.")
        if not isinstance(value, str) or "\0" in value:
            # The value is not shown: it may be a key.
            raise ValueError(f"env[{key!r}] must be a text without NUL; write str(...) around it.")
    return dict(env or {})


def _checked_commands(name: str, commands: Any) -> tuple[str, ...]:
    listed = [commands] if isinstance(commands, str) else [] if commands is None else commands
    if not isinstance(listed, Sequence):
        raise ValueError(f"{name} must be a command or a list of commands, not {commands!r}.")
    for command in listed:
        if not isinstance(command, str) or not command.strip() or "\0" in command:
            raise ValueError(f"{name}: {command!r} is no command.")
    return tuple(listed)


def _checked_rules(rules: Any) -> tuple[RedactionRule, ...]:
    listed = () if rules is None else rules
    if not isinstance(listed, Sequence) or not all(isinstance(r, RedactionRule) for r in listed):
        raise TypeError(
            f"redaction_rules must be a list of RedactionRule, as in [RedactionRule('email')], "
            f"not {rules!r}."
        )
    return tuple(listed)
