"""The built-in middleware. This folder is the package ``agent_factory.middleware``.

>>> from agent_factory.middleware import AgentMiddleware, ModelCallLimitMiddleware

Names are loaded when they are first used, as those of agent_factory are.
"""

from __future__ import annotations

if __name__ != "agent_factory.middleware":  # e.g. ``import middleware`` from the repository root
    raise ImportError(
        "this folder is the package agent_factory.middleware; import it by that name",
        name=__name__,
    )

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_factory import AgentMiddleware as AgentMiddleware
    from agent_factory import AgentState as AgentState
    from agent_factory import ContextT as ContextT
    from agent_factory import ExtendedModelResponse as ExtendedModelResponse
    from agent_factory import InputAgentState as InputAgentState
    from agent_factory import JumpTo as JumpTo
    from agent_factory import ModelCallResult as ModelCallResult
    from agent_factory import ModelRequest as ModelRequest
    from agent_factory import ModelResponse as ModelResponse
    from agent_factory import OmitFromInput as OmitFromInput
    from agent_factory import OmitFromOutput as OmitFromOutput
    from agent_factory import OmitFromSchema as OmitFromSchema
    from agent_factory import OutputAgentState as OutputAgentState
    from agent_factory import PrivateStateAttr as PrivateStateAttr
    from agent_factory import ResponseT as ResponseT
    from agent_factory import Runtime as Runtime
    from agent_factory import StateT as StateT
    from agent_factory import ToolCallRequest as ToolCallRequest
    from agent_factory import after_agent as after_agent
    from agent_factory import after_model as after_model
    from agent_factory import before_agent as before_agent
    from agent_factory import before_model as before_model
    from agent_factory import dynamic_prompt as dynamic_prompt
    from agent_factory import hook_config as hook_config
    from agent_factory import wrap_model_call as wrap_model_call
    from agent_factory import wrap_tool_call as wrap_tool_call
    from agent_factory.middleware.budget import (
        BudgetExceededError as BudgetExceededError,
    )
    from agent_factory.middleware.budget import BudgetMiddleware as BudgetMiddleware
    from agent_factory.middleware.budget import BudgetRequest as BudgetRequest
    from agent_factory.middleware.budget import BudgetResponse as BudgetResponse
    from agent_factory.middleware.budget import BudgetState as BudgetState
    from agent_factory.middleware.budget import Ledger as Ledger
    from agent_factory.middleware.budget import Limits as Limits
    from agent_factory.middleware.budget import Price as Price
    from agent_factory.middleware.budget import RaiseBudget as RaiseBudget
    from agent_factory.middleware.budget import Reservation as Reservation
    from agent_factory.middleware.budget import Spent as Spent
    from agent_factory.middleware.budget import StopRun as StopRun
    from agent_factory.middleware.budget import UnknownPriceError as UnknownPriceError
    from agent_factory.middleware.context_editing import ClearToolUsesEdit as ClearToolUsesEdit
    from agent_factory.middleware.context_editing import ContextEdit as ContextEdit
    from agent_factory.middleware.context_editing import (
        ContextEditingMiddleware as ContextEditingMiddleware,
    )
    from agent_factory.middleware.file_search import (
        FilesystemFileSearchMiddleware as FilesystemFileSearchMiddleware,
    )
    from agent_factory.middleware.human_in_the_loop import Action as Action
    from agent_factory.middleware.human_in_the_loop import ActionRequest as ActionRequest
    from agent_factory.middleware.human_in_the_loop import (
        ApproveDecision as ApproveDecision,
    )
    from agent_factory.middleware.human_in_the_loop import Decision as Decision
    from agent_factory.middleware.human_in_the_loop import DecisionType as DecisionType
    from agent_factory.middleware.human_in_the_loop import EditDecision as EditDecision
    from agent_factory.middleware.human_in_the_loop import HITLRequest as HITLRequest
    from agent_factory.middleware.human_in_the_loop import HITLResponse as HITLResponse
    from agent_factory.middleware.human_in_the_loop import (
        HumanInTheLoopMiddleware as HumanInTheLoopMiddleware,
    )
    from agent_factory.middleware.human_in_the_loop import (
        InterruptOnConfig as InterruptOnConfig,
    )
    from agent_factory.middleware.human_in_the_loop import (
        RejectDecision as RejectDecision,
    )
    from agent_factory.middleware.human_in_the_loop import (
        RespondDecision as RespondDecision,
    )
    from agent_factory.middleware.human_in_the_loop import ReviewConfig as ReviewConfig
    from agent_factory.middleware.human_in_the_loop import (
        ToolApprovalRequest as ToolApprovalRequest,
    )
    from agent_factory.middleware.model_call_limit import (
        ModelCallLimitExceededError as ModelCallLimitExceededError,
    )
    from agent_factory.middleware.model_call_limit import (
        ModelCallLimitMiddleware as ModelCallLimitMiddleware,
    )
    from agent_factory.middleware.model_call_limit import ModelCallLimitState as ModelCallLimitState
    from agent_factory.middleware.model_fallback import (
        ModelFallbackMiddleware as ModelFallbackMiddleware,
    )
    from agent_factory.middleware.model_fallback import portable_request as portable_request
    from agent_factory.middleware.model_refusal import ModelRefusalError as ModelRefusalError
    from agent_factory.middleware.model_refusal import (
        ModelRefusalMiddleware as ModelRefusalMiddleware,
    )
    from agent_factory.middleware.model_refusal import refusal_of as refusal_of
    from agent_factory.middleware.model_retry import ModelRetryMiddleware as ModelRetryMiddleware
    from agent_factory.middleware.model_router import ModelChoice as ModelChoice
    from agent_factory.middleware.model_router import ModelRouterMiddleware as ModelRouterMiddleware
    from agent_factory.middleware.model_router import ModelRouterState as ModelRouterState
    from agent_factory.middleware.model_router import RoutingError as RoutingError
    from agent_factory.middleware.pii import PIIDetectionError as PIIDetectionError
    from agent_factory.middleware.pii import PIIMatch as PIIMatch
    from agent_factory.middleware.pii import PIIMiddleware as PIIMiddleware
    from agent_factory.middleware.pii import detect_credit_card as detect_credit_card
    from agent_factory.middleware.pii import detect_email as detect_email
    from agent_factory.middleware.pii import detect_ip as detect_ip
    from agent_factory.middleware.pii import detect_mac_address as detect_mac_address
    from agent_factory.middleware.pii import detect_name as detect_name
    from agent_factory.middleware.pii import detect_phone as detect_phone
    from agent_factory.middleware.pii import detect_url as detect_url
    from agent_factory.middleware.provider_tool_search import (
        ProviderToolSearchMiddleware as ProviderToolSearchMiddleware,
    )
    from agent_factory.middleware.shell_tool import (
        BubblewrapExecutionPolicy as BubblewrapExecutionPolicy,
    )
    from agent_factory.middleware.shell_tool import (
        CodexSandboxExecutionPolicy as CodexSandboxExecutionPolicy,
    )
    from agent_factory.middleware.shell_tool import (
        DockerExecutionPolicy as DockerExecutionPolicy,
    )
    from agent_factory.middleware.shell_tool import ExecutionPolicy as ExecutionPolicy
    from agent_factory.middleware.shell_tool import (
        HostExecutionPolicy as HostExecutionPolicy,
    )
    from agent_factory.middleware.shell_tool import RedactionRule as RedactionRule
    from agent_factory.middleware.shell_tool import ShellError as ShellError
    from agent_factory.middleware.shell_tool import ShellState as ShellState
    from agent_factory.middleware.shell_tool import (
        ShellToolMiddleware as ShellToolMiddleware,
    )
    from agent_factory.middleware.summarization import ContextSize as ContextSize
    from agent_factory.middleware.summarization import (
        SummarizationMiddleware as SummarizationMiddleware,
    )
    from agent_factory.middleware.summarization import TriggerClause as TriggerClause
    from agent_factory.middleware.todo import PlanningState as PlanningState
    from agent_factory.middleware.todo import Todo as Todo
    from agent_factory.middleware.todo import TodoListMiddleware as TodoListMiddleware
    from agent_factory.middleware.tool_call_limit import (
        ToolCallLimitExceededError as ToolCallLimitExceededError,
    )
    from agent_factory.middleware.tool_call_limit import (
        ToolCallLimitMiddleware as ToolCallLimitMiddleware,
    )
    from agent_factory.middleware.tool_call_limit import (
        ToolCallLimitState as ToolCallLimitState,
    )
    from agent_factory.middleware.tool_emulator import LLMToolEmulator as LLMToolEmulator
    from agent_factory.middleware.tool_error import ToolErrorMiddleware as ToolErrorMiddleware
    from agent_factory.middleware.tool_retry import ToolRetryMiddleware as ToolRetryMiddleware
    from agent_factory.middleware.tool_selection import (
        LLMToolSelectorMiddleware as LLMToolSelectorMiddleware,
    )
    from agent_factory.middleware.tool_selection import ToolSelectionError as ToolSelectionError

_HOME = {
    "agent_factory": (
        "AgentMiddleware",
        "AgentState",
        "ContextT",
        "ExtendedModelResponse",
        "InputAgentState",
        "JumpTo",
        "ModelCallResult",
        "ModelRequest",
        "ModelResponse",
        "OmitFromInput",
        "OmitFromOutput",
        "OmitFromSchema",
        "OutputAgentState",
        "PrivateStateAttr",
        "ResponseT",
        "Runtime",
        "StateT",
        "ToolCallRequest",
        "after_agent",
        "after_model",
        "before_agent",
        "before_model",
        "dynamic_prompt",
        "hook_config",
        "wrap_model_call",
        "wrap_tool_call",
    ),
    ".budget": (
        "BudgetExceededError",
        "BudgetMiddleware",
        "BudgetRequest",
        "BudgetResponse",
        "BudgetState",
        "Ledger",
        "Limits",
        "Price",
        "RaiseBudget",
        "Reservation",
        "Spent",
        "StopRun",
        "UnknownPriceError",
    ),
    ".context_editing": ("ClearToolUsesEdit", "ContextEdit", "ContextEditingMiddleware"),
    ".file_search": ("FilesystemFileSearchMiddleware",),
    ".human_in_the_loop": (
        "Action",
        "ActionRequest",
        "ApproveDecision",
        "Decision",
        "DecisionType",
        "EditDecision",
        "HITLRequest",
        "HITLResponse",
        "HumanInTheLoopMiddleware",
        "InterruptOnConfig",
        "RejectDecision",
        "RespondDecision",
        "ReviewConfig",
        "ToolApprovalRequest",
    ),
    ".model_call_limit": (
        "ModelCallLimitExceededError",
        "ModelCallLimitMiddleware",
        "ModelCallLimitState",
    ),
    ".model_fallback": ("ModelFallbackMiddleware", "portable_request"),
    ".model_refusal": ("ModelRefusalError", "ModelRefusalMiddleware", "refusal_of"),
    ".model_retry": ("ModelRetryMiddleware",),
    ".model_router": (
        "ModelChoice",
        "ModelRouterMiddleware",
        "ModelRouterState",
        "RoutingError",
    ),
    ".pii": (
        "PIIDetectionError",
        "PIIMatch",
        "PIIMiddleware",
        "detect_credit_card",
        "detect_email",
        "detect_ip",
        "detect_mac_address",
        "detect_name",
        "detect_phone",
        "detect_url",
    ),
    ".provider_tool_search": ("ProviderToolSearchMiddleware",),
    ".shell_tool": (
        "BubblewrapExecutionPolicy",
        "CodexSandboxExecutionPolicy",
        "DockerExecutionPolicy",
        "ExecutionPolicy",
        "HostExecutionPolicy",
        "RedactionRule",
        "ShellError",
        "ShellState",
        "ShellToolMiddleware",
    ),
    ".summarization": ("ContextSize", "SummarizationMiddleware", "TriggerClause"),
    ".todo": ("PlanningState", "Todo", "TodoListMiddleware"),
    ".tool_call_limit": (
        "ToolCallLimitExceededError",
        "ToolCallLimitMiddleware",
        "ToolCallLimitState",
    ),
    ".tool_emulator": ("LLMToolEmulator",),
    ".tool_error": ("ToolErrorMiddleware",),
    ".tool_retry": ("ToolRetryMiddleware",),
    ".tool_selection": ("LLMToolSelectorMiddleware", "ToolSelectionError"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    try:
        module = _MODULE_OF[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = globals()[name] = getattr(import_module(module, __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
