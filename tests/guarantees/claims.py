"""Sentences about random agents, and what the events of runs say about them.

Where the events leave a doubt, a sentence has the benefit of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from guarantees.built_ins import action_of, rules_of
from guarantees.worlds import INSIDE, Event, Member, Spec, World

Shows = Callable[[World], Event | None]
"""A function that finds an event that contradicts a sentence."""

Allows = Callable[[World, int, Event], bool]
"""Whether a call that runs, at a place in the events, is one that a sentence allows."""


class Claim(NamedTuple):
    """A sentence, its form, and the function that contradicts it."""

    form: str
    sentence: str
    contradiction: Shows


def claims_of(spec: Spec) -> Iterator[Claim]:
    """The sentences that are tried on an agent."""
    inside = [f"{INSIDE}/{tool}" for tool in spec.inside.tools] if spec.inside else []
    for tool in (*spec.tools, *inside):
        person, guard = decided("approved"), decided("approved", "judged", "checked")
        yield Claim("passes a person", f"tool {tool} passes a person", runs(tool, person))
        yield Claim("passes a guard", f"tool {tool} passes a guard", runs(tool, guard))
        passes = f"tool {tool} passes a person"
        yield Claim("passes when", f"{passes} when n > 4", runs(tool, either(person, small)))
        unless = f'{passes} unless to like "*@x.org"'
        yield Claim("passes unless", unless, runs(tool, either(person, known)))
    every = [runs(tool, decided("approved")) for tool in (*spec.tools, *inside)]
    if every:
        yield Claim("passes a person, *", "tool * passes a person", first(every))
    # In the background, a call may run after those of later turns.
    in_background = any(member.kind == "Background" for member in spec.members)
    for tool in spec.tools:
        for member in spec.members:
            if allows := allowed_by(tool, member, in_background=in_background):
                yield Claim("passes NAME", f"tool {tool} passes {member.name}", runs(tool, allows))
        for other in {*spec.tools} - {tool}:
            yield Claim(
                "only after", f"tool {tool} only after tool {other}", runs(tool, after(other))
            )
    for member in spec.members:
        name = NAMES.get(member.kind, member.name)
        if member.kind == "own":
            if {*member.settings["hooks"], *member.settings["layers"]} & TURN:
                shown = between(member, is_first=True)
                yield Claim("model passes", f"model passes {name}", shown)
                shown = between(member, is_first=False)
                yield Claim("loop passes", f"every loop passes {name}", shown)
            yield Claim("sees calls", f"{name} sees tool_calls last", changed("saw", member.name))
            yield Claim("sees answers", f"{name} sees answers last", reworded(member))
        # A layer that calls twice begins both calls again when one of them was asked about, and
        # events do not show which review has asked.
        elif "review" in member.kind and not any(
            "twice" in other.settings.get("acts", ()) or "review" in other.kind
            for other in spec.members
            if other is not member
        ):
            yield Claim("sees calls", f"{name} sees tool_calls last", changed("approved", ""))
    yield Claim("loop passes a limit", "every loop passes a limit", kind("cut"))
    yield Claim("no path", "no path from start to end skips model", skips_model)
    of = {f"calls of {tool}": tool for tool in spec.tools}
    for scope in ("run", "thread"):
        for most in (0, 1, 2, 3, 6):
            for unit in ("model calls", "tool calls", *of):
                counted = ("asked" if unit == "model calls" else "ran"), of.get(unit)
                form = "calls of NAME" if unit in of else unit
                sentence = f"at most {most} {unit} a {scope}"
                yield Claim(f"at most {form} a {scope}", sentence, at_most(most, *counted, scope))
    for most in (1, 3):
        yield Claim("at most tokens", f"at most {20 * most} tokens", at_most(most, "asked"))


NAMES = {"their review": "HumanInTheLoopMiddleware"}
"""Names in a plan of members that take none."""

TURN = {"before_agent", "before_model", "after_model", "model", "agent"}


def kind(name: str) -> Shows:
    return lambda world: next((event for event in world.log if event.kind == name), None)


def first(shows: list[Shows]) -> Shows:
    return lambda world: next(filter(None, (show(world) for show in shows)), None)


# A tool passes ...


def runs(tool: str, allows: Allows) -> Shows:
    """A run of a tool that is not allowed."""

    def contradiction(world: World) -> Event | None:
        for place, event in enumerate(world.log):
            if (event.kind, event.tool) == ("ran", tool) and not allows(world, place, event):
                return event
        return None

    return contradiction


def either(*allowed: Allows) -> Allows:
    return lambda world, place, event: any(allows(world, place, event) for allows in allowed)


def small(world: World, place: int, event: Event) -> bool:
    return bool(event.key[0] <= 4)


def known(world: World, place: int, event: Event) -> bool:
    return str(event.key[1]).endswith("@x.org")


def decided(*kinds: str, who: str = "") -> Allows:
    """Somebody has decided about this call before: no two calls have the same arguments."""

    def allows(world: World, place: int, event: Event) -> bool:
        # A person does not see which agent makes a call.
        name = event.tool.rpartition("/")[2]
        decisions = (e for e in world.log[:place] if e.kind in kinds and who in ("", e.who))
        return any(e.key == event.key and e.tool.rpartition("/")[2] == name for e in decisions)

    return allows


def after(other: str) -> Allows:
    return lambda world, place, event: any(
        (e.kind, e.tool) == ("ran", other) for e in world.log[:place]
    )


def allowed_by(tool: str, member: Member, *, in_background: bool) -> Allows | None:
    """Whether a call has passed a member; None if the events don't show it."""
    settings = member.settings
    if member.kind == "own":
        guard = settings.get("guard")
        if guard and guard[0] in ("*", tool):
            return decided("checked", who=member.name)
        if guard:
            return lambda *_: False
        return None if in_background else entered(member.name)
    if member.kind == "review":
        return by_rules(rules_of(settings), tool)
    if member.kind == "auto":
        is_judged = tool in settings.get("tools", [tool])
        return decided("judged") if is_judged else (lambda *_: False)
    if member.kind == "check" and settings["on"] == "call":
        return decided("checked", who=member.name)
    if member.kind == "flow guard" and settings["rules"] is None and tool == "mail":
        return either(unseen, decided("approved") if settings["action"] == "ask" else unseen)
    return None


def by_rules(rules: Any, tool: str) -> Allows:
    """The rules restrict some calls of the tool, and this one is as they say."""
    mine = [rule for rule in (*rules, ("*", "ask", None)) if rule[0] in ("*", tool)]
    free = next((i for i, rule in enumerate(mine) if rule[2] is None), len(mine))
    restricts = any(rule[1] != "allow" for rule in mine[: free + 1])
    kinds = {"ask": ("approved",), "judge": ("approved", "judged"), "deny": ()}

    def allows(world: World, place: int, event: Event) -> bool:
        action = action_of(rules, tool, event.key)
        return restricts and (action == "allow" or decided(*kinds[action])(world, place, event))

    return allows


def unseen(world: World, place: int, event: Event) -> bool:
    """Nothing that others wrote, or that is private, was there when the call was made."""
    batch = event.call.partition(".")[0]
    seen = [e for e in world.log[:place] if e[1:4:2] == ("done", "look")]
    return kind("fork")(world) is not None or all(e.call.partition(".")[0] == batch for e in seen)


def entered(who: str) -> Allows:
    """The run has passed a member: around this call, or on the way to it."""

    def allows(world: World, place: int, event: Event) -> bool:
        log, batch = world.log[:place], event.call.partition(".")[0]
        forks = [p for p, e in enumerate(log) if e[:2] == (event.run, "fork")]
        # Back to the calls of another message. What was passed with these counts, too.
        others = [
            p + 1
            for p, e in enumerate(log)
            if e.run != event.run
            or (
                e.kind in ("ran", "tool")
                and "/" not in e.who  # calls of an agent inside are a part of this turn
                and e.call.partition(".")[0] != batch
            )
        ]
        start = max(others, default=0)
        # A fork goes on in the middle of an earlier run, whose beginning counts.
        if forks and len({e.key for e in log[forks[0] :] if e.kind == "asked"}) < 2:
            start = 0
        return any(
            (e.kind == "tool" and e.call == event.call)
            or (is_once(e) and (forks or e.run == event.run))
            or (e.kind in ("hook", "model") and p >= start)
            for p, e in enumerate(log)
            if e.who == who
        )

    return allows


def is_once(event: Event) -> bool:
    return event.kind == "agent" or (event.kind, event.tool) == ("hook", "before_agent")


# The model, loops and paths


def between(member: Member, *, is_first: bool) -> Shows:
    """A visit of the model before which the member was not passed since the one before."""

    def contradiction(world: World) -> Event | None:
        for run in range(1, world.run + 1):
            events = [event for event in world.log if event.run == run]
            # A fork goes on in the middle of an earlier run.
            is_fork = events[0].kind == "fork"
            begun = world.log if is_fork else events
            if any(event.who == member.name and is_once(event) for event in begun):
                continue
            passed, visit = is_fork or not is_first, None
            for event in events:
                passed = passed or (
                    event.who == member.name and event.kind in ("hook", "model", "tool")
                )
                if (event.kind, event.who) == ("asked", ""):
                    if not passed and event.key != visit:
                        return event
                    passed, visit = False, event.key
        return None

    return contradiction


def skips_model(world: World) -> Event | None:
    if any(member.kind != "own" for member in world.spec.members):
        return None  # the model's node may be there, and not the model
    ran = {event.run for event in world.log if event.kind in ("asked", "model", "fork")}
    return next((e for e in world.log if e.kind == "ended" and e.run not in ran), None)


# The last look


def changed(kind: str, who: str) -> Shows:
    """A call that runs otherwise than a member has seen it last."""

    def contradiction(world: World) -> Event | None:
        seen: dict[str, tuple[Any, Any]] = {}
        for event in world.log:
            if (event.kind, event.who) == (kind, who) and event.call:
                seen[event.call] = event.tool, event.key
            now = event.tool, event.key
            if (event.kind, event.who) == ("ran", "") and seen.get(event.call, now) != now:
                return event
        return None

    return contradiction


def reworded(member: Member) -> Shows:
    """An answer that goes out otherwise than a member has seen it last."""

    def contradiction(world: World) -> Event | None:
        seen: dict[Any, str] = {}
        for event in world.log:
            # "answer 3", however it goes on. An unseen answer does not matter to the sentence.
            answer = event.run, str(event.key).split()[:2]
            if (event.kind, event.who) == ("saw answer", member.name):
                seen[str(answer)] = event.key
            if event.kind == "ended" and seen.get(str(answer), event.key) != event.key:
                return event
        return None

    return contradiction


# Counts


def at_most(
    most: float, kind: str, tool: str | None = None, scope: str = "run", who: str | None = None
) -> Shows:
    """Attempts count, and so do those of the agent inside, unless one tool or agent is meant."""

    def contradiction(world: World) -> Event | None:
        numbers: Counter[int] = Counter()
        for event in world.log:
            if event.kind == kind and tool in (None, event.tool) and who in (None, event.who):
                of = event.run if scope == "run" else 0
                numbers[of] += 1
                if numbers[of] > most:
                    return event
        return None

    return contradiction
