"""What each parameter of a built-in is to a plan: part of a guard or a limit, or neither.

A parameter that is in neither table fails a test. So somebody decides: does another value let
through, run or use what was kept out before? Then each plan has to show the change.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, NamedTuple

from built_in_cases import BUILT_INS
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, create_agent, plan_agent, topology_of, with_model
from agent_factory import middleware as m
from agent_factory.prebuilt import agent_tool, create_react_agent
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import load_topology
from samples import find, refund
from tables import each

MODEL = ScriptedChatModel([])


class OtherModel(ScriptedChatModel):
    """A model that is not the judge of before."""


def no_weapons(messages: Any) -> str | None:
    """Object to weapons."""
    return "weapons" if "weapon" in str(messages) else None


def nothing(messages: Any) -> str | None:
    """Object to nothing."""


def content(result: ToolMessage) -> object:
    return result.content


class Slip(NamedTuple):
    """A value of a parameter, another one, the line of the diff, and the other arguments."""

    before: Any
    after: Any
    line: str
    others: dict[str, Any]


def slip(before: Any, after: Any, line: str, **others: Any) -> Slip:
    return Slip(before, after, line, others)


def setting(before: Any, after: Any, change: str, **others: Any) -> Slip:
    """A slip that is one of a setting."""
    return Slip(before, after, f"changed setting {{name}}: {change}", others)


def raised(before: Any, after: Any, what: str) -> Slip:
    """A limit that is a hundred times as high."""
    at_most = f"at most 5 {what}", f"at most 500 {what}"
    line = f"changed limit of {what} by {{layer}}: was {at_most[0]}, now {at_most[1]}"
    return slip(before, after, line)


def retries(method: str) -> Slip:
    """More retries in a layer."""
    return slip(1, 9, f"changed layer {{layer}}.{method}: was up to 2 attempts, now 10")


def flow(before: Any, after: Any, was: str, now: str) -> Slip:
    """A weaker rule about data that flows out."""
    was, now = (text.replace("SEEN", "seen untrusted and seen private") for text in (was, now))
    return slip(before, after, f"changed guard of * by {{layer}}: was {was}, now {now}")


def cleaned(parts: str, left: str, **others: Any) -> Slip:
    """A part of a thread that is cleaned no more."""
    line = f"changed access {{layer}} sanitizes: was {parts}, user_messages, now {left}"
    return slip(True, False, line, pii_type="email", **others)


def judged(threshold: float) -> m.ToolPolicy:
    return m.ToolPolicy(m.Rule("refund", "judge"), judge=m.RiskJudge(MODEL, threshold=threshold))


EUROS = {"euros": {">": 50}}
ASK, ASK_OVER = m.Rule("refund", "ask"), m.Rule("refund", "ask", when=EUROS)
DOLLARS, NINE = {"run": m.Limits(usd=0.5)}, m.Limits(turns=9)
FLOW = "decides about * when labeled outside and SEEN (approve, reject, respond)"

IN_PLAN: dict[type[AgentMiddleware[Any, Any]], dict[str, Slip]] = {
    m.AnswerGuardMiddleware: {
        "max_retries": retries("around_model"),
        "on_failure": setting("error", "answer", "'error' -> 'answer'"),
    },
    m.AutoModeMiddleware: {
        "classifier": setting(MODEL, OtherModel(), "ScriptedChatModel() -> OtherModel()"),
        "tools": slip(
            ["find", "refund"], ["find"], "removed guard of refund by {layer}: it was: a model "
            "decides about refund", classifier=MODEL,
        ),
        "instructions": setting("Is it?", "Say no.", "'Is it?' -> 'Say no.'", classifier=MODEL),
        "criteria": setting("Mails.", "None.", "'Mails.' -> 'None.'", classifier=MODEL),
        "threshold": setting(0.1, 0.9, "0.1 -> 0.9", classifier=MODEL),
    },
    m.BackgroundMiddleware: {
        "max_running": slip(
            3, 30, "changed limit of jobs under way a thread by {layer}: was at most 3 jobs under "
            "way a thread, now at most 30 jobs under way a thread",
        ),
    },
    m.BudgetMiddleware: {
        "run": raised(m.Limits(turns=5), m.Limits(turns=500), "model calls a run"),
        "thread": raised(m.Limits(turns=5), m.Limits(turns=500), "model calls a thread"),
        "ledger": setting(m.Ledger(m.Limits(turns=5)), None, "Ledger -> None", run=NINE),
        "exit_behavior": setting("error", "answer", "'error' -> 'answer'", run=NINE),
        "prices": setting(
            {"m": m.Price(input=9, output=9)}, {"m": m.Price(input=1, output=1)},
            "{{'m': Price(input=9, output=9, cache_read=None, cache_write=None)}} -> "
            "{{'m': Price(input=1, output=1, cache_read=None, cache_write=None)}}", **DOLLARS,
        ),
        "cap_output": setting(True, False, "True -> False", run=NINE),
    },
    m.ClientToolsMiddleware: {"max_tools": setting(3, 64, "3 -> 64")},
    m.FilesystemFileSearchMiddleware: {
        "root_path": setting(
            Path(__file__).parents[1] / "compat", Path(__file__).parents[1],
            ".../compat -> .../tests",
        ),
    },
    m.FlowGuardMiddleware: {
        "policy": flow(
            None, m.ToolPolicy(m.Rule("refund", "allow")), f"a person {FLOW}",
            "a person decides about * without refund when labeled outside and SEEN "
            "(approve, reject, respond)",
        ),
        "action": flow(
            "deny", "ask", "no call runs of * when labeled outside and SEEN", f"a person {FLOW}",
        ),
        "seen": flow(
            ["private"], ["private", "untrusted"],
            f"a person {FLOW}".replace("SEEN", "seen private"), f"a person {FLOW}",
        ),
        "reviewers": flow(["boss"], [], f"boss {FLOW}", f"a person {FLOW}"),
    },
    m.GuardMiddleware: {
        "check": setting(no_weapons, nothing, "no_weapons -> nothing"),
        "on": setting("messages", "answer", "'messages' -> 'answer'", check=nothing),
        "when": setting("before", "beside", "'before' -> 'beside'", check=nothing),
        "tools": setting(
            ["find", "refund"], ["find"], "{{'find', 'refund'}} -> {{'find'}}",
            check=nothing, on="result",
        ),
        "instructions": setting("Weapons.", "None.", "'Weapons.' -> 'None.'", check=MODEL),
        "threshold": setting(0.1, 0.9, "0.1 -> 0.9", check=MODEL, instructions="Weapons."),
    },
    m.HumanInTheLoopMiddleware: {
        "interrupt_on": slip(
            m.ToolPolicy(ASK), m.ToolPolicy(ASK_OVER, m.Rule("refund", "allow")),
            "changed guard of refund by {layer}: was a person decides about refund, "
            "now a person decides about refund when euros > 50",
        ),
    },
    m.LLMToolEmulator: {
        "tools": setting(["find", "refund"], ["find"], "{{'find', 'refund'}} -> {{'find'}}")
    },
    m.ModelCallLimitMiddleware: {
        "thread_limit": raised(5, 500, "model calls a thread"),
        "run_limit": raised(5, 500, "model calls a run"),
        "exit_behavior": setting("error", "answer", "'error' -> 'answer'", run_limit=5),
    },
    m.ModelFallbackMiddleware: {
        "additional_models": slip(
            (), (MODEL,), "changed layer {layer}.around_model: was up to 2 attempts, now 3",
            first_model=MODEL,
        ),
    },
    m.ModelRefusalMiddleware: {
        "models": slip(
            (MODEL,), (MODEL, MODEL),
            "changed layer {layer}.around_model: was up to 2 attempts, now 3",
        ),
    },
    m.ModelRetryMiddleware: {
        "max_retries": retries("around_model"),
    },
    m.OnceMiddleware: {
        "effects": setting(
            {"find": "ask"}, {"find": "rerun"}, "{{'find': 'ask'}} -> {{'find': 'rerun'}}"
        ),
        "store": setting(
            m.SqliteEffects("effects.db"), m.InMemoryEffects(), "SqliteEffects -> InMemoryEffects",
            effects={"find": "ask"},
        ),
        "default": setting("ask", "rerun", "'ask' -> 'rerun'", effects={}),
    },
    m.PIIMiddleware: {
        "strategy": setting("block", "redact", "'block' -> 'redact'", pii_type="email"),
        "detector": setting("A-[0-9]+", "A-[0-9]", "'A-[0-9]+' -> 'A-[0-9]'", pii_type="order"),
        "apply_to_input": cleaned("answers", "answers", apply_to_output=True),
        "apply_to_output": cleaned("answers", "user_messages"),
        "apply_to_tool_results": cleaned("tool_results", "user_messages"),
        "apply_to_tool_calls": cleaned("tool_calls", "user_messages"),
    },
    m.ProgressGuardMiddleware: {
        "withhold_after": setting(3, 4, "3 -> 4"),
        "answer_after": setting(4, 400, "4 -> 400"),
        "error_after": setting(4, 400, "4 -> 400"),
        "polling_tools": setting({}, {"find": 20}, "{{}} -> {{'find': 20}}"),
        "ignore_tools": setting(None, ["find"], "{{}} -> {{'find'}}"),
        "ignore_arguments": setting([], ["why"], "{{}} -> {{'why'}}"),
        "result_key": setting(None, content, "None -> content"),
        "exit_behavior": setting("error", "answer", "'error' -> 'answer'"),
    },
    m.ShellToolMiddleware: {
        "workspace_root": setting("/tmp/shop", "/tmp", ".../shop -> .../tmp"),
        "execution_policy": setting(
            m.DockerExecutionPolicy(), m.HostExecutionPolicy(),
            "DockerExecutionPolicy(command_timeout=",
        ),
        "redaction_rules": setting(
            [m.RedactionRule("email")], [],
            "[RedactionRule(pii_type='email', strategy='redact', detector=None, hash_key=None)]"
            " -> []",
        ),
        "shell_command": setting(["bash", "-r"], ["bash"], "['bash', '-r'] -> ['bash']"),
    },
    m.ToolCallLimitMiddleware: {
        "tool_name": slip(
            None, "find", "removed limit of tool calls a run by {layer}: it was: at most 5 tool "
            "calls a run", run_limit=5, name="Limit",
        ),
        "thread_limit": raised(5, 500, "tool calls a thread"),
        "run_limit": raised(5, 500, "tool calls a run"),
        "exit_behavior": setting("end", "continue", "'end' -> 'continue'", run_limit=5),
    },
    m.ToolRetryMiddleware: {
        "max_retries": retries("around_tool"),
        "tools": setting(["find"], ["find", "refund"], "{{'find'}} -> {{'find', 'refund'}}"),
        "retry_on": setting(
            ConnectionError, TimeoutError, "ConnectionError -> TimeoutError"
        ),
        "idempotent_tools": setting(None, ["refund"], "{{}} -> {{'refund'}}"),
        "timeout": setting(5.0, 600.0, "5.0 -> 600.0"),
    },
}  # fmt: skip

OTHERS: dict[str, set[str]] = {
    # Words, forms and places.
    "AnswerGuardMiddleware": {"on_cut", "keep_failed"},
    "AutoModeMiddleware": {"blocked_message"},
    "BackgroundMiddleware": {"wait"},
    "FilesystemFileSearchMiddleware": {
        *("use_ripgrep", "max_file_size_mb", "timeout", "tool_prefix")
    },
    # A check that takes too long objects.
    "GuardMiddleware": {"answer", "timeout"},
    "HumanInTheLoopMiddleware": {"description_prefix", "edit_notice", "interrupt_mode"},
    "OnceMiddleware": {"undo"},  # called by `undo_effects` and by nothing else
    # Another name of the middleware: a diff has all of it as removed, and as added.
    "PIIMiddleware": {"pii_type", "hash_key"},
    "ProgressGuardMiddleware": {"remark_after"},
    "ShellToolMiddleware": {
        *("startup_commands", "shutdown_commands", "tool_description", "tool_name", "env")
    },
    "TodoListMiddleware": {"system_prompt", "tool_description"},
    "ToolErrorMiddleware": {"on_error", "aon_error", "tools"},
    "ToolResultOffloadMiddleware": {"threshold", "preview", "place", "namespace", "tool_name"},
    # What the model reads, and when.
    "BudgetMiddleware": {"warn_at", "cheaper", "cheaper_at", "token_counter"},
    "ContextEditingMiddleware": {"edits", "token_count_method", "token_counter", "keep_thread"},
    "LLMToolSelectorMiddleware": {
        *("model", "system_prompt", "max_tools", "always_include", "max_retries"),
        "on_parsing_failure",
    },
    "PromptCachingMiddleware": {"ttl", "min_tokens", "openai_cache_key", "provider"},
    "ProviderToolSearchMiddleware": {"searchable_tools", "provider", "on_unsupported"},
    "SummarizationMiddleware": {
        *("model", "trigger", "keep", "token_counter", "summary_prompt", "summarizer"),
        *("trim_tokens_to_summarize", "keep_thread", "max_tokens_before_summary"),
        *("messages_to_keep", "summary_prefix"),
    },
    # Which model answers, and how long a call waits for it.
    "LLMToolEmulator": {"model"},
    "ModelFallbackMiddleware": {"first_model", "handle"},
    "ModelRefusalMiddleware": {"is_refusal", "on_refusal"},
    "ModelRetryMiddleware": {
        *("retry_on", "on_failure", "backoff_factor", "initial_delay", "max_delay", "jitter")
    },
    "ModelRouterMiddleware": {"choices", "classifier", "instructions", "default"},
    "ToolRetryMiddleware": {"on_failure", "backoff_factor", "initial_delay", "max_delay", "jitter"},
}
"""Parameters that neither guard nor limit: plans with other values of them are equal."""


def build(kind: type[Any], parameter: str, value: Any, others: dict[str, Any]) -> Any:
    kinds = inspect.signature(kind.__init__).parameters
    if kinds[parameter].kind is inspect.Parameter.VAR_POSITIONAL:
        return kind(*others.values(), *value)
    return kind(**{**others, parameter: value})


def lines_between(before: AgentMiddleware, after: AgentMiddleware) -> list[str]:
    ignore = ["AF210", "AF211", "AF212", "AF213"]
    plans = [
        plan_agent(tools=[find, refund], middleware=[member], ignore=ignore)
        for member in (before, after)
    ]
    assert plans[0] != plans[1]
    assert plans[0].to_snapshot() != plans[1].to_snapshot()
    return str(plans[0].diff(plans[1])).splitlines()


@each("kind", BUILT_INS, ids=lambda kind: kind.__name__)
def test_each_parameter_of_a_built_in_is_in_each_plan_or_neither_guards_nor_limits(
    kind: type[Any],
) -> None:
    parameters = set(inspect.signature(kind.__init__).parameters) - {"self", "name"}
    shown, others = set(IN_PLAN.get(kind, ())), OTHERS.get(kind.__name__, set())
    assert shown | others == parameters
    assert not shown & others


@each(
    "kind, parameter",
    [(kind, parameter) for kind, slips in IN_PLAN.items() for parameter in slips],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_weaker_guard_or_limit_is_red_with_a_line_that_names_it(
    kind: type[Any], parameter: str
) -> None:
    before, after, line, others = IN_PLAN[kind][parameter]
    members = [build(kind, parameter, value, others) for value in (before, after)]
    name = members[0].name
    start = line.format(name=f"{name}.{parameter}", layer=name)
    lines = lines_between(*members)
    assert [each for each in lines if each.startswith(start)], lines


PARTS: dict[str, tuple[Any, Any, str]] = {
    "judge of a policy": (
        m.HumanInTheLoopMiddleware(judged(0.1)),
        m.HumanInTheLoopMiddleware(judged(0.9)),
        "changed setting HumanInTheLoopMiddleware.policy.judge: RiskJudge(classifier=",
    ),
    "judge of the rules of a FlowGuardMiddleware": (
        m.FlowGuardMiddleware(judged(0.1)),
        m.FlowGuardMiddleware(judged(0.9)),
        "changed setting FlowGuardMiddleware.policy.judge: RiskJudge(classifier=",
    ),
    "detector that is a function": (
        m.PIIMiddleware("order", detector=no_weapons),  # type: ignore[arg-type]
        m.PIIMiddleware("order", detector=nothing),  # type: ignore[arg-type]
        "changed setting PIIMiddleware[order].detector: no_weapons -> nothing",
    ),
}


@each("part", PARTS)
def test_a_part_of_a_setting_that_guards_is_in_each_plan(part: str) -> None:
    before, after, line = PARTS[part]
    (change,) = lines_between(before, after)
    assert change.startswith(line)


INSIDE: dict[str, tuple[Any, Any, str]] = {
    "strategy": (
        m.PIIMiddleware("email", strategy="block"),
        m.PIIMiddleware("email"),
        "changed setting clerk/PIIMiddleware[email].strategy: 'block' -> 'redact'",
    ),
    "what is cleaned": (
        m.PIIMiddleware("email", apply_to_output=True),
        m.PIIMiddleware("email"),
        "changed access clerk/PIIMiddleware[email] sanitizes: was answers, user_messages, now "
        "user_messages",
    ),
    "dropped": (
        m.PIIMiddleware("email"),
        None,
        "removed access clerk/PIIMiddleware[email] sanitizes: it was: user_messages",
    ),
}


@each("name", INSIDE)
def test_what_an_agent_inside_of_a_tool_keeps_out_is_in_the_plan_around_it(name: str) -> None:
    def plan_around(member: Any) -> Any:
        agent = create_agent(MODEL, [find], middleware=[member] if member else [], name="clerk")
        return plan_agent(tools=[agent_tool(agent, description="Finds.")])

    before, after, line = INSIDE[name]
    old, new = plan_around(before), plan_around(after)
    assert line in str(old.diff(new)).splitlines()
    assert load_topology(old.to_snapshot()) == old


def test_a_plan_with_all_settings_is_compared_with_one_that_holds_those_that_guard() -> None:
    strict, weak = m.PIIMiddleware("email", strategy="block"), m.PIIMiddleware("email")
    plan, other = (plan_agent(middleware=[member]) for member in (strict, weak))
    full = plan_agent(middleware=[weak], settings=True)
    assert str(plan.diff(full)) == str(plan.diff(other))
    assert plan.diff(full)
    assert not other.diff(full)


@each("folder, text", [("/srv/ann/docs", ".../docs"), ("docs", ".../docs"), ("/", "/"), (".", ".")])
def test_a_folder_is_shown_without_the_parents_that_differ_by_machine(
    folder: str, text: str
) -> None:
    (shown, *_) = plan_agent(middleware=[m.ShellToolMiddleware(folder)]).settings
    assert (shown.name, shown.value) == ("workspace_root", text)


PAUSES: dict[str, tuple[Any, Any, str]] = {
    "one that is dropped": (["tools"], None, "removed setting {agent}.{pause}: ['tools']"),
    "one of less nodes": ("*", ["tools"], "changed setting {agent}.{pause}: '*' -> ['tools']"),
    "a new one": ([], "*", "added setting {agent}.{pause}: '*'"),
}


@each("pause", ["interrupt_before", "interrupt_after"])
@each("slip", PAUSES)
@each("way", ["plan_agent", "create_agent", "create_react_agent", "agent_tool"])
def test_a_pause_of_an_agent_is_in_each_plan(slip: str, pause: str, way: str) -> None:
    def plan_with(nodes: Any) -> Any:
        options: dict[str, Any] = {pause: nodes}
        if way == "plan_agent":
            return plan_agent(tools=[refund], **options)
        if way == "create_react_agent":
            return topology_of(create_react_agent(MODEL, [refund], **options))
        agent = create_agent(MODEL, [refund], checkpointer=InMemorySaver(), **options)
        if way == "create_agent":
            return topology_of(agent)
        return plan_agent(tools=[agent_tool(agent, name="clerk", description="Pay.")])

    before, after, line = PAUSES[slip]
    plans = [plan_with(nodes) for nodes in (before, after)]
    agent = "clerk/agent" if way == "agent_tool" else "agent"
    assert str(plans[0].diff(plans[1])) == line.format(agent=agent, pause=pause)
    assert plans[0].to_snapshot() != plans[1].to_snapshot()
    assert load_topology(plans[0].to_json()) == plans[0]


def test_the_order_of_pauses_has_no_meaning() -> None:
    first, second = (
        plan_agent(tools=[refund], interrupt_before=nodes)
        for nodes in (["model", "tools"], ["tools", "model"])
    )
    assert first == second


def test_an_agent_keeps_its_plan_and_a_copy_has_a_plan_of_its_own() -> None:
    limit = m.ModelCallLimitMiddleware(run_limit=5)
    agent = create_agent(ScriptedChatModel([]), [refund], middleware=[limit])
    assert topology_of(agent) is topology_of(agent)
    assert topology_of(with_model(agent, ScriptedChatModel([]))) == topology_of(agent)
