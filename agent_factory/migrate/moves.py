"""The new modules of names, the new names of keywords, and names without a counterpart."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from agent_factory import middleware, prebuilt
from agent_factory.migrate.values import Symbol

ROOT: Final = "agent_factory"
PREBUILT: Final = f"{ROOT}.prebuilt"
MIDDLEWARE: Final = f"{ROOT}.middleware"
STRUCTURED: Final = f"{ROOT}.structured_output"

REACT: Final = Symbol(PREBUILT, "create_react_agent")
REACTS: Final = (REACT, Symbol(ROOT, REACT.name))
AGENT: Final = Symbol(ROOT, "create_agent")

_LANGCHAIN_MIDDLEWARE: Final = "langchain.agents.middleware"

_INBOX = ("ActionRequest", "HumanInterrupt", "HumanInterruptConfig", "HumanResponse")

_FOR_TOOLS = ("InjectedState", "InjectedStore", "ToolNode", "ToolRuntime", "tools_condition")

_INTERNAL = "internal_call_transformer"  # the package does not offer its names

_MIDDLEWARE_MODULES = {
    "_execution", "_redaction", "_retry", "_trace_policy", "auto_mode", "context_editing",
    "file_search", "human_in_the_loop", "model_call_limit", "model_fallback", "model_refusal",
    "model_retry", "model_router", "pii", "provider_tool_search", "shell_tool", "summarization",
    "todo", "tool_call_limit", "tool_emulator", "tool_error", "tool_retry", "tool_selection",
    "types",
}  # fmt: skip

MOVES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "langgraph.prebuilt": {ROOT: _FOR_TOOLS, PREBUILT: (REACT.name, "ValidationNode")},
    "langgraph.prebuilt.chat_agent_executor": {
        PREBUILT: tuple({*prebuilt.__all__} - {"ValidationNode", *_INBOX})
    },
    "langgraph.prebuilt.tool_node": {ROOT: (*_FOR_TOOLS, "ToolCallRequest")},
    "langgraph.prebuilt.tool_validator": {PREBUILT: ("ValidationNode",)},
    "langgraph.prebuilt.interrupt": {PREBUILT: _INBOX},
    "langchain.agents": {ROOT: ("AgentState", AGENT.name)},
    "langchain.agents.factory": {ROOT: (AGENT.name,)},
    # Its modules offer what the package offers, and more; what has a counterpart has its name.
    _LANGCHAIN_MIDDLEWARE: {MIDDLEWARE: tuple(middleware.__all__)},
    f"{_LANGCHAIN_MIDDLEWARE}.{_INTERNAL}": {
        f"{MIDDLEWARE}.{_INTERNAL}": (
            "INTERNAL_CALL_METADATA_KEY",
            "InternalCallTransformer",
            "internal_call_metadata",
        )
    },
    "langchain.agents.structured_output": {
        STRUCTURED: (
            "AutoStrategy",
            "MultipleStructuredOutputsError",
            "OutputToolBinding",
            "ProviderStrategy",
            "ProviderStrategyBinding",
            "ResponseFormat",
            "SchemaT",
            "StructuredOutputError",
            "StructuredOutputValidationError",
            "ToolStrategy",
        )
    },
    # Calls of what has moved are looked at again: they may become create_agent in a second step,
    # and have arguments that a person decides about.
    MIDDLEWARE: {MIDDLEWARE: tuple(middleware.__all__)},
    PREBUILT: {PREBUILT: (REACT.name,)},
    ROOT: {ROOT: (AGENT.name, REACT.name)},
}
"""For each old module: the new modules of its names."""

STAYS: Final = ("langgraph.prebuilt", "langgraph.prebuilt.tool_node", MIDDLEWARE, PREBUILT, ROOT)
"""Modules that may still be imported: their other names stay, without a finding."""

_ADVICE: Final[Mapping[str, tuple[str, str]]] = {
    "langgraph.prebuilt.chat_agent_executor.create_tool_calling_executor": (
        "it is an older name of create_react_agent, with other parameters",
        "agent_factory.prebuilt.create_react_agent",
    ),
    f"{_LANGCHAIN_MIDDLEWARE}._execution.BaseExecutionPolicy": (
        "policies here are subclasses of ExecutionPolicy, whose methods differ",
        "agent_factory.middleware.ExecutionPolicy",
    ),
    f"{_LANGCHAIN_MIDDLEWARE}.shell_tool.ShellToolState": (
        "the state of the shell has other keys here",
        "agent_factory.middleware.ShellState",
    ),
}

_NO_COUNTERPART: Final = (
    "agent_factory has no such name",
    "its replacement (docs/migration.md); the import stays",
)


def home_of(symbol: Symbol) -> Symbol | None:
    """The new module and name of a name; None if it does not move."""
    for module, names in MOVES.get(_table_of(symbol.module), {}).items():
        if symbol.name in names:
            return Symbol(module, symbol.name)
    return None


def _table_of(module: str) -> str:
    package, _, name = module.rpartition(".")
    inside = package == _LANGCHAIN_MIDDLEWARE and name in _MIDDLEWARE_MODULES
    return package if inside else module


def path_of(path: str) -> str | None:
    """The new path of what a dotted path names, for patches; None if it has none here."""
    module, _, name = path.rpartition(".")
    if path == f"{_LANGCHAIN_MIDDLEWARE}.human_in_the_loop.interrupt":
        return f"{MIDDLEWARE}.human_in_the_loop.interrupt"
    if name == "init_chat_model" and is_known(module):
        return "langchain.chat_models.init_chat_model"
    parts = path.split(".")
    # Modules that names leave have two parts or more.
    for index in range(2, len(parts)):
        module, rest = ".".join(parts[:index]), parts[index:]
        # `patch` with the path of a standard module in another one patches the standard module.
        if is_known(module) and len(rest) > 1 and rest[0] in sys.stdlib_module_names:
            return ".".join(rest)
        if home := home_of(Symbol(module, rest[0])):
            # A path that does not exist here would let the patch fail.
            value = getattr(import_module(home.module), home.name)
            for attribute in rest[1:]:
                value = getattr(value, attribute, None)
            return None if value is None else ".".join([str(home), *rest[1:]])
    return None


def replacement_of(module: str) -> str:
    """The module of agent_factory that stands in for an old one, in words for a person."""
    homes = [home for home in MOVES.get(_table_of(module), {}) if home.startswith(ROOT)]
    part = f"{MIDDLEWARE}.{module.rpartition('.')[2]}"
    if _table_of(module) == _LANGCHAIN_MIDDLEWARE != module and find_spec(part):
        homes = [part]
    return " or ".join(homes) or "the module of agent_factory that has what is needed"


def is_known(module: str) -> bool:
    """Return True if names of a module may move."""
    return _table_of(module) in MOVES


def leads_to_known(module: str) -> bool:
    """Return True for a module whose names may move, and for a package around one."""
    return is_known(module) or any(path.startswith(f"{module}.") for path in MOVES)


def advice_on(symbol: Symbol) -> tuple[str, str] | None:
    """Return why a name has no counterpart, and what to write; None for all other names."""
    if not is_known(symbol.module) or symbol.module in STAYS or home_of(symbol):
        return None
    return _ADVICE.get(str(symbol)) or _ADVICE.get(symbol.module) or _NO_COUNTERPART


@dataclass(frozen=True, slots=True)
class Keyword:
    """The counterpart of a keyword argument, and a finding for where it cannot be rewritten."""

    name: str | None
    """Its new name; None if it has none."""

    value: str | None = None
    """The new form of a whole number, around `{}`; None keeps any value."""

    why: str = ""
    write: str = ""

    words: Mapping[str, str] = field(default_factory=dict)
    """The new words for some of its strings."""


_OF_REACT: Final = {
    "config_schema": Keyword("context_schema"),
    "state_modifier": Keyword("prompt"),
    "messages_modifier": Keyword(
        None,
        why="a function for it takes messages, and one for `prompt` takes the state",
        write="prompt=..., with a string or a function of the state",
    ),
}

_OF_RETRIES: Final = {
    "on_failure": Keyword("on_failure", words={"raise": "error", "return_message": "continue"})
}

KEYWORDS: Final[Mapping[Symbol, Mapping[str, Keyword]]] = {
    **dict.fromkeys(REACTS, _OF_REACT),
    Symbol(MIDDLEWARE, "SummarizationMiddleware"): {
        "max_tokens_before_summary": Keyword(
            "trigger",
            '("tokens", {})',
            why="this file does not show the number",
            write='trigger=("tokens", number), or nothing if it is None',
        ),
        "messages_to_keep": Keyword(
            "keep",
            '("messages", {})',
            why="this file does not show the number",
            write='keep=("messages", number)',
        ),
        "summary_prefix": Keyword(None, why="it has no effect", write="nothing"),
    },
    Symbol(MIDDLEWARE, "ModelRetryMiddleware"): _OF_RETRIES,
    Symbol(MIDDLEWARE, "ToolRetryMiddleware"): _OF_RETRIES,
}
"""Keyword arguments with another name here, or without a counterpart."""

TO_AGENT: Final[Mapping[str, Keyword]] = {
    "config_schema": Keyword("context_schema"),
    "prompt": Keyword("system_prompt"),
    "state_modifier": Keyword("system_prompt"),
}
"""Keyword arguments of `create_react_agent` with another name in `create_agent`."""
