"""The built-in middleware. This folder is the package ``agent_factory.middleware``.

>>> from agent_factory.middleware import AgentMiddleware, ModelCallLimitMiddleware

Names are loaded at their first use, like the names of agent_factory.
"""

from __future__ import annotations

if __name__ != "agent_factory.middleware":  # e.g. ``import middleware`` from the repository root
    raise ImportError(
        "this folder is the package agent_factory.middleware; import it by that name", name=__name__
    )

# ruff: noqa: F403  # Only type checkers read these imports; the modules list their exports.
from typing import TYPE_CHECKING

from agent_factory import HOMES, lazy_names

if TYPE_CHECKING:
    from agent_factory import NodePolicy as NodePolicy
    from agent_factory import configure_trace_policy as configure_trace_policy

    from .answer_guard import *
    from .auto_mode import AutoModeMiddleware as AutoModeMiddleware
    from .auto_mode import RiskJudge as RiskJudge
    from .background import *
    from .budget import *
    from .client_tools import ClientToolsMiddleware as ClientToolsMiddleware
    from .context_editing import *
    from .file_search import *
    from .flow_guard import *
    from .guard import *
    from .human_in_the_loop import *
    from .model_call_limit import *
    from .model_fallback import *
    from .model_refusal import *
    from .model_retry import *
    from .model_router import *
    from .once import *
    from .pii import *
    from .progress_guard import *
    from .prompt_caching import *
    from .provider_tool_search import *
    from .shell_tool import *
    from .steering import *
    from .summarization import *
    from .todo import PlanningState as PlanningState
    from .todo import Todo as Todo
    from .todo import TodoListMiddleware as TodoListMiddleware
    from .tool_call_limit import *
    from .tool_emulator import *
    from .tool_error import *
    from .tool_result_offload import *
    from .tool_retry import *
    from .tool_selection import LLMToolSelectorMiddleware as LLMToolSelectorMiddleware
    from .tool_selection import ToolSelectionError as ToolSelectionError
    from .types import *

# By module: each is imported at the first use of a name.
_HOME = {
    "agent_factory": (  # the names for writing a middleware
        f"{HOMES['agent_factory.types']} {HOMES['agent_factory.hooks.decorators']} "
        "AgentMiddleware Runtime ToolCallRequest TracePolicy configure_trace_policy hook_config "
        "omit_payload"
    ),
    ".answer_guard": "AnswerGuardMiddleware UnusableAnswerError",
    ".auto_mode": "AutoModeMiddleware RiskJudge",
    ".background": (
        "BackgroundCall BackgroundJob BackgroundMiddleware BackgroundState JobStore jobs_of_run "
        "lost_message repeat_job"
    ),
    ".budget": (
        "BudgetExceededError BudgetMiddleware BudgetRequest BudgetResponse BudgetState Ledger "
        "Limits Price RaiseBudget Reservation Spent StopRun UnknownPriceError"
    ),
    ".client_tools": "ClientToolsMiddleware",
    ".context_editing": (
        "ClearToolUsesEdit ContextEdit ContextEditingMiddleware ContextEditingState"
    ),
    ".file_search": "FilesystemFileSearchMiddleware",
    ".flow_guard": "FlowGuardMiddleware FlowGuardState",
    ".guard": "GuardMiddleware GuardState",
    ".human_in_the_loop": (
        "Action ActionRequest ApproveDecision CallChanged Decision DecisionType EditDecision "
        "HITLRequest HITLResponse HumanInTheLoopMiddleware InterruptOnConfig RejectDecision "
        "Remember RespondDecision ReviewConfig Rule ToolApprovalRequest ToolPolicy"
    ),
    ".model_call_limit": "ModelCallLimitExceededError ModelCallLimitMiddleware ModelCallLimitState",
    ".model_fallback": "ModelFallbackMiddleware portable_request",
    ".model_refusal": "ModelRefusalError ModelRefusalMiddleware refusal_of",
    ".model_retry": "ModelRetryMiddleware",
    ".model_router": "ModelChoice ModelRouterMiddleware ModelRouterState RoutingError",
    ".once": (
        "Effect EffectError EffectStore InMemoryEffects OnceMiddleware OnceState SqliteEffects "
        "Undone aundo_effects effects_of_run idempotency_key undo_effects"
    ),
    ".pii": (
        "PIIDetectionError PIIMatch PIIMiddleware ResolvedRedactionRule detect_credit_card "
        "detect_email detect_ip detect_mac_address detect_name detect_phone detect_url"
    ),
    ".progress_guard": "NoProgressError ProgressGuardMiddleware ProgressGuardState",
    ".prompt_caching": "PromptCachingMiddleware",
    ".provider_tool_search": "ProviderToolSearchMiddleware",
    ".shell_tool": (
        "BubblewrapExecutionPolicy CodexSandboxExecutionPolicy DockerExecutionPolicy "
        "ExecutionPolicy HostExecutionPolicy RedactionRule ShellError ShellState "
        "ShellToolMiddleware"
    ),
    ".steering": (
        "STEERING_READ RunMailbox SteeringMiddleware SteeringState Unread acancel afollow_up "
        "asteer aunread cancel follow_up mailbox_of_run steer unread"
    ),
    ".summarization": "ContextSize SummarizationMiddleware SummarizationState TriggerClause",
    ".todo": "PlanningState Todo TodoListMiddleware",
    ".tool_call_limit": "ToolCallLimitExceededError ToolCallLimitMiddleware ToolCallLimitState",
    ".tool_emulator": "LLMToolEmulator",
    ".tool_error": "ToolErrorMiddleware",
    ".tool_result_offload": "OffloadState ToolResultOffloadMiddleware",
    ".tool_retry": "ToolRetryMiddleware",
    ".tool_selection": "LLMToolSelectorMiddleware ToolSelectionError",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOME)
