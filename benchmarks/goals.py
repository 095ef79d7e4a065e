"""What the figures should reach, as data.

The goals are ratios, so they hold on any machine; those in milliseconds were set on two shared
cores. Each says what langchain 1.4.7 read when it was set, and what it was set by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should be at most.

    Args:
        key: The name that figures know it by.
        what: What it is about.
        peer: What langchain 1.4.7 read when the goal was set.
        reach: What has to be reached, or None.
        then: What to go for after that, or None.
        source: What the numbers were set by.
    """

    key: str
    what: str
    peer: str
    reach: float | None
    then: float | None
    source: str


_PROTOTYPE = "a prototype of fused steps read"

_OVER_PEER = {
    "no saver": (
        (8, 0.25, None, "fused runs read 0.15-0.17"),
        (16, 0.15, None, "fused runs read 0.11-0.13"),
        (32, 0.10, None, "fused runs read 0.07-0.08"),
    ),
    "memory": (
        (8, 0.25, None, "fused runs read 0.33, with one step less 0.27"),
        (16, 0.14, None, "fused runs read 0.17-0.21, with one step less 0.16"),
        (32, 0.08, None, "half of what 16 hooks may take"),
    ),
    "SQLite": (
        (8, 0.35, 0.25, f"{_PROTOTYPE} 3.2-4.0 times as fast, in two steps 4.5-4.7"),
        (16, 0.25, 0.16, f"{_PROTOTYPE} 5.1-6.1 times as fast, in two steps 6.3-7.7"),
        (32, 0.13, 0.10, f"{_PROTOTYPE} 8.5-10 times as fast, in two steps 10-13"),
    ),
}
"""The goals over langchain by where threads are kept: N, reach, then, and what they were set by."""

_FEW = {
    "invoked": ((0, 0.34, None), (2, 0.32, None), (4, 0.22, None)),
    "streamed": ((0, 0.55, 0.45), (2, 0.45, 0.35), (4, 0.35, 0.28)),
    "traced": ((0, 0.60, None), (2, 0.50, None), (4, 0.42, None)),
}
"""The goals with few middleware, without a saver: N, reach, then."""

_SERVICE = (
    Goal(
        "served",
        "`runs/wait` one after the other, over aegra on the same machine with the same agent",
        "",
        1 / 2,
        None,
        "twice as many a second; aegra waits for no poll of a queue, and neither need we",
    ),
    Goal(
        "served at once",
        "16 `runs/wait` at once, over aegra",
        "",
        1 / 1.5,
        None,
        "1.5 times as many a second",
    ),
    Goal(
        "message commits",
        "commits of a message without tool calls",
        "",
        6,
        None,
        "to accept it, to begin it, three of LangGraph's checkpoints and writes, and to end it",
    ),
    Goal(
        "message CPU",
        "CPU ms of a message without tool calls",
        "",
        9,
        None,
        "twice what LangGraph alone takes",
    ),
    Goal(
        "message",
        "CPU of a message without tool calls, over LangGraph alone with its saver",
        "",
        2,
        None,
        "the queue, the lease and the events may cost as much as the run",
    ),
    Goal(
        "answer",
        "ms to the result of a message where nothing else is there, the median",
        "",
        30,
        None,
        "a message of LangGraph alone takes 5, and no person notices 30",
    ),
    Goal(
        "idle",
        "commits a second of a worker with nothing to do",
        "",
        1,
        None,
        "a sign of life a second, and no polling",
    ),
    Goal(
        "four workers",
        "messages with model calls of half a second: four workers over one, on Postgres",
        "",
        1 / 3.9,
        None,
        "3.9 times as many a second",
    ),
    Goal(
        "long service thread",
        "a message in a thread of 1,000 messages over one in a thread of 10",
        "",
        1.5,
        None,
        "reading the thread is a small part of a message",
    ),
    Goal(
        "service crowd",
        "MB of a worker while 1,000 runs wait for their models at once",
        "",
        400,
        None,
        "a run that waits holds its state, and no thread",
    ),
)
"""The goals of the service."""

_ALL = (
    Goal(
        "watched",
        "a turn with 16 middleware over langchain, invoked and streamed, in the worst of the rows",
        "1",
        0.3,
        0.2,
        "fused runs asked directly read 0.15 as messages and 0.20 as values",
    ),
    *(
        Goal(
            f"{way} with {number}",
            f"a turn with {number} middleware over langchain with as many, {way}, in the worst row",
            "1",
            reach,
            then,
            "most agents have few middleware; with 16, a turn takes a tenth to a quarter",
        )
        for way, rows in _FEW.items()
        for number, reach, then in rows
    ),
    Goal(
        "traced",
        "the same where a tracer follows every node",
        "1",
        0.5,
        None,
        "a run of a tracer for each hook costs less than a super-step",
    ),
    Goal(
        "events",
        "the same with `astream_events` v2",
        "1",
        0.7,
        0.5,
        "langchain-core passes each event through tasks and a queue: more than half of the time",
    ),
    Goal(
        "growth",
        "a turn with 16 middleware over one with none, async, no saver",
        "6.4",
        1.05,
        None,
        "a hook costs microseconds where it needs no super-step; fused runs read 1.04",
    ),
    Goal(
        "growth, memory",
        "the same with a memory saver",
        "6.4",
        1.15,
        None,
        "the same; fused runs read 1.25",
    ),
    Goal(
        "none async",
        "a turn without middleware over langchain, async, no saver",
        "1",
        0.9,
        0.75,
        f"{_PROTOTYPE} up to a quarter less, part of it for features it lacked",
    ),
    Goal(
        "none sync",
        "a turn without middleware over langchain, sync, no saver",
        "1",
        0.6,
        0.5,
        "ToolNode's thread pool for one call is half of such a turn",
    ),
    *(
        Goal(
            f"{number} hooks, {saver}",
            f"a turn with {number} middleware over langchain with as many, {saver}",
            "1",
            reach,
            then,
            source,
        )
        for saver, rows in _OVER_PEER.items()
        for number, reach, then, source in rows
    ),
    Goal(
        "layers",
        "a turn with 16 async wrap_model_call layers over one with none",
        "3.5",
        1.2,
        1.1,
        "a plain closure costs 0.1 microseconds a layer",
    ),
    Goal(
        "checkpoints",
        "checkpoints of a turn, for any number of middleware",
        "2N+2",
        3,
        2,
        "model, after hooks and tools are three steps; all but tools in one, two",
    ),
    Goal(
        "bytes",
        "checkpoint bytes with 32 middleware over those with none, 10 turns, short messages",
        "129",
        2.2,
        1.0,
        "four checkpoints a turn for two; and two for two",
    ),
    Goal(
        "long thread",
        "kB of checkpoints a turn, 200 turns, 8 middleware, messages of 200 bytes",
        "1676, with a delta channel 68",
        6,
        5,
        "three checkpoints a turn with a delta channel read 5.7; without middleware 4.8",
    ),
    Goal(
        "history",
        "10,000 messages in the state, no saver, over a plain Python loop",
        "4.6",
        2,
        1.5,
        "the model's own conversions were 27 % of it, and the rest can do with one look",
    ),
    Goal(
        "reading",
        "`get_state` and one turn in a thread of 10,000 messages over LangGraph wired by hand",
        "1",
        2,
        None,
        "a delta channel has to put the messages together, which must not cost more than to read",
    ),
    Goal(
        "calls sync",
        "100 parallel tool calls over a plain loop, sync",
        "8.7",
        3,
        2.1,
        "all calls as one task read 2.1",
    ),
    Goal(
        "calls async",
        "100 parallel tool calls over a plain loop, async",
        "2.4",
        2,
        1.4,
        "all calls as one task read 1.3",
    ),
    Goal(
        "build",
        "create_agent with 16 middleware over langchain",
        "1 (5.6 ms)",
        0.5,
        None,
        "half where tools are cached",
    ),
    Goal(
        "guarantees",
        "the guarantees that each build checks over a build of 32 middleware and 20 tools",
        "",
        0.05,
        None,
        "nobody notices a twentieth",
    ),
    Goal(
        "sentence",
        "ms to prove or disprove a sentence about 32 middleware and 20 tools",
        "",
        5,
        None,
        "a search takes some tenths",
    ),
    Goal(
        "functions",
        "ms to build with 100 plain functions, the second time",
        "163",
        15,
        None,
        "a function costs 1.6 ms, once",
    ),
    Goal(
        "import",
        "import agent_factory over the least that LangGraph itself costs",
        "1.2",
        1.0,
        None,
        "no noticeable time besides",
    ),
    Goal(
        "lazy import",
        "ms of import agent_factory",
        "",
        None,
        50,
        "names are loaded when they are used (PEP 562)",
    ),
    Goal(
        "crowd",
        "the time of 100 runs at once with 8 middleware over langchain",
        "1 (43 agents a second)",
        1 / 3,
        1 / 4,
        "3 and 4 times as many agents a second",
    ),
    Goal(
        "batteries",
        "all built-ins, idle, over bare hooks in their places, hook by hook",
        "",
        1.15,
        None,
        "counted in instructions, nineteen built-ins read 1.16",
    ),
    Goal(
        "batteries fused",
        "the same in fused runs, whose turns take half the time",
        "",
        1.3,
        None,
        "a stack that does nothing in as many layers, and writes the same keys, reads 1.12",
    ),
    Goal(
        "guards",
        "a turn with a guard of progress, of answers or of flows, idle, over one with a layer that "
        "does nothing",
        "",
        1.01,
        None,
        "counted in instructions, they add 0.7 % and 0.3 %",
    ),
    Goal(
        "guard wait",
        "ms of a run over the slower of a model and a check that works while it answers",
        "",
        5,
        None,
        "nobody waits for the check if the model takes longer",
    ),
    Goal(
        "touches",
        "a turn of one call whose tool says what it touches, over one whose tool does not",
        "",
        1.02,
        None,
        "counted in instructions, it takes 0.4 %",
    ),
    Goal(
        "longest chain",
        "a run with a turn of calls that meet over the longest chain of these calls",
        "",
        1.2,
        None,
        "nobody waits for calls of another chain",
    ),
    Goal(
        "first token",
        "ms that a flow of chunks lets the first token of an answer come later",
        "",
        1,
        None,
        "a chunk passes through a generator or two, and nothing is held back",
    ),
    Goal(
        "prefix",
        "a turn with a decision log over one whose log looks for no changes of the prefix",
        "",
        1.02,
        None,
        "counted in instructions, it takes 0.6 %, and 1.5 % without middleware",
    ),
    Goal(
        "service",
        "messages with 5 tool calls and model calls of half a second: through a service over "
        "LangGraph alone with the same database",
        "",
        1 / 0.9,
        None,
        "a service may take a tenth of what LangGraph alone carries out in a second",
    ),
    *_SERVICE,
)

GOALS: Mapping[str, Goal] = {goal.key: goal for goal in _ALL}
"""Every goal by its key."""


def goals_table() -> str:
    """The goals as a Markdown table."""
    head = "| goal | what | langchain 1.4.7 | reach | then | set by |\n|---|---|---|---|---|---|"
    return "\n".join([head, *map(_row, _ALL)])


def _row(goal: Goal) -> str:
    limits = [_number(goal.reach), _number(goal.then)]
    cells = [goal.key, goal.what, goal.peer, *limits, goal.source]
    return f"| {' | '.join(cells)} |"


def _number(limit: float | None) -> str:
    return "" if limit is None else f"{limit:.3g}"
