"""The shell middleware: hooks, tool, and the validation of arguments."""

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
from langchain_core.tools import InjectedToolArg
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, model_validator

from agent_factory import AgentMiddleware, AgentState, Flow, Invoke, PrivateStateAttr, ToolRuntime
from agent_factory.middleware._shared.invocable import flow_hook, in_event_loop, tool_of
from agent_factory.middleware._shared.redaction import RedactionRule
from agent_factory.middleware._shared.validation import check_value, copied

from .policies import ExecutionPolicy, HostExecutionPolicy, check_text
from .session import Sessions
from .supervisor import DESCRIPTION, ShellSettings, ShellSupervisor, folder_at

# Not a parameter of the model. None: the tool is called outside of a run.
CallRuntime = Annotated[ToolRuntime[Any, Any] | None, InjectedToolArg]


class ShellInput(BaseModel):
    """Arguments of the tool."""

    command: str | None = Field(description="Lines for the shell to run; null only to restart.")
    restart: bool = Field(
        default=False, description="Start a new shell, before the command if there is one."
    )

    @model_validator(mode="before")
    @classmethod
    def _default_command(cls, arguments: object) -> object:
        # `command` is required in the schema, so that models pass it; a call without it is valid.
        return {"command": None, **arguments} if isinstance(arguments, dict) else arguments


class ShellState(AgentState):
    """State of an agent with a shell.

    Attributes:
        shell_sessions: The key of the run's session, by the name of the middleware.
    """

    shell_sessions: NotRequired[Annotated[dict[str, str], operator.or_, PrivateStateAttr]]


# A str takes no weak reference, which `finalize` needs; an instance of a subclass does.
class _Lease(str):
    """Session key in a state that nobody can resume; the finalizer discards the session."""


class ShellToolMiddleware(AgentMiddleware[ShellState, Any]):
    """Gives the model a tool that runs commands in a shell, with one session for each run.

    Working directory, variables and functions stay from one command to the next. The output comes
    back with the exit code, truncated and redacted. A command that takes too long is killed,
    together with the shell. The next command runs in a new shell, and the model reads of the loss.
    The model also reads of the loss of an earlier shell: after `exit`, in the next run of a
    thread, or after a run was resumed in another process.

    A command that is killed or exits with another code than 0 gives a tool message of status
    "error"; its `artifact` has exit_code, ending, lines, bytes and cut.

    Only the policy decides which harm a command can do. The default, HostExecutionPolicy, prevents
    none.

    Args:
        workspace_root: The folder to work in. A missing folder is made when the shell starts, with
            its parents. None: a temporary folder for each run, removed at the end.
        startup_commands: Commands to run in each new shell, in order. With them the shell starts
            with the run, otherwise with its first command.
        shutdown_commands: Commands to run in the shell when the run ends without an error. Failures
            are logged.
        execution_policy: Place and limits of the shell. Default: HostExecutionPolicy().
        redaction_rules: Rules for outputs, applied before the model reads them. With strategy
            "block" the model reads that the output is withheld.
        tool_description: Replaces the default description of the tool.
        tool_name: Name of the tool.
        shell_command: The shell and its arguments, as a list or as a string. Any POSIX shell
            works. Default: bash.
        env: Environment variables for the shell, besides a few inherited variables. A number is
            converted to text.
        name: Distinguishes several instances; give them different tool names, too.

    Raises:
        ValueError: The folder is a file, a command is empty, or a name or a variable is
            invalid. In a running event loop, the folder is checked when the shell starts.
        TypeError: The policy or a rule has the wrong type.
        OSError: The system is not POSIX.
        ShellError: At run time: the shell cannot be started, or a start-up command failed.

    >>> shell = ShellToolMiddleware(execution_policy=HostExecutionPolicy(command_timeout=5))
    >>> shell.tools[0].name
    'shell'
    """

    state_schema = ShellState
    keyed_by_name = ("shell_sessions",)
    guard_settings = ("workspace_root", "execution_policy", "redaction_rules", "shell_command")

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
        env: Mapping[str, str | float] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if os.name != "posix":  # no pipes with poll(), no process groups, no POSIX shell
            raise OSError(
                "ShellToolMiddleware needs Linux, macOS or another POSIX system. On Windows run "
                "your program in WSL or in a container."
            )
        self.startup_commands = copied(startup_commands)
        self.shutdown_commands = copied(shutdown_commands)
        self.redaction_rules = copied(redaction_rules)
        self.shell_command = copied(shell_command)
        self.env = copied(env)
        settings = _parse_settings(self, execution_policy, workspace_root)
        self.workspace_root = None if workspace_root is None else Path(workspace_root)
        policy = settings.policy
        check_text("tool_name", tool_name)
        if tool_description is None:
            tool_description = DESCRIPTION.format(
                shell=Path(settings.shell[0]).name,
                seconds=policy.command_timeout,
                lines=policy.max_output_lines,
            )
        check_text("tool_description", tool_description)
        self.tool_description = tool_description
        self.execution_policy = policy
        self.tool_name = tool_name
        self._starts_with_run = bool(settings.startup)
        self._sessions = Sessions(settings)
        tool = tool_of(self._run_command, tool_name, tool_description, args_schema=ShellInput)
        self.tools = [tool]

    @flow_hook
    def before_agent(self, state: ShellState, runtime: Runtime[Any]) -> Flow[dict[str, Any]]:
        """Create the run's session, and start its shell if there are start-up commands."""
        if left := state.get("shell_sessions", {}).get(self.name):
            self._sessions.discard(left)  # of an earlier, failed run of this thread
        key = uuid4().hex
        starts = self._starts_with_run
        start = self._sessions.submit(key, ShellSupervisor.ensure) if starts else None
        if _thread_id(runtime) is None:
            # Without a thread nothing resumes the run: the session ends with the run's state.
            lease = _Lease(key)
            # Not at exit: `session` ends all sessions with the process.
            finalize(lease, self._sessions.discard, key).atexit = False
            key = lease
        if start is not None:
            yield Invoke(start, None)
        return {"shell_sessions": {self.name: key}}

    @flow_hook
    def after_agent(self, state: ShellState, runtime: Runtime[Any]) -> Flow[None]:
        """Run the shutdown commands and end the session."""
        if end := self._sessions.finish(self._session_key(state, runtime)):
            yield Invoke(end, None)

    def _session_key(self, state: object, runtime: object) -> str:
        """The key of the run's session; the thread's id in a graph without these hooks."""
        sessions = state.get("shell_sessions") or {} if isinstance(state, Mapping) else {}
        return str(sessions.get(self.name) or _thread_id(runtime) or "")

    def _run_command(
        self, command: str | None = None, restart: bool = False, runtime: CallRuntime = None
    ) -> Flow[ToolMessage | str]:
        state = getattr(runtime, "state", None)
        messages = state.get("messages", ()) if isinstance(state, Mapping) else ()
        results = (m for m in messages if isinstance(m, ToolMessage) and m.name == self.tool_name)
        call_id = getattr(runtime, "tool_call_id", None)
        work = partial(
            ShellSupervisor.execute,
            command=command,
            restart=restart,
            # An error without an artifact is a rejected call: no shell has run it.
            seen_before=any(result.artifact or result.status != "error" for result in results),
            reply=partial(ToolMessage, name=self.tool_name, tool_call_id=call_id, artifact={})
            if call_id is not None
            else lambda content, **_: content,
        )
        job = self._sessions.submit(self._session_key(state, runtime), work)
        result: ToolMessage | str = yield Invoke(job, None)
        return result


def _thread_id(runtime: object) -> str | None:
    """The thread of a run. A run without a thread, or no run at all, cannot be resumed."""
    info = getattr(runtime, "execution_info", None)
    return info.thread_id if info else None


def _parse_settings(owner: Any, policy: object, root: object) -> ShellSettings:
    shell, env, rules = owner.shell_command, owner.env, owner.redaction_rules
    policy = HostExecutionPolicy() if policy is None else policy
    if not isinstance(policy, ExecutionPolicy):
        raise TypeError(
            "execution_policy must be an instance of HostExecutionPolicy, DockerExecutionPolicy, "
            f"BubblewrapExecutionPolicy or CodexSandboxExecutionPolicy, got {policy!r}."
        )
    if root is not None:
        if not isinstance(root, str | os.PathLike) or not str(root):
            raise ValueError(
                f"workspace_root must be the path of a folder, got {root!r}. Leave it out for a "
                "temporary one."
            )
        # A file system may be slow. An event loop leaves the look to the thread of the shell.
        root = Path(root) if in_event_loop() else folder_at(Path(root))
    shell = ["bash"] if shell is None else shlex.split(shell) if isinstance(shell, str) else shell
    if not isinstance(shell, Sequence) or not shell:
        raise ValueError(f"shell_command must be a shell such as ['bash'], got {shell!r}.")
    for word in shell:
        check_text("each word of shell_command", word)
    check_value("env", env, isinstance(env, Mapping | None), "a dict of strings by name")
    for key, value in (env or {}).items():
        if not isinstance(key, str) or not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
            raise ValueError(
                f"env: names must consist of letters, digits and underscores, got {key!r}."
            )
        if not isinstance(value, str | int | float) or "\0" in str(value):
            # The value is not shown: it may be a secret.
            raise ValueError(
                f"env[{key!r}] must be a string without NUL or a number, got "
                f"{type(value).__name__}. Convert it with str()."
            )
    rules = () if rules is None else rules
    are_rules = isinstance(rules, Sequence) and all(isinstance(r, RedactionRule) for r in rules)
    hint = "Pass for example redaction_rules=[RedactionRule('email')]."
    check_value("redaction_rules", rules, are_rules, "a list of RedactionRule", hint, TypeError)
    return ShellSettings(
        policy=policy,
        root=root,
        shell=tuple(shell),
        env={key: str(value) for key, value in (env or {}).items()},
        startup=_parse_commands("startup_commands", owner.startup_commands),
        shutdown=_parse_commands("shutdown_commands", owner.shutdown_commands),
        rules=tuple(rules),
    )


def _parse_commands(name: str, commands: object) -> tuple[str, ...]:
    command_list = [commands] if isinstance(commands, str) else [] if commands is None else commands
    if not isinstance(command_list, Sequence):
        raise ValueError(f"{name} must be a command or a list of commands, got {commands!r}.")
    for command in command_list:
        if not isinstance(command, str) or not command.strip() or "\0" in command:
            raise ValueError(f"{name} must be non-empty strings without NUL, got {command!r}.")
    return tuple(command_list)
