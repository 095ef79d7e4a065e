"""Arguments of create_agent: check them, and normalise them into an AgentSpec."""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, starmap
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar
from unicodedata import normalize

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from agent_factory.compat.conversion import from_langchain_format, from_langchain_schema, init_model
from agent_factory.compat.langchain import (
    AnyMiddleware,
    LangChainAdapter,
    from_langchain_middleware,
    langchain_base,
)
from agent_factory.decisions.log import decision_log
from agent_factory.errors import (
    BUILD_CODES,
    AgentFactoryWarning,
    ArgumentError,
    BuildWarning,
    DuplicateMiddleware,
    SpecError,
    describe,
    did_you_mean,
    example_of,
    raise_all,
)
from agent_factory.guarantees import GuaranteeError, counterexamples, default_findings
from agent_factory.hooks.base import AgentMiddleware, Middleware
from agent_factory.hooks.introspection import (
    Bound,
    declarations_of,
    hooks_of,
    is_empty,
    layers_of,
    methods_of,
    validate_middleware,
)
from agent_factory.hooks.ordering import check_order
from agent_factory.runtime.order import Order
from agent_factory.runtime.routing import Rules
from agent_factory.runtime.spec import AgentSpec
from agent_factory.state.schema import ANSWER, RETRIES, TOOL_SIGNALS, Schemas, merge
from agent_factory.structured_output.schema import SchemaSpec
from agent_factory.structured_output.strategies import ResponseFormat
from agent_factory.tools.background import background_without_worker
from agent_factory.tools.error_handling import (
    DEFAULT_ERRORS,
    DEFAULT_HANDLER,
    ErrorHandler,
    handler_for,
)
from agent_factory.tools.registry import Toolbox, ToolSchemas, refused_schemas, sort_tools
from agent_factory.topology.conditions import COMPARISONS, Comparison, misfit, parse_condition
from agent_factory.topology.declarations import ToolGuard, with_shared_ledgers
from agent_factory.topology.model import Call, Hook, Layer, Move, Phase, Shape, Tool, ToolKind
from agent_factory.topology.topology import Topology, plan
from agent_factory.types import AgentState, NodePolicy

T = TypeVar("T")

UNKNOWN: Any = object()
"""Stands for a checkpointer that is not known yet: a plan may be made without a checkpointer."""

RESERVED = ("|", ":")
"""Characters that LangGraph reserves in node names."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of an agent for its spec, as a caller passes them."""

    model: object
    tools: Sequence[object] | None
    system_prompt: str | SystemMessage | None
    middleware: Sequence[AnyMiddleware]
    response_format: object
    state_schema: type[object] | None
    checkpointer: object
    interrupt_before: object
    interrupt_after: object
    node_policies: object
    name: str | None
    handle_tool_errors: object
    sequential_tool_calls: bool
    run_cut_calls: bool
    strict: bool
    ignore: Collection[str]
    decisions: object
    checkpoints: object
    moved: object
    guarantees: object

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Arguments:
        """Return the arguments among the local variables of `create_agent` or `plan_agent`."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})

    @property
    def nodes(self) -> dict[str, Any]:
        """The arguments with names of nodes."""
        names = ("interrupt_before", "interrupt_after", "node_policies")
        return {name: getattr(self, name) for name in names}


def make_spec(arguments: Arguments) -> AgentSpec:
    """Check and normalise the arguments of an agent, and warn the caller of the caller."""
    tools, nodes, sequential = arguments.tools, arguments.nodes, arguments.sequential_tool_calls
    members, invalid = members_of(arguments.middleware)
    wrong = wrong_types(tools, arguments.system_prompt, nodes, arguments.name, arguments)
    mistakes = [*wrong, *unknown_codes(arguments.ignore), *invalid]
    handler = _error_handler(arguments.handle_tool_errors, mistakes)
    log = _attempt(decision_log, arguments.decisions, mistakes)
    if mistakes:  # the checks below could not read these arguments
        raise_all(mistakes)
    read = [(member, methods_of(member)) for member in members]
    mistakes = [mistake for known in read for mistake in validate_middleware(*known)]
    format_ = _attempt(from_langchain_format, arguments.response_format, mistakes)
    outputs = [spec.name for spec in output_specs(format_)]
    toolbox, clashes = sort_tools(_owned_tools(tools, members), outputs)
    hooks = tuple(bound for known in read for bound in hooks_of(*known))
    layers = (*sorted(chain(*starmap(layers_of, read)), key=attrgetter("owner.counts_attempts")),)
    around = {call: tuple(b for b in layers if b.definition.call is call) for call in Call}
    shape = Shape(
        hooks=tuple(bound.definition for bound in hooks),
        layers=tuple(bound.definition for bound in layers),
        # Layers may run tools unknown until run time, and may ask for a structured answer.
        has_tools=bool(toolbox.client) or bool(around[Call.TOOL]),
        may_skip_tools=format_ is not None or bool(around[Call.MODEL]),
        retries_output=format_ is not None,
        tools=toolbox.tool_definitions(outputs),
        moved=moves_of(members, arguments.moved, mistakes),
        sequential_calls=sequential,
        **_declarations(members, toolbox),
    )
    merged = partial(_merged_schemas, members, arguments.state_schema, shape, arguments.checkpoints)
    schemas, conflicts = merged(arguments.checkpointer)
    topology = plan(shape)
    mistakes += [*clashes, *conflicts, *no_common_path(hooks, layers)]
    if any(tool.background for tool in shape.tools):
        mistakes += background_without_worker(toolbox.client.values(), members)
    mistakes += plan_mistakes(members, shape, topology, arguments, ToolSchemas(toolbox.client))
    mistakes += refused_schemas(toolbox.client.values(), output_specs(format_), arguments.model)
    if not any(isinstance(mistake, ArgumentError) for mistake in mistakes):
        mistakes += collect_warnings(members, topology, arguments.checkpointer, handler)
    return AgentSpec(
        warnings=_raise_errors(mistakes, arguments.strict, arguments.ignore),
        model=chat_model_of(arguments.model),  # after the errors: a string creates a model
        system_message=SystemMessage(p) if isinstance(p := arguments.system_prompt, str) else p,
        hooks=hooks,
        model_layers=around[Call.MODEL],
        tool_layers=around[Call.TOOL],
        toolbox=toolbox,
        response_format=format_,
        schemas=schemas,
        merged=merged,
        topology=topology,
        handle_tool_errors=handler,
        name=arguments.name,
        middleware=members,
        rules=_rules(toolbox, outputs, sequential_calls=sequential),
        nodes=nodes,
        decisions=log,
        run_layers=around[Call.AGENT],
        strict=arguments.strict,
        run_cut_calls=arguments.run_cut_calls,
    )


def _error_handler(handle_tool_errors: object, mistakes: list[SpecError]) -> ErrorHandler | None:
    if handle_tool_errors is DEFAULT_ERRORS:
        return DEFAULT_HANDLER
    # In a tuple, because None is refused, too.
    return _attempt(lambda values: handler_for(*values), (handle_tool_errors,), mistakes)


def _rules(toolbox: Toolbox, outputs: Iterable[str], *, sequential_calls: bool) -> Rules:
    """Return the names of the tools, and the order of their calls if calls may wait."""
    touches = toolbox.touches
    order = Order(touches, sequential_calls) if touches or sequential_calls else None
    return Rules(toolbox.client.keys(), toolbox.direct, frozenset(outputs), order)


def _owned_tools(
    tools: Sequence[object] | None, members: Sequence[Middleware]
) -> list[tuple[str | None, Any]]:
    """Return all tools, each with the middleware that brings the tool."""
    owned: list[tuple[str | None, Any]] = [(None, tool) for tool in tools or ()]
    return owned + [(m.name, tool) for m in members if is_list(m.tools) for tool in m.tools]


def _declarations(members: Sequence[Middleware], toolbox: Toolbox) -> dict[str, Any]:
    """Return the declarations of middleware, here and inside of tools, each once."""
    inside = toolbox.declarations_inside()
    declared: dict[str, Any] = {
        name: tuple(dict.fromkeys([*items, *inside.get(name, ())]))
        for name, items in declarations_of(members).items()
    }
    if declared["ledgers"]:
        declared["limits"] = with_shared_ledgers(declared["limits"], declared["ledgers"])
    return declared


def _merged_schemas(
    members: Sequence[Middleware],
    state_schema: type[object] | None,
    shape: Shape,
    checkpoints: object,
    checkpointer: object,
) -> tuple[Schemas, list[SpecError]]:
    sources = [(m.name, part.state_schema) for m in members for part in _with_held(m, {})]
    sources.append(("create_agent", state_schema or AgentState))
    # Any other schema may have been written for LangChain.
    sources = [(o, s if s is AgentState else from_langchain_schema(s)) for o, s in sources]
    # Each private key takes a little time at each step.
    private = [TOOL_SIGNALS] if shape.has_tools else []
    private += [RETRIES, ANSWER] if shape.may_skip_tools else []
    return merge(sources, private, checkpoints, checkpointer)


def _with_held(member: Middleware, found: dict[int, Middleware]) -> Iterable[Middleware]:
    """Return a middleware, and the middleware that it holds and may call: they write, too."""
    found[id(member)] = member
    for value in vars(member).values():
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, AgentMiddleware) and id(part) not in found:
                _with_held(part, found)
    return found.values()


def chat_model_of(model: object) -> object:
    """Return the chat model of an argument `model`.

    Raises:
        ArgumentError: The argument is not a chat model.
    """
    if isinstance(model, str):
        return init_model(model)
    # `model.with_fallbacks(...)`, for example, is not a BaseChatModel.
    can_call_tools = isinstance(model, Runnable) and callable(getattr(model, "bind_tools", None))
    if isinstance(model, BaseChatModel | None) or can_call_tools:
        return model
    hint = "Pass a chat model or 'provider:name'."
    if is_list(model):
        hint = "Pass the model first, then the tools; or write tools=[...]."
    raise wrong_type("model", "a chat model", model, hint, kinds=(Runnable,))


def _attempt(make: Callable[[Any], T], value: object, mistakes: list[SpecError]) -> T | None:
    """Make a value of an argument, if there is an argument; note the mistake if it is invalid."""
    try:
        return None if value is None else make(value)
    except SpecError as error:
        mistakes.append(error)
        return None


def _raise_errors(
    findings: Sequence[SpecError], strict: bool, ignore: Collection[str]
) -> tuple[SpecError, ...]:
    """Raise the errors among the diagnostics of a build; warn of the rest and return the rest."""
    findings = [finding for finding in findings if finding.code not in ignore]
    errors = [finding for finding in findings if strict or finding.severity == "error"]
    others = tuple(finding for finding in findings if finding not in errors)
    if errors:
        try:
            raise_all(errors)
        except SpecError as error:
            for warning in others:
                error.add_note(f"Also found: {warning}")
            raise
    if others:
        warnings.warn(AgentFactoryWarning(others), stacklevel=4)  # of create_agent or plan_agent
    return others


def output_specs(response_format: ResponseFormat | None) -> Sequence[SchemaSpec]:
    """Return the schemas of the tools for a structured answer."""
    return getattr(getattr(response_format, "by_tool", response_format), "schema_specs", ())


# Errors of a build


def wrong_type(
    subject: str,
    expected: str,
    value: object,
    hint: str,
    code: str | None = None,
    *,
    kinds: tuple[type[object], ...] = (),
) -> ArgumentError:
    """Return the error for a value of a wrong type."""
    # `checkpointer=InMemorySaver` passes the class in place of an instance.
    if kinds and isinstance(value, type) and issubclass(value, kinds):
        hint = f"Pass {example_of(value)}."
    return ArgumentError(subject, f"must be {expected}, got {describe(value)}.", hint, code=code)


def wrong_types(
    tools: object,
    system_prompt: object,
    nodes: Mapping[str, object],
    name: object,
    arguments: Arguments | None = None,
) -> Iterator[SpecError]:
    """Find arguments of a wrong type."""
    if tools is not None and not is_list(tools):
        yield wrong_type("tools", "a list", tools, "Pass tools=[...].")
    if not isinstance(system_prompt, str | SystemMessage | None):
        expected = "a string or a SystemMessage"
        yield wrong_type("system_prompt", expected, system_prompt, "Pass a string.")
    if not isinstance(name, str | None):
        yield wrong_type("name", "a string", name, "Pass a string.")
    for argument in ("sequential_tool_calls", "run_cut_calls") if arguments else ():
        if not isinstance(flag := getattr(arguments, argument), bool):
            hint = f"Pass {argument}=True, or leave it out."
            yield wrong_type(argument, "True or False", flag, hint)
    for argument in ("interrupt_before", "interrupt_after"):
        if (names := nodes[argument]) not in (None, "*") and not is_list(names):
            hint = f"Pass {argument}=['model'], for example."
            yield wrong_type(argument, "a list of node names or '*'", names, hint)
    policies = nodes["node_policies"] or {}
    hint = "Pass node_policies={'model': NodePolicy(retry_policy=RetryPolicy())}, for example."
    if not isinstance(policies, Mapping):
        yield wrong_type("node_policies", "a dict of node names and policies", policies, hint)
        return
    for node, policy in policies.items():
        # A RetryPolicy is the usual slip: LangGraph's add_node takes a RetryPolicy directly.
        if not isinstance(policy, NodePolicy):
            yield wrong_type(f"node_policies[{node!r}]", "a NodePolicy", policy, hint)


def is_list(value: object) -> bool:
    """Return True if a value can be read as a list: not a string, a mapping or a single tool."""
    if isinstance(value, list | tuple):
        return True
    # All of these have `__iter__` or may have: pydantic gives it to a BaseTool, Enum to a class.
    single = isinstance(value, str | bytes | Mapping | BaseTool | type)
    return hasattr(value, "__iter__") and not single


def unknown_codes(ignore: object) -> Iterator[SpecError]:
    """Find codes in `ignore` that do not exist or cannot be ignored."""
    if isinstance(ignore, str) or not isinstance(ignore, Collection):
        yield wrong_type("ignore", "a list of codes", ignore, 'Pass ignore=["AF204"].')
        return
    for code in ignore:
        entry = BUILD_CODES.get(code) if isinstance(code, str) else None
        if entry is None:
            reason = f"{describe(code)} is not a known code."
            yield ArgumentError("ignore", reason, "Pass codes such as 'AF204'.")
        elif not entry.ignorable:
            reason = f"{code} cannot be ignored, because no agent could be built."
            yield ArgumentError("ignore", reason, "Fix it instead.")


def members_of(middleware: Any) -> tuple[tuple[Middleware, ...], list[SpecError]]:
    """Return the members of a stack, and the mistakes in it."""
    if not is_list(middleware):
        hint = "Pass a list, even for one middleware."
        return (), [wrong_type("middleware", "a list", middleware, hint, "AF102")]
    members = tuple(middleware)
    if "langchain.agents" in sys.modules:  # otherwise no middleware can be one of langchain
        members = tuple(map(from_langchain_middleware, members))
    mistakes: list[SpecError] = []
    for index, member in enumerate(members):
        subject = f"middleware[{index}]"
        if isinstance(member, type) and (
            issubclass(member, AgentMiddleware) or langchain_base(member) is not None
        ):
            reason = f"must be an instance, got {describe(member)}."
            hint = f"Pass {member.__name__}(...)."
            mistakes.append(ArgumentError(subject, reason, hint, code="AF102"))
        elif not isinstance(member, AgentMiddleware):
            hint = "Derive a class from AgentMiddleware, or decorate a function with before_model."
            mistakes.append(wrong_type(subject, "an AgentMiddleware", member, hint, "AF102"))
        elif not isinstance(member.name, str):
            reason = f"must have a string as its name, got {describe(member.name)}."
            mistakes.append(SpecError(subject, reason, "Set its name to a string.", code="AF104"))
    if mistakes:  # the names of other objects cannot be read
        return members, mistakes
    adapters = {member.name for member in members if isinstance(member, LangChainAdapter)}
    for name, times in Counter(member.name for member in members).items():
        if times > 1:
            reason = (
                f"{times} middleware have this name. Please remove duplicate middleware instances."
            )
            # The name of a LangChain middleware is a property and cannot be set.
            hint = (
                f"Or give each a name: class First{name}({name}): ..."
                if name in adapters
                else f"Or give each a name: {name}(..., name='first'), or set instance.name."
            )
            mistakes.append(DuplicateMiddleware(name, reason, hint))
    for member in members:
        name = member.name
        # Only hooks become nodes. In a plan, "clerk/Review" is the member of an agent inside.
        if not name or "/" in name or ({*RESERVED} & {*name} and hooks_of(member)):
            signs, hint = " and ".join(RESERVED), "Give the middleware another name."
            reason = f"must be a non-empty name without {signs}, which LangGraph reserves, or /."
            mistakes.append(SpecError(repr(name), reason, hint, code="AF104"))
    return members, mistakes


def moves_of(
    members: Sequence[Middleware], moved: object, mistakes: list[SpecError]
) -> tuple[Move, ...]:
    """Return the former names of middleware, each with the current name; note mistakes in them."""
    hint = "Pass moved={'OldName': 'NewName'}, with one new name for each old one."
    if moved is None:
        return ()
    if not isinstance(moved, Mapping):
        mistakes.append(wrong_type("moved", "a dict of old and new names", moved, hint))
        return ()
    names, moves = [member.name for member in members], []
    for old, new in moved.items():
        subject, path = f"moved[{old!r}]", {old}
        invalid = [n for n in (old, new) if not isinstance(n, str) or not n or {*RESERVED} & {*n}]
        mistakes += (wrong_type(subject, "the name of a middleware", n, hint) for n in invalid)
        if invalid:
            continue
        if old in names:
            reason = "is the name of a middleware that is still in the stack."
            remedy = "Remove it from `moved`, or give that middleware another name."
            mistakes.append(SpecError(subject, reason, remedy, code="AF123"))
        # A middleware may have been renamed twice. `path` ends the search in a circle.
        while new in moved and new not in names and new not in path:
            path.add(new)
            new = moved[new]
        if new not in names:
            remedy = f"Its middleware are {', '.join(names) or 'none'}."
            remedy = did_you_mean(str(new), names, remedy, repr)
            reason = f"leads to {new!r}, which is not in the stack."
            mistakes.append(SpecError(subject, reason, remedy, code="AF122"))
        moves.append(Move(old, new))
    return tuple(moves)


def no_common_path(
    hooks: Sequence[Bound[Hook]], layers: Sequence[Bound[Layer]]
) -> Iterator[SpecError]:
    """Find layers and hooks that no run could use together: sync only and async only."""
    everything: list[Bound[Hook] | Bound[Layer]] = [*hooks, *layers]
    only_async = [bound for bound in everything if bound.func is None]
    # A synchronous node hook runs in a thread of an asynchronous run; a layer cannot.
    only_sync = [bound for bound in layers if bound.afunc is None]
    if only_async and only_sync:
        late = only_async[0].definition
        name = late.phase if isinstance(late, Hook) else late.method
        sync = only_sync[0].definition
        yield SpecError(
            f"{sync.owner}.{sync.method} and {late.owner}.a{name}",
            "the first is sync only and the second async only, so no run could use both.",
            "Write a layer as a flow, around_model or around_tool, which is both.",
            code="AF109",
        )


def plan_mistakes(
    members: Sequence[Middleware],
    shape: Shape,
    topology: Topology,
    arguments: Arguments,
    schemas: ToolSchemas,
) -> Iterator[SpecError]:
    """Find the errors of a plan: impossible parts, and guarantees without proof."""
    yield from jumps_to_nowhere(shape)
    yield from unknown_nodes(arguments.nodes, topology)
    yield from cached_threads(members, topology, arguments.nodes["node_policies"] or {})
    yield from guards_without_place(shape)
    yield from unfit_conditions(shape.guards, schemas)
    yield from refused_names(topology.tools, arguments.name)
    yield from broken_guarantees(topology, arguments.guarantees, schemas)


def jumps_to_nowhere(shape: Shape) -> Iterator[SpecError]:
    """Find declared jumps to tools in an agent without tools."""
    for hook in shape.hooks:
        if "tools" in hook.can_jump_to and not shape.has_tools:
            hint = "Give the agent a tool, or remove 'tools' from can_jump_to."
            reason = "declares a jump to tools, but this agent has none."
            yield SpecError(hook.node, reason, hint, code="AF111")


_PROVIDER_NAME = re.compile("[a-zA-Z0-9_-]{1,64}")
"""Names of tools and of authors of messages that OpenAI, Anthropic and Google all accept."""

_NAMED_HERE = (ToolKind.CLIENT, ToolKind.OUTPUT)
"""Tools that the agent offers to its model by name."""


def refused_names(tools: Iterable[Tool], agent: str | None) -> Iterator[SpecError]:
    """Find names of tools, and a name of the agent, that providers refuse."""

    def accepted(name: str) -> str:
        letters = normalize("NFKD", name).encode("ascii", "ignore").decode()
        return re.sub("[^a-zA-Z0-9_-]+", "_", letters).strip("_")[:64]

    pattern = _PROVIDER_NAME.pattern
    for tool in tools:
        if tool.kind not in _NAMED_HERE or _PROVIDER_NAME.fullmatch(tool.name):
            continue
        yield SpecError(
            f"tool {tool.name!r}",
            f"has a name that providers refuse: they accept {pattern}.",
            f"Name it {accepted(tool.name) or 'tool'!r}. If your provider accepts it, pass "
            "ignore=['AF125'].",
            code="AF125",
        )
    if agent is not None and not _PROVIDER_NAME.fullmatch(agent):
        yield BuildWarning(
            f"name {agent!r}",
            "becomes the name of the messages of the agent, and some providers refuse it from the "
            f"second call on: they accept {pattern}.",
            f"Pass name={accepted(agent) or 'agent'!r}.",
            code="AF216",
        )


def guards_without_place(shape: Shape) -> Iterator[SpecError]:
    """Find guards in a hook or a layer that their middleware does not have."""
    places = {(hook.owner, str(hook.phase)) for hook in shape.hooks}
    places |= {(layer.owner, "around_tool") for layer in shape.layers if layer.call is Call.TOOL}
    for guard in shape.guards:
        if (guard.owner, guard.place) not in places and "/" not in guard.owner:
            yield SpecError(
                guard.owner,
                f"declares that it guards {guard.tool!r} in {guard.place}, which it does not "
                "define.",
                f"Define {guard.place}, or name the place in ToolGuard(..., place=...).",
                code="AF126",
            )


def unfit_conditions(guards: Iterable[ToolGuard], schemas: ToolSchemas) -> Iterator[SpecError]:
    """Find conditions of guards that no call of a tool can meet or fail, by its arguments."""
    problems: dict[tuple[str, str], str] = {}
    for guard in guards:
        condition = parse_condition(guard.when)
        if "/" in guard.owner or not any(isinstance(x, Comparison) for x in condition.leaves):
            continue
        tools = [guard.tool] if guard.tool in schemas else filter(guard.covers, schemas)
        misfits = [misfit(condition, schemas[tool]) for tool in tools]
        # A rule about several tools may compare an argument that only some tools have.
        if misfits and all(misfits):
            problems.setdefault((guard.owner, misfits[0]), guard.tool)
    for (owner, problem), tool in problems.items():
        yield SpecError(
            owner,
            f"has a rule about {tool!r} with a condition that cannot be decided: {problem}.",
            f"Compare arguments of the tool by {', '.join(COMPARISONS)}, with values of their "
            "types. Until then, each such call is asked about or denied.",
            code="AF131",
        )


def broken_guarantees(
    topology: Topology, guarantees: Any, schemas: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[SpecError]:
    """Find guarantees that do not hold, and texts that are not guarantees."""
    if not is_list(guarantees):
        hint = 'Pass guarantees=["tool refund passes HumanInTheLoopMiddleware"].'
        yield wrong_type("guarantees", "a list of sentences", guarantees, hint)
        return
    for text in guarantees:
        try:
            yield from map(GuaranteeError, counterexamples(topology, [text], schemas))
        except SpecError as error:
            yield error


def skipped_hooks(topology: Topology) -> Iterator[SpecError]:
    """Find hooks at the end of a run that an earlier hook's jump skips."""
    after_agent = topology.run_order(Phase.AFTER_AGENT)
    for index, hook in enumerate(after_agent[:-1]):
        if "end" in hook.can_jump_to:
            later = ", ".join(other.node for other in after_agent[index + 1 :])
            yield BuildWarning(
                hook.node,
                f"may jump to the end, and the run ends without {later}.",
                f"Remove 'end' from can_jump_to of {hook.node}: the run ends anyway; or put its "
                "middleware first in the list, so that its hook runs last.",
                code="AF218",
            )


def unknown_nodes(nodes: Mapping[str, Any], topology: Topology) -> Iterator[SpecError]:
    """Find missing nodes in the arguments with names of nodes."""
    for argument, names in nodes.items():
        for name in () if names in (None, "*") else names:
            if name not in topology.nodes:
                hint = f"Its nodes are {', '.join(topology.nodes)}."
                reason, subject = "is not a node of this agent.", f"{argument}: {name!r}"
                yield SpecError(subject, reason, hint, code="AF116")


def cached_threads(
    members: Sequence[Middleware], topology: Topology, policies: Mapping[str, NodePolicy]
) -> Iterator[SpecError]:
    """Find caches of nodes whose middleware depend on their thread, as a review does."""
    bound = {member.name for member in members if member.needs_checkpointer}
    nodes = {Call.MODEL: "model", Call.TOOL: "tools"}
    places = [(hook.node, hook.owner) for hook in topology.hooks]
    places += [(nodes.get(layer.call, ""), layer.owner) for layer in topology.layers]
    for node, owner in places:
        if owner in bound and getattr(policies.get(node), "cache_policy", None):
            reason = f"would give a thread what {owner} decided in another thread."
            hint = "Remove the cache_policy."
            yield SpecError(f"node_policies[{node!r}]", reason, hint, code="AF132")


# Warnings of a build


def collect_warnings(
    members: Sequence[Middleware],
    topology: Topology,
    checkpointer: object,
    handler: ErrorHandler | None,
) -> Iterator[SpecError]:
    """Find likely mistakes, and contradictions to the declared order of middleware.

    With a `handler`, exceptions of tools become messages before a layer sees them.
    """
    hooks = topology.hooks
    # check_order compares each pair of a stack, and most stacks declare nothing.
    if any(member.ordering is not AgentMiddleware.ordering for member in members):
        early = {h.owner for h in hooks if h.phase in (Phase.BEFORE_AGENT, Phase.BEFORE_MODEL)}
        late = {h.owner for h in hooks if h.phase is Phase.AFTER_MODEL}
        yield from check_order(members, early, late)
    for hook in hooks:
        if "model" in hook.can_jump_to and hook.node == topology.loop_entry:
            yield BuildWarning(
                hook.node,
                "declares a jump to the model's turn, which begins with this hook: the jump has no "
                "effect.",
                "Remove 'model' from can_jump_to.",
                code="AF201",
            )
        elif "model" in hook.can_jump_to and hook.phase is Phase.BEFORE_MODEL:
            yield BuildWarning(
                hook.node,
                f"may jump back to {topology.loop_entry} and then runs again on the same state, in "
                "an endless loop unless something changed.",
                "Return None to continue to the model, or make sure that it jumps only once.",
                code="AF202",
            )
    yield from skipped_hooks(topology)
    # Most agents declare nothing that a path could bypass.
    if topology.guards or topology.limits or any(tool.labels for tool in topology.tools):
        yield from default_findings(topology)
    yield from _tool_warnings(members, topology)
    reports_errors = handler not in (None, DEFAULT_HANDLER) and handler.kinds != ()
    for member in members:
        if reports_errors and "tool_errors" in member.ordering.reads:
            yield BuildWarning(
                member.name,
                "handles exceptions of tools, but handle_tool_errors turns them into messages "
                "first.",
                "Remove handle_tool_errors, or remove the middleware.",
                code="AF207",
            )
    owners = {hook.owner for hook in hooks} | {layer.owner for layer in topology.layers}
    for member in members:
        if member.name not in owners and is_empty(member):
            reason = "does nothing: it has no hook, layer, tool, state key or declaration."
            hint = "Define a hook such as before_model in its class, or remove it from the stack."
            yield BuildWarning(member.name, reason, hint, code="AF212")
        if checkpointer is None and member.needs_checkpointer:
            yield BuildWarning(
                member.name,
                "needs a checkpointer, but the agent has none.",
                "Pass one: create_agent(..., checkpointer=InMemorySaver()). Where a service or a "
                "graph around the agent has one, pass ignore=['AF211'].",
                code="AF211",
            )


_WILDCARDS = frozenset("*?[]!")
"""Characters that do not stand for themselves in a pattern."""

_ALIKE = 0.8
"""Least likeness of a misspelt name to the right name: "refnd" is like "refund", and "read_mail" is
less like "send_mail"."""


def misspelt_tool(pattern: str, names: Collection[str]) -> str | None:
    """Return the intended name for a name or a pattern that matches no name."""
    literal = "".join(character for character in pattern if character not in _WILDCARDS).casefold()
    # The open end of a pattern is not compared; the rest must not be too short then.
    starts, ends, size = pattern[:1] != "*", pattern[-1:] != "*", len(literal)
    for name in sorted(names):
        text = name.casefold()
        parts = [text]
        if not (starts and ends):
            parts = [
                text[at : at + length]
                for length in (size - 1, size, size + 1)
                for at in range(len(text) - length + 1)
                if size >= 5 and not (starts and at) and (at + length == len(text) or not ends)
            ]
        if get_close_matches(literal, parts, n=1, cutoff=_ALIKE):
            return name
        if sorted(text) == sorted(literal):  # two characters have changed places
            return name
    return None


def _tool_warnings(members: Sequence[Middleware], topology: Topology) -> Iterator[SpecError]:
    tools = [tool for tool in topology.tools if tool.kind is not ToolKind.INNER]
    local_names = {tool.name for tool in tools if tool.kind is not ToolKind.PROVIDER}
    for tool in tools:
        if tool.kind is ToolKind.PROVIDER and tool.name in local_names:
            yield BuildWarning(
                tool.name,
                "names a tool of the provider and a tool of the agent, which the model cannot tell "
                "apart.",
                "Rename the agent's tool.",
                code="AF203",
            )
    tool_names = {tool.name for tool in tools}
    late = " A layer may add it at run time." if topology.layers_around(Call.TOOL) else ""
    for member in members:
        expected = set(member.expected_tools)
        for name in sorted(expected):
            if any(fnmatchcase(tool, name) for tool in tool_names):
                continue
            # A name that is expected too belongs to another tool, however alike the two are.
            if right := misspelt_tool(name, tool_names - expected):
                yield SpecError(
                    member.name,
                    f"is configured for the tool {name!r}, and would not act on {right!r}, which "
                    "the agent has.",
                    f"Write {right!r}. If {name!r} is another tool, which is added at run time, "
                    "pass ignore=['AF124'].",
                    code="AF124",
                )
            if right or _WILDCARDS.intersection(name):  # a pattern need not match any tool
                continue
            otherwise = f"Its tools are: {', '.join(sorted(tool_names)) or 'none'}."
            yield BuildWarning(
                member.name,
                f"is configured for the tool {name!r}, but the agent has no such tool.{late}",
                did_you_mean(name, tool_names, otherwise, repr),
                code="AF210",
            )
        yield from member.build_findings(topology.tools)
