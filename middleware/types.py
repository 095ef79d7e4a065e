"""Names for writing a middleware, under the module name of LangChain."""

from langgraph.prebuilt.tool_node import ToolCallWrapper as ToolCallWrapper

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
from agent_factory import TracePolicy as TracePolicy
from agent_factory import after_agent as after_agent
from agent_factory import after_model as after_model
from agent_factory import before_agent as before_agent
from agent_factory import before_model as before_model
from agent_factory import dynamic_prompt as dynamic_prompt
from agent_factory import hook_config as hook_config
from agent_factory import omit_payload as omit_payload
from agent_factory import wrap_model_call as wrap_model_call
from agent_factory import wrap_tool_call as wrap_tool_call
