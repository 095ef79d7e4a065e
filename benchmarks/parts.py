"""The parts of a turn: what they are called, what is inside what, and how each is measured."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.contenders import BY_HAND

MANY = 16
"""How many middleware are many."""

TURN, BARE_TURN = f"a turn, {MANY} middleware", "a turn, no middleware"
LOOP, FUNCTIONS = "a plain loop with langchain-core", "the two functions alone"

TURNS = (TURN, BARE_TURN, BY_HAND, LOOP, FUNCTIONS)
"""Whole turns, each with less around the model and the tool than the one before."""

MODEL, MODEL_CALL = "the model's own method", "`model.invoke`"
TOOL_CALL, HOOK_CALLS = "`tool.invoke`", f"hooks of {MANY} middleware"
MODEL_NODE, TOOLS_NODE = "node of the model", "node of the tools"
HISTORY, NODES = "checking the history", "fused nodes"
MESSAGES, SERDE, SAVER = "channel of messages", "serialising", "saver"
STEPS, REST = "empty super-steps", "not attributed"

HOW: Mapping[str, str] = {
    MODEL: "stopwatch",
    MODEL_CALL: "stopwatch; callbacks, config, conversion of the input",
    TOOL_CALL: "stopwatch; callbacks, config, validation of arguments, the function",
    HOOK_CALLS: "stopwatch; the functions, and what is around each of them",
    HISTORY: "stopwatch; the search for broken tool calls",
    MODEL_NODE: "stopwatch; the request, and the update made of the answer",
    TOOLS_NODE: "stopwatch; `ToolNode`, and what is around it",
    NODES: "stopwatch; edges, and the state that the next node of a step sees",
    MESSAGES: "stopwatch; reading and writing between steps",
    SERDE: "stopwatch; checkpoints and writes",
    SAVER: "stopwatch; `put` and `put_writes`",
    STEPS: "alone: as many steps of a graph with one node that does nothing, less its saver",
    REST: "the rest of the turn: tasks, inputs and edges of nodes that an empty step lacks",
}
"""Each part of a turn, and how it is measured. No part contains another one."""

WITHIN: Mapping[str, str] = {
    MODEL: MODEL_CALL,
    MODEL_CALL: MODEL_NODE,
    HISTORY: MODEL_NODE,
    MODEL_NODE: NODES,
    HOOK_CALLS: NODES,
    TOOL_CALL: TOOLS_NODE,
    TOOLS_NODE: NODES,
    SERDE: SAVER,
}
"""Which part runs inside which, so that its time is taken off the other's. By hand there are no
fused nodes, and LangGraph's `ToolNode` calls tools in another thread, which counts there."""

PARTS_BY_HAND = (MODEL, MODEL_CALL, TOOL_CALL, TOOLS_NODE, MESSAGES, SERDE, SAVER)
PARTS = (*PARTS_BY_HAND, HOOK_CALLS, HISTORY, MODEL_NODE, NODES)
"""What has a stopwatch, in LangGraph by hand and in ours."""
