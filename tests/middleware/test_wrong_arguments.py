"""Arguments with which a built-in cannot work are refused by name, when the built-in is made."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from decision_models import ScriptedDecisionModel
from langgraph.errors import GraphBubbleUp

from agent_factory import background, client_tool
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from samples import add, mail, show
from tables import each

MODEL = ScriptedChatModel([])
DECISIONS = ScriptedDecisionModel(answers=[])
NAN = float("nan")


def judged(**arguments: Any) -> object:
    return m.AutoModeMiddleware(**{"tools": ["delete"], "classifier": MODEL, **arguments})


def budget(**arguments: Any) -> object:
    return m.BudgetMiddleware(**{"run": m.Limits(turns=1), **arguments})


def editing(**arguments: Any) -> object:
    return m.ContextEditingMiddleware(**arguments)


def fallback(models: Any = (MODEL,), **arguments: Any) -> object:
    return m.ModelFallbackMiddleware(*models, **arguments)


def refusal(models: Any = (MODEL,), **arguments: Any) -> object:
    return m.ModelRefusalMiddleware(*models, **arguments)


def guard(**arguments: Any) -> object:
    return m.GuardMiddleware(**{"check": lambda _: None, **arguments})


def once(effects: Any = None, **arguments: Any) -> object:
    return m.OnceMiddleware({"pay": "ask"} if effects is None else effects, **arguments)


def review(**arguments: Any) -> object:
    return m.HumanInTheLoopMiddleware(**{"interrupt_on": {}, **arguments})


def of_send(**config: Any) -> dict[str, Any]:
    return {"interrupt_on": {"send": config}}


def router(**arguments: Any) -> object:
    choices = {"quick": m.ModelChoice(MODEL, "small talk")}
    return m.ModelRouterMiddleware(**{"choices": choices, "classifier": MODEL, **arguments})


def rule(**arguments: Any) -> object:
    return m.RedactionRule(**{"pii_type": "email", **arguments})


def search(**arguments: Any) -> object:
    return m.FilesystemFileSearchMiddleware(**{"root_path": ".", **arguments})


def summarizing(**arguments: Any) -> object:
    return m.SummarizationMiddleware(**{"model": MODEL, **arguments})


Row = tuple[dict[str, Any], str] | tuple[dict[str, Any], str, type[Exception]]
"""Arguments, the beginning of the error, and its type, if it is not ValueError."""

RETRIES: list[Row] = [
    ({"max_retries": -1}, "max_retries must be a whole number"),
    ({"max_retries": True}, "max_retries must be a whole number"),
    ({"backoff_factor": float("inf")}, "backoff_factor must be a number"),
    ({"initial_delay": NAN}, "initial_delay must be a number of seconds"),
    ({"max_delay": -0.1}, "max_delay must be a number of seconds"),
    ({"jitter": 0.25}, "jitter must be True or False"),
    ({"retry_on": ()}, "retry_on must be an exception type, a tuple"),
    ({"retry_on": [ConnectionError]}, r"Write retry_on=\(ConnectionError, TimeoutError\)"),
    ({"retry_on": ConnectionError()}, "retry_on must be"),
    ({"retry_on": KeyboardInterrupt}, "an interrupt or a cancellation never is"),
    ({"retry_on": (Exception, asyncio.CancelledError)}, "never is"),
    ({"retry_on": GraphBubbleUp}, "never is"),
    ({"retry_on": asyncio.sleep}, "a plain function"),
    ({"on_failure": "end"}, "on_failure must be 'continue', 'error' or a plain function"),
    ({"on_failure": asyncio.sleep}, "on_failure must be"),
]

SHELLS: list[Row] = [
    ({"command_timeout": 0}, "command_timeout must be a number of seconds of at least 0.001"),
    ({"command_timeout": None}, "command_timeout must be a number"),
    ({"startup_timeout": "3"}, "startup_timeout must be a number of seconds"),
    ({"termination_timeout": float("inf")}, "termination_timeout must be a number"),
    ({"idle_timeout": -1}, "idle_timeout must be a number"),
    ({"max_output_lines": 0}, "max_output_lines must be a whole number of at least 1"),
    ({"max_output_lines": None}, "max_output_lines must be a number"),
    ({"max_output_bytes": 1.5}, "max_output_bytes must be a whole number"),
    ({"memory_bytes": 1000}, "memory_bytes must be a whole number of at least 16777216"),
    ({"cpu_time_seconds": True}, "cpu_time_seconds must be a whole number"),
    ({"max_processes": 0}, "max_processes must be a whole number"),
]

WRONG: dict[Callable[..., object], list[Row]] = {
    m.AnswerGuardMiddleware: [
        ({"max_retries": -1}, "max_retries must be a whole number of at least 0, got -1."),
        ({"on_cut": "stop"}, "on_cut must be 'shorten' or 'continue', got 'stop'."),
        ({"on_failure": "end"}, "on_failure must be 'answer' or 'error', got 'end'."),
    ],
    judged: [
        *(({"threshold": x}, "threshold must be a number") for x in (-0.1, NAN, True)),
        ({"threshold": None}, "threshold must be a number"),
        ({"threshold": 1.1}, "threshold must be a probability"),
        ({"tools": []}, "tools is empty"),
        ({"tools": "delete"}, "tools must be a list", TypeError),
        ({"tools": [7]}, "tools must hold names", TypeError),
        ({"classifier": 7}, "classifier must be a chat model", TypeError),
        ({"classifier": None}, "classifier must be a chat model", TypeError),
        ({"instructions": None}, "instructions must be a string", TypeError),
        ({"blocked_message": None}, "blocked_message must be a string", TypeError),
        ({"criteria": 7}, "criteria must be a string or a dict", TypeError),
        ({"criteria": {"risky": "x"}}, "must have the keys 'true' and 'false'"),
    ],
    background: [
        ({"tool": client_tool("title", "The title.")}, "run by the client"),
        ({"tool": show}, "return_direct"),
        ({"tool": background(add)}, "already"),
        ({"tool": 7}, "must be a function"),
        *(
            ({"tool": add, "timeout": x}, "positive number of sec")
            for x in (0, -1, True, NAN, float("inf"), "1", None)
        ),
    ],
    m.BackgroundMiddleware: [({"max_running": 0}, "max_running"), ({"wait": 1}, "wait", TypeError)],
    m.BudgetMiddleware: [
        ({}, "Pass run=Limits"),
        ({"ledger": m.Limits(turns=1)}, "ledger must be Ledger", TypeError),
    ],
    budget: [
        ({"run": m.Limits()}, "Pass run=Limits"),
        ({"run": {"usd": 1}}, "run must be Limits", TypeError),
        ({"warn_at": 0}, "warn_at must be more than 0"),
        ({"warn_at": [0.5, 1.5]}, "warn_at must be more than 0 and at most 1"),
        ({"warn_at": "soon"}, "warn_at must be a number"),
        ({"cheaper_at": None}, "cheaper_at"),
        ({"exit_behavior": "stop"}, "exit_behavior must be 'answer'"),
        ({"prices": {"gpt": 1.0}}, "prices must be a dict", TypeError),
        ({"prices": "cheap"}, "prices must be a dict", TypeError),
        ({"token_counter": 4}, "token_counter", TypeError),
        ({"cheaper": 4}, "cheaper must be a chat model", TypeError),
        ({"cheaper": MODEL}, "cheaper saves money or tokens"),
        ({"run": m.Limits(usd=1), "cheaper": MODEL}, "Scripted", m.UnknownPriceError),
    ],
    m.Limits: [
        ({"usd": -1}, "usd"),
        ({"usd": NAN}, "usd"),
        ({"turns": 1.5}, "turns"),
        ({"tool_calls": True}, "tool_calls"),
    ],
    m.Price: [
        ({"input": -1, "output": 1}, "input"),
        ({"input": 1, "output": "2"}, "output"),
        ({"input": 1, "output": 1, "cache_read": float("inf")}, "cache_read"),
        ({"input": None, "output": 1}, "input and output"),
    ],
    m.ClearToolUsesEdit: [
        ({"trigger": -1}, "trigger must be a whole number of at least 0"),
        ({"clear_at_least": 0.5}, "clear_at_least must be a whole number"),
        ({"keep": True}, "keep must be a whole number"),
        *(({"exclude_tools": x}, "must be a list of tool names") for x in ("look", [add], 5)),
        ({"placeholder": None}, "placeholder must be a string"),
    ],
    editing: [
        ({"edits": []}, "edits must be a list of edits"),
        ({"edits": m.ClearToolUsesEdit()}, "edits must be a list"),
        ({"edits": [m.ClearToolUsesEdit]}, "edits must contain objects with apply", TypeError),
        ({"token_count_method": "exact"}, "must be 'approximate' or 'model'"),
        ({"token_counter": 4}, "token_counter must be a function", TypeError),
        ({"token_counter": len, "token_count_method": "model"}, "not both"),
    ],
    search: [
        ({"root_path": "/no/such/folder"}, "root_path must be an existing folder"),
        ({"root_path": __file__}, "root_path must be an existing folder"),
        ({"root_path": None}, "root_path must be the path of a folder", TypeError),
        ({"use_ripgrep": "yes"}, "use_ripgrep must be True or False", TypeError),
        ({"max_file_size_mb": 0}, "max_file_size_mb must be a number of megabytes"),
        ({"max_file_size_mb": "10"}, "max_file_size_mb must be a number of megabytes"),
        ({"timeout": -1}, "timeout must be a number of seconds"),
        ({"timeout": None}, "timeout must be a number of seconds"),
        ({"tool_prefix": "my docs "}, "tool_prefix must be"),
        ({"tool_prefix": 3}, "tool_prefix must be"),
    ],
    m.FlowGuardMiddleware: [
        ({"policy": {"send": "ask"}}, "policy must be a ToolPolicy"),
        ({"action": "allow"}, "action"),
        ({"seen": []}, "seen must be some of"),
        ({"seen": "private"}, "seen must be some of"),
        ({"seen": ["outside"]}, "seen must be some of"),
    ],
    guard: [
        ({"on": "answer", "when": "beside"}, "only after the call"),
        ({"on": "messages", "tools": ["look"]}, "tools does not go with"),
        ({"on": "output"}, "on must be"),
        ({"instructions": "Stop."}, "instructions are for a model"),
        ({"check": MODEL}, "instructions must say"),
        ({"check": 3}, "check must be a function", TypeError),
        ({"timeout": -1}, "timeout"),
    ],
    review: [
        ({"interrupt_on": ["send"]}, "interrupt_on must be a dict"),
        ({"interrupt_on": {3: True}}, "names of tools as keys, got 3"),
        ({"interrupt_on": {"send": "yes"}}, r"interrupt_on\['send'\] must be True, False or"),
        (of_send(), r"send'\] must have 'allowed_decisions', got {}. Pass 'allo"),
        (of_send(allow=[]), "has unknown keys 'allow'. Use allowed_dec"),
        (of_send(allowed_decisions=[]), "a list of some of approve, edit"),
        (of_send(description=3), "must be a string or a plain function"),
        (of_send(when=asyncio.sleep), "must be a plain function of the ToolCall"),
        (of_send(when=True), "must be a plain function of the ToolCall"),
        (of_send(args_schema="x"), "must be a JSON schema, a dict"),
        ({"interrupt_mode": "each"}, "interrupt_mode must be 'batched' or 'per_call'"),
        ({"edit_notice": 3}, "edit_notice must be a string or None, got 3. Pass None"),
        ({"description_prefix": 3}, "description_prefix must be a string, got 3"),
    ],
    m.LLMToolEmulator: [
        ({"tools": "weather"}, "tools must be a list", TypeError),
        ({"tools": [len]}, "tools must hold names", TypeError),
        ({"model": 3}, "model must be a chat model", TypeError),
    ],
    m.LLMToolSelectorMiddleware: [
        ({"model": 3}, "model must be a chat model", TypeError),
        ({"system_prompt": None}, "system_prompt must be a string", TypeError),
        ({"max_tools": 0}, "max_tools must be a whole number of at least 1"),
        ({"max_retries": -1}, "max_retries must be a whole number"),
        ({"max_retries": None}, "max_retries must be a whole number"),
        ({"always_include": "mail"}, "always_include must be a list", TypeError),
        ({"always_include": [mail, 3]}, "always_include must hold names", TypeError),
        ({"on_parsing_failure": "continue"}, "'error', 'all' or 'none'"),
        ({"on_parsing_failure": [3]}, "on_parsing_failure must hold names", TypeError),
    ],
    m.ModelCallLimitMiddleware: [
        ({}, "Pass thread_limit, run_limit or both"),
        ({"run_limit": -1}, "run_limit must be a whole number"),
        ({"thread_limit": 1.0}, "thread_limit must be a whole number"),
        ({"thread_limit": "3"}, "thread_limit must be a whole number"),
        ({"run_limit": True}, "run_limit must be a whole number"),
        ({"run_limit": 1, "exit_behavior": "continue"}, "must be 'end', 'error' or 'answer'"),
    ],
    fallback: [
        *(
            ({"handle": x}, "handle must be an exception type", TypeError)
            for x in (5, (), KeyboardInterrupt, (ValueError, int), "all", None)
        ),
        ({"handle": asyncio.sleep}, "plain function", TypeError),
        ({"models": [None]}, "model 1 must be a chat model or 'provider:name'", TypeError),
        ({"models": [MODEL, ScriptedChatModel]}, "model 2 must be a chat model", TypeError),
        ({"models": [(MODEL, 5)]}, "must come with a dict of model_settings", TypeError),
        ({"models": [(MODEL, {1: 2})]}, "must come with a dict of model_settings", TypeError),
        ({"models": [[MODEL, {}]]}, "model 1 must be a chat model", TypeError),
    ],
    refusal: [
        ({"models": (), "on_refusal": "keep"}, "on_refusal='keep' needs another model"),
        ({"on_refusal": "stop"}, "on_refusal must be 'keep' or 'error'"),
        ({"models": [5]}, "ModelRefusalMiddleware model 1 must be a chat model", TypeError),
        ({"is_refusal": "no"}, "is_refusal must be a plain function", TypeError),
    ],
    m.ModelRetryMiddleware: RETRIES,
    router: [
        ({"choices": {}}, "choices must be a dict"),
        ({"choices": {"quick": MODEL}}, "must be a ModelChoice", TypeError),
        ({"choices": {"": m.ModelChoice(MODEL, "x")}}, "its name must be a string"),
        ({"choices": {"a": m.ModelChoice(MODEL, " ")}}, "criteria must be a string"),
        ({"choices": {"a": m.ModelChoice(5, "x")}}, "choice 'a' must be a chat model", TypeError),  # type: ignore[arg-type]
        ({"default": "slow"}, "default must be one of quick"),
        *(({"instructions": x}, "must be a non-empty string") for x in ("", ["a"])),
        ({"instructions": 5, "classifier": DECISIONS}, "must be a non-empty string"),
        ({"instructions": {}, "classifier": DECISIONS}, "must be a non-empty string"),
        ({"classifier": 5}, "classifier must be a chat model", TypeError),
    ],
    once: [
        ({"effects": ["pay"]}, "effects must be a dict", TypeError),
        ({"effects": {"pay": "stop"}}, r"effects\['pay'\] must be 'rerun', 'ask' or"),
        ({"effects": {}, "default": "x"}, "default must be"),
        ({"effects": {"pay": None}}, "names no tool"),
        ({"undo": {"pay": 1}}, "undo must be a dict", TypeError),
    ],
    rule: [
        ({"pii_type": "ssn"}, "pii_type must be one of email, .*Pass detector="),
        ({"strategy": "remove"}, "strategy must be 'redact', 'block', 'mask' or 'hash'"),
        ({"detector": "(["}, "detector of 'email' must be a regular expression"),
        ({"detector": re.compile(b"x")}, "detector of 'email' must match strings, got b"),
        ({"detector": 3}, "regular expression or a function of a text, got 3", TypeError),
        ({"pii_type": "a|b", "detector": "x"}, "pii_type must be a name of letters"),
        ({"pii_type": 3, "detector": "x"}, "pii_type must be a name of letters"),
        ({"hash_key": ""}, "hash_key must be non-empty bytes or str, got str", TypeError),
        ({"hash_key": 3}, "hash_key must be non-empty bytes or str, got int", TypeError),
    ],
    m.ProgressGuardMiddleware: [
        ({"remark_after": 0}, "remark_after must be a whole number of at least 1, got 0."),
        ({"answer_after": None}, "answer_after must be a whole number of at least 1, got None."),
        ({"remark_after": 4}, "must not decrease, got 4, 3 and 4. Equal counts skip a step."),
        (
            {"polling_tools": ["wait"]},
            "polling_tools must be a dict of counts by tool, got",
            TypeError,
        ),
        ({"polling_tools": {"wait": 0}}, r"polling_tools\['wait'\] must be a whole number"),
        ({"ignore_tools": "press"}, r"write ignore_tools=\['search'\]", TypeError),
        ({"ignore_arguments": "reason"}, "ignore_arguments must be a list of strings", TypeError),
        ({"ignore_arguments": [1]}, "ignore_arguments must be a list of strings", TypeError),
        ({"result_key": 3}, "result_key must be a plain function of the ToolMessage", TypeError),
        ({"exit_behavior": "stop"}, "exit_behavior must be 'answer', 'end' or 'error', got 'stop'"),
    ],
    m.PromptCachingMiddleware: [
        ({"ttl": "2h"}, "ttl must be '5m' or '1h', got '2h'"),
        ({"min_tokens": -1}, "min_tokens must be a whole number of at least 0, got -1"),
        ({"provider": "acme"}, "provider must be 'anthropic', 'openai' or 'bedrock', got 'acme'"),
        ({"openai_cache_key": "x"}, "openai_cache_key must be True or False, got 'x'", TypeError),
    ],
    m.ProviderToolSearchMiddleware: [
        ({"searchable_tools": "mail"}, "searchable_tools must be a list", TypeError),
        ({"searchable_tools": [3]}, "searchable_tools must hold names", TypeError),
        ({"searchable_tools": []}, "searchable_tools is empty"),
        ({"provider": "google"}, "provider must be 'anthropic' or 'openai'"),
        ({"on_unsupported": "ignore"}, "on_unsupported must be 'warn' or 'error'"),
    ],
    m.ShellToolMiddleware: [
        ({"workspace_root": __file__}, f"the path of a folder, got {__file__!r}, and .* is"),
        ({"workspace_root": f"{__file__}/w"}, f"got '{__file__}/w', and {__file__!r} is a file"),
        ({"workspace_root": 3}, "workspace_root must be the path of a folder, got 3."),
        ({"startup_commands": ["ls", ""]}, "must be non-empty strings without NUL, got ''"),
        ({"startup_commands": 3}, "startup_commands must be a command or a list"),
        ({"execution_policy": m.HostExecutionPolicy}, "must be an instance", TypeError),
        ({"redaction_rules": ["email"]}, "redaction_rules must be a list of Redaction", TypeError),
        ({"tool_name": ""}, "tool_name must be a non-empty string"),
        ({"tool_description": ""}, "tool_description must be a non-empty string"),
        ({"shell_command": []}, "shell_command must be a shell"),
        ({"shell_command": ["bash", 3]}, "each word of shell_command"),
        ({"env": {"A": None}}, r"env\['A'\] must be a string without NUL or a number"),
        ({"env": {"A=B": "x"}}, "env: names must consist of letters, .* got 'A=B'"),
        ({"env": ["A"]}, "env must be a dict"),
    ],
    m.HostExecutionPolicy: SHELLS,
    m.DockerExecutionPolicy: [
        *SHELLS,
        ({"image": ""}, "image must be a non-empty string"),
        ({"binary": None}, "binary must be a non-empty string"),
        ({"user": "  "}, "user must be a non-empty string"),
        ({"cpus": "two"}, "cpus must be a number"),
        ({"extra_run_args": "--gpus all"}, r"Pass extra_run_args=\['--gpus', 'all'\]"),
        ({"extra_run_args": [1]}, "an argument in extra_run_args"),
    ],
    m.BubblewrapExecutionPolicy: [
        *SHELLS,
        ({"binary": ""}, "binary must be a non-empty string"),
        ({"read_only_paths": ["opt"]}, "read_only_paths must be absolute paths, got 'opt'"),
        ({"read_only_paths": "/opt"}, r"a list, got '/opt'. Pass read_only_paths=\['/opt'\]"),
        ({"tmpfs_bytes": 1}, "tmpfs_bytes must be a whole number"),
        ({"tmpfs_bytes": None}, "tmpfs_bytes must be a whole number"),
    ],
    m.CodexSandboxExecutionPolicy: [
        *SHELLS,
        ({"platform": "windows"}, "platform must be 'auto'"),
        ({"config_overrides": ["a"]}, "must be a dict"),
        ({"config_overrides": {"a": None}}, "config_overrides must hold strings, .* got None"),
    ],
    summarizing: [
        ({"model": 3}, "model must be a chat model", TypeError),
        ({"token_counter": 3}, "token_counter must be a function", TypeError),
        ({"summarizer": 3}, "summarizer must be a model", TypeError),
        ({"summary_prompt": 3}, "summary_prompt must be a string", TypeError),
        ({"trigger": ("messages", 0)}, "trigger: messages must be a whole number"),
        *(
            ({"trigger": ("tokens", x)}, "trigger: tokens must be a whole number")
            for x in (1.5, True, "9")
        ),
        ({"trigger": ("words", 9)}, "trigger must be one of"),
        ({"trigger": {"words": 9}}, "trigger must be one of"),
        ({"trigger": {}}, "would always be reached"),
        ({"trigger": "messages"}, "trigger must be a size"),
        ({"trigger": 7}, "trigger must be a size"),
        ({"trigger": [("messages", 5), None]}, "trigger must be one of"),
        ({"trigger": ("fraction", 0)}, "trigger: a fraction must be more than 0"),
        ({"trigger": ("fraction", 1.1)}, "trigger: a fraction must be more than 0"),
        ({"trigger": ("fraction", 0.5)}, "has no max_input_tokens"),
        ({"trigger": {"fraction": 0.5, "tokens": 9}}, "has no max_input_tokens"),
        ({"keep": ("fraction", 0.5)}, "has no max_input_tokens"),
        ({"keep": ("messages", -1)}, "keep: messages must be a whole number"),
        ({"keep": 20}, "keep must be one of"),
        ({"keep": ("messages",)}, "keep must be one of"),
        ({"trim_tokens_to_summarize": 0}, "trim_tokens_to_summarize: tokens"),
    ],
    m.TodoListMiddleware: [
        ({"system_prompt": None}, "system_prompt must be a string", TypeError),
        ({"tool_description": 3}, "tool_description must be a string", TypeError),
        ({"tool_description": " "}, "tool_description must say"),
    ],
    m.ToolCallLimitMiddleware: [
        ({}, "Pass thread_limit, run_limit or both"),
        ({"run_limit": -1}, "run_limit must be a whole number"),
        ({"thread_limit": 1.0}, "thread_limit must be a whole number"),
        ({"run_limit": True}, "run_limit must be a whole number"),
        ({"run_limit": 3, "thread_limit": 2}, r"run_limit \(3\) must .*limit \(2\)"),
        ({"run_limit": 1, "exit_behavior": "x"}, "'continue', 'end', 'error' or 'answer'"),
        ({"run_limit": 1, "tool_name": ""}, "tool_name must not be empty"),
        ({"run_limit": 1, "tool_name": mail}, "tool_name must be a string or None", TypeError),
    ],
    m.ToolErrorMiddleware: [
        ({"on_error": "Sorry."}, "on_error must be a plain function"),
        ({"on_error": ValueError}, "on_error must be a plain function"),
        ({"on_error": asyncio.sleep}, "a coroutine function as aon_error"),
        ({"aon_error": lambda error, request: "x"}, "aon_error must be an `async def` function"),
        ({"aon_error": "Sorry."}, "aon_error must be"),
        ({"tools": []}, "would be covered"),
        ({"tools": "fail"}, "write tools=", TypeError),
    ],
    m.ToolResultOffloadMiddleware: [
        ({"threshold": 0}, "threshold: characters must be a whole number"),
        ({"preview": -1}, "preview: bytes must be a whole number"),
        ({"preview": None}, "preview: bytes must be a whole number"),
        ({"place": 7}, "place must be 'thread', 'store' or the path of a folder", TypeError),
        ({"place": "/no/such/folder"}, "or a folder that exists.*Create the folder"),
        ({"namespace": "results"}, "namespace must be a tuple of non-empty strings"),
        ({"namespace": ()}, "namespace must be a tuple of non-empty strings"),
        ({"namespace": ("",)}, "namespace must be a tuple of non-empty strings"),
        ({"tool_name": 7}, "tool_name must be a string", TypeError),
        ({"tool_name": ""}, "tool_name must be the name of a tool"),
        ({"tool_name": "look up"}, "tool_name must be the name of a tool"),
    ],
    m.ToolRetryMiddleware: [
        *RETRIES,
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"timeout": NAN}, "timeout must be a number of seconds"),
        ({"idempotent_tools": []}, "idempotent_tools is empty"),
        ({"tools": "fetch"}, r"write tools=\['search'\]", TypeError),
        ({"tools": mail}, r"write tools=\['search'\]", TypeError),
        ({"tools": [add]}, "A function becomes a tool with the function's name", TypeError),
        ({"tools": [""]}, "names of tools", TypeError),
        ({"tools": []}, "would be covered"),
    ],
}


@each("make, row", [(make, row) for make, rows in WRONG.items() for row in rows])
def test_a_wrong_argument_is_refused_by_name(make: Any, row: Row) -> None:
    if make is m.ShellToolMiddleware and os.name != "posix":
        pytest.skip("the shell needs a POSIX system")
    arguments, problem, kind = (*row, ValueError)[:3]
    with pytest.raises(kind, match=problem):
        make(**arguments)
