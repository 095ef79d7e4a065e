"""Build LangGraph agents from middleware, by way of a readable plan.

>>> from agent_factory import AgentMiddleware, create_agent

Names are imported at their first use, so an import of the package takes no time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.prebuilt import InjectedState as InjectedState
    from langgraph.prebuilt import InjectedStore as InjectedStore
    from langgraph.prebuilt import ToolRuntime as ToolRuntime
    from langgraph.prebuilt.tool_node import ToolCallRequest as ToolCallRequest
    from langgraph.runtime import Runtime as Runtime
    from langgraph.types import TracePolicy as TracePolicy
    from langgraph.types import omit_payload as omit_payload

    from agent_factory.compat.conversion import init_model as init_model
    from agent_factory.decisions.log import Decision as Decision
    from agent_factory.decisions.log import DecisionLog as DecisionLog
    from agent_factory.decisions.log import Jump as Jump
    from agent_factory.decisions.log import Outcome as Outcome
    from agent_factory.decisions.log import set_reason as set_reason
    from agent_factory.decisions.sinks import DecisionFile as DecisionFile
    from agent_factory.decisions.sinks import DecisionList as DecisionList
    from agent_factory.decisions.sinks import DecisionSpanEvents as DecisionSpanEvents
    from agent_factory.errors import AgentFactoryError as AgentFactoryError
    from agent_factory.errors import AgentFactoryWarning as AgentFactoryWarning
    from agent_factory.errors import HistoryError as HistoryError
    from agent_factory.errors import OutputError as OutputError
    from agent_factory.errors import SpecError as SpecError
    from agent_factory.errors import TurnError as TurnError
    from agent_factory.factory.agent import create_agent as create_agent
    from agent_factory.factory.agent import plan_agent as plan_agent
    from agent_factory.factory.agent import tools_of as tools_of
    from agent_factory.factory.agent import topology_of as topology_of
    from agent_factory.factory.agent import warnings_of as warnings_of
    from agent_factory.factory.agent import with_decisions as with_decisions
    from agent_factory.factory.agent import with_model as with_model
    from agent_factory.factory.stack_file import dump_stack as dump_stack
    from agent_factory.factory.stack_file import load_stack as load_stack
    from agent_factory.hooks.base import AgentMiddleware as AgentMiddleware
    from agent_factory.hooks.base import hook_config as hook_config
    from agent_factory.hooks.decorators import after_agent as after_agent
    from agent_factory.hooks.decorators import after_model as after_model
    from agent_factory.hooks.decorators import before_agent as before_agent
    from agent_factory.hooks.decorators import before_model as before_model
    from agent_factory.hooks.decorators import dynamic_prompt as dynamic_prompt
    from agent_factory.hooks.decorators import wrap_model_call as wrap_model_call
    from agent_factory.hooks.decorators import wrap_tool_call as wrap_tool_call
    from agent_factory.hooks.flows import Flow as Flow
    from agent_factory.hooks.flows import Invoke as Invoke
    from agent_factory.hooks.flows import NextChunk as NextChunk
    from agent_factory.hooks.flows import RunPaused as RunPaused
    from agent_factory.hooks.flows import Sleep as Sleep
    from agent_factory.hooks.flows import Task as Task
    from agent_factory.hooks.flows import Together as Together
    from agent_factory.hooks.flows import arun as arun
    from agent_factory.hooks.flows import run as run
    from agent_factory.hooks.flows import then as then
    from agent_factory.hooks.guards import MessageGuard as MessageGuard
    from agent_factory.hooks.ordering import Ordering as Ordering
    from agent_factory.hooks.streams import stream_through as stream_through
    from agent_factory.hooks.trace_policy import (
        configure_trace_policy as configure_trace_policy,
    )
    from agent_factory.prebuilt.react_agent import create_react_agent as create_react_agent
    from agent_factory.prebuilt.subagent import agent_tool as agent_tool
    from agent_factory.prebuilt.validation_node import ValidationNode as ValidationNode
    from agent_factory.state.channels import DeltaMessages as DeltaMessages
    from agent_factory.structured_output.partial import PartialAnswer as PartialAnswer
    from agent_factory.structured_output.partial import PartialAnswerReader as PartialAnswerReader
    from agent_factory.structured_output.partial import apartial_answers as apartial_answers
    from agent_factory.structured_output.partial import partial_answers as partial_answers
    from agent_factory.tools.background import background as background
    from agent_factory.tools.background import background_on_loss as background_on_loss
    from agent_factory.tools.background import background_timeout as background_timeout
    from agent_factory.tools.client_tool import ClientTool as ClientTool
    from agent_factory.tools.client_tool import client_tool as client_tool
    from agent_factory.tools.labels import labels_of as labels_of
    from agent_factory.tools.labels import tool_labels as tool_labels
    from agent_factory.tools.registry import get_tools as get_tools
    from agent_factory.tools.tool_node import ToolCallRecorder as ToolCallRecorder
    from agent_factory.tools.tool_node import ToolNode as ToolNode
    from agent_factory.tools.tool_node import tools_condition as tools_condition
    from agent_factory.tools.touches import touches as touches
    from agent_factory.topology.declarations import ToolGuard as ToolGuard
    from agent_factory.topology.declarations import UsageLimit as UsageLimit
    from agent_factory.topology.load import TopologyFileError as TopologyFileError
    from agent_factory.topology.load import load_topology as load_topology
    from agent_factory.topology.topology import Topology as Topology
    from agent_factory.types import AgentState as AgentState
    from agent_factory.types import ContextT as ContextT
    from agent_factory.types import ExtendedModelResponse as ExtendedModelResponse
    from agent_factory.types import InputAgentState as InputAgentState
    from agent_factory.types import JumpTo as JumpTo
    from agent_factory.types import ModelCallResult as ModelCallResult
    from agent_factory.types import ModelRequest as ModelRequest
    from agent_factory.types import ModelResponse as ModelResponse
    from agent_factory.types import NodePolicy as NodePolicy
    from agent_factory.types import OmitFromInput as OmitFromInput
    from agent_factory.types import OmitFromOutput as OmitFromOutput
    from agent_factory.types import OmitFromSchema as OmitFromSchema
    from agent_factory.types import OutputAgentState as OutputAgentState
    from agent_factory.types import PrivateStateAttr as PrivateStateAttr
    from agent_factory.types import ResponseT as ResponseT
    from agent_factory.types import StateT as StateT

HOMES = {
    "agent_factory.compat.conversion": "init_model",
    "agent_factory.decisions": "Decision DecisionLog Jump Outcome set_reason",
    "agent_factory.decisions.sinks": "DecisionFile DecisionList DecisionSpanEvents",
    "agent_factory.errors": (
        "AgentFactoryError AgentFactoryWarning HistoryError OutputError SpecError TurnError"
    ),
    "agent_factory.factory": (
        "create_agent plan_agent tools_of topology_of warnings_of with_decisions with_model"
    ),
    "agent_factory.hooks.base": "AgentMiddleware hook_config",
    "agent_factory.hooks.trace_policy": "configure_trace_policy",
    "agent_factory.hooks.decorators": (
        "after_agent after_model before_agent before_model dynamic_prompt wrap_model_call "
        "wrap_tool_call"
    ),
    "agent_factory.hooks.flows": (
        "Flow Invoke NextChunk RunPaused Sleep Task Together arun run then"
    ),
    "agent_factory.hooks.guards": "MessageGuard",
    "agent_factory.hooks.ordering": "Ordering",
    "agent_factory.hooks.streams": "stream_through",
    "agent_factory.prebuilt": "ValidationNode agent_tool create_react_agent",
    "agent_factory.factory.stack_file": "dump_stack load_stack",
    "agent_factory.state.channels": "DeltaMessages",
    "agent_factory.structured_output.partial": (
        "PartialAnswer PartialAnswerReader apartial_answers partial_answers"
    ),
    "agent_factory.tools.background": "background background_on_loss background_timeout",
    "agent_factory.tools.client_tool": "ClientTool client_tool",
    "agent_factory.tools.labels": "labels_of tool_labels",
    "agent_factory.tools.touches": "touches",
    "agent_factory.tools.registry": "get_tools",
    "agent_factory.tools.tool_node": "ToolCallRecorder ToolNode tools_condition",
    "agent_factory.topology": "Topology",
    "agent_factory.topology.declarations": "ToolGuard UsageLimit",
    "agent_factory.topology.load": "TopologyFileError load_topology",
    "agent_factory.types": (
        "AgentState ContextT ExtendedModelResponse InputAgentState JumpTo ModelCallResult "
        "ModelRequest ModelResponse NodePolicy OmitFromInput OmitFromOutput OmitFromSchema "
        "OutputAgentState PrivateStateAttr ResponseT StateT"
    ),
    "langgraph.prebuilt": "InjectedState InjectedStore ToolRuntime",
    "langgraph.prebuilt.tool_node": "ToolCallRequest",
    "langgraph.runtime": "Runtime",
    "langgraph.types": "TracePolicy omit_payload",
}


_PACKAGES = (
    "agent_factory",
    *(f"agent_factory.{part}" for part in ("middleware", "structured_output", "review", "testing")),
)
"""Packages with names that are easily confused."""


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package with imports of names at first use.

    `homes` lists the names by module, separated by spaces; a module of the package begins with a
    dot.
    """
    module_of = {name: module for module, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])

    def missing(name: str) -> AttributeError | ImportError:
        # Imported here, because only mistakes need these modules.
        from difflib import get_close_matches
        from dis import opname
        from importlib.util import find_spec

        reason, hint = f"module {package!r} has no attribute {name!r}", ""
        # `from package import module` asks first, and then imports the module. The code below would
        # import further modules meanwhile, which may need the importing module.
        if not name.isidentifier() or name.startswith("_") or find_spec(f"{package}.{name}"):
            return AttributeError(reason)
        # The package comes first: of two equally close names, the first is the match.
        exports = {other: import_module(other).__all__ for other in (package, *_PACKAGES)}
        others = [other for other in exports if name in exports[other]]
        names = [name for exported in exports.values() for name in exported]
        if others:
            hint = f"Write `from {others[0]} import {name}`."
        elif close := get_close_matches(name, names, n=1, cutoff=0.8):
            hint = f"Did you mean {close[0]}?"
        # `from package import name` turns an AttributeError into an ImportError without its text.
        # Elsewhere, as for `hasattr`, an AttributeError is required.
        frame = sys._getframe(2)
        if hint and opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM":
            return ImportError(f"cannot import name {name!r} from {package!r}. {hint}")
        return AttributeError(f"{reason}. {hint}" if hint else reason)

    def load(name: str) -> Any:
        if name not in module_of:
            raise missing(name)
        # Into the namespace: Python calls `__getattr__` only for missing names.
        value = namespace[name] = getattr(import_module(module_of[name], package), name)
        return value

    return sorted(module_of), load, lambda: sorted({*namespace, *module_of})


__all__, __getattr__, __dir__ = lazy_names(__name__, HOMES)
