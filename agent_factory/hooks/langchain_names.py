"""Private methods of LangChain's middleware, langchain 1.5.2, by the built-ins without them."""

from __future__ import annotations

from collections.abc import Mapping

PRIVATE_METHODS: Mapping[str, str] = {
    "AutoModeMiddleware": "_blocked_tool_message _classification_state _tool_names",
    "ContextEditingMiddleware": "_resolve_token_counter",
    "FilesystemFileSearchMiddleware": (
        "_format_grep_results _python_search _ripgrep_search _validate_and_resolve_path"
    ),
    "HumanInTheLoopMiddleware": (
        "_annotate_edited_result _apply_edit _create_action_and_config _notice _prepend_notice "
        "_process_decision _resolve_per_call _reviewer_edit _should_interrupt "
        "_tool_approval_request"
    ),
    "LLMToolSelectorMiddleware": (
        "_prepare_selection_request _process_selection_response _resolve_parsing_failure"
    ),
    "ModelRetryMiddleware": "_format_failure_message _handle_failure",
    "ModelRouterMiddleware": "_latest_human_message",
    "PIIMiddleware": "_process_content",
    "ProviderToolSearchMiddleware": "_prepare_request",
    "ShellToolMiddleware": (
        "_apply_redactions _create_resources _format_tool_message _get_or_create_resources "
        "_normalize_commands _normalize_env _normalize_shell_command _run_shell_tool "
        "_run_shutdown_commands _run_startup_commands"
    ),
    "SummarizationMiddleware": (
        "_acreate_summary _build_new_messages _copy_trigger _create_summary "
        "_determine_cutoff_index _ensure_message_ids _find_safe_cutoff _find_safe_cutoff_point "
        "_find_token_based_cutoff _format_summary_prompt _get_profile_limits "
        "_legacy_trigger_conditions _normalize_trigger _overflow_retry_prompt _partition_messages "
        "_should_summarize _should_summarize_based_on_reported_tokens _trim_messages_for_summary "
        "_validate_context_size"
    ),
    "ToolCallLimitMiddleware": "_matches_tool_filter _separate_tool_calls _would_exceed_limit",
    "ToolErrorMiddleware": "_should_handle_tool",
    "ToolRetryMiddleware": "_format_failure_message _handle_failure _should_retry_tool",
}
"""Names by class, separated by spaces. Subclasses override some of them in public code."""
