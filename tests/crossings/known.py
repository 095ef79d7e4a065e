"""Faults of the package that crossings find today.

Each has the smallest crossing that shows it. A test fails when it shows it no more: then the entry
is to be removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from crossings.oracle import Fault
from crossings.ways import Crossing


@dataclass(frozen=True)
class Known:
    """A fault between features.

    Args:
        example: The smallest crossing that shows it.
        promise: The promise that is broken.
        subjects: What the promise is about there.
        sentence: What happens.
        features: The features that it stands between; by default those of the example.
        ways: Ways that show it; none: all.
    """

    example: Crossing
    promise: str
    subjects: tuple[str, ...]
    sentence: str
    features: tuple[str, ...] | None = None
    ways: tuple[str, ...] = ()

    def covers(self, crossing: Crossing, fault: Fault) -> bool:
        """Whether a fault of a crossing is this one."""
        features = self.example.features if self.features is None else self.features
        if self.ways and crossing.way not in self.ways:
            return False
        is_about = fault.promise == self.promise and fault.subject in self.subjects
        return is_about and {*features} <= {*crossing.features}


RESULTS = ("result", "error", "late result", "late error")

KNOWN: dict[str, Known] = {
    "G1 before": Known(
        Crossing(("guard_messages",), talk=("poison", "plain")),
        "blocked",
        ("message", *RESULTS),
        "The model reads a message that a guard has blocked as soon as another one follows.",
    ),
    "G1 beside": Known(
        Crossing(("guard_beside",), talk=("poison", "plain")),
        "blocked",
        ("message", *RESULTS),
        "The model reads a message that a guard has blocked as soon as another one follows.",
    ),
    "G3": Known(
        Crossing(("override", "retry"), talk=("mail",)),
        "redacted",
        ("message", *RESULTS),
        "An async run skips the sync override of a built-in's layer without a word.",
        features=("override",),
    ),
    "G5": Known(
        Crossing(("guard_result", "background"), turns=(("fetch",),), talk=("plain",)),
        "checked",
        ("late result", "late error"),
        "A guard checks the handle of a background call, and the model reads its result unchecked.",
        features=("guard_result",),
    ),
    "G6": Known(
        Crossing(("tool_error", "guard_result"), turns=(("fail",),), talk=("plain",)),
        "checked",
        ("error",),
        "The model reads the text of an error that a layer around the guard has made of it.",
    ),
    "G11": Known(
        Crossing(
            ("limit", "background"),
            "service",
            turns=(("fetch",), "plain", ("fetch",)),
            talk=("plain",),
        ),
        "limited",
        ("model calls",),
        "Each result of a background call begins a run with fresh limits.",
        ways=("service",),
    ),
    "P4": Known(
        Crossing(("limit", "clerk"), turns=(("clerk",),), talk=("plain",)),
        "proven",
        ("model calls", "tool calls"),
        "A sentence about all calls holds, though an agent inside has no limit.",
        features=("clerk",),
    ),
    **{
        f"P5 {feature}": Known(
            Crossing(
                (feature,), "fork", turns=(("refund",), "plain", ("refund",)), talk=("plain",)
            ),
            "limited",
            (unit,),
            "A run from an early checkpoint has its count, and not that of the thread.",
            ways=("fork", "replay"),
        )
        for feature, unit in (
            ("limit_thread", "model calls"),
            ("tool_limit_thread", "calls of refund"),
        )
    },
    **{
        f"P7 {feature}": Known(
            Crossing(
                ("limit", feature), turns=(*[(("fetch",)), turn] * 2, ("fetch",)), talk=("plain",)
            ),
            "limited",
            ("model calls",),
            "A limit of model calls does not count what another layer asks the model once more.",
            features=(feature,),
        )
        for feature, turn in (
            ("answer_guard", "empty"),
            ("fallback", "error"),
            ("refusal", "poison"),
            ("retry", "error"),
        )
    },
    "P7 tools": Known(
        Crossing(("tool_limit", "tool_retry"), turns=(("fail",), ("fail",)), talk=("plain",)),
        "limited",
        ("tool calls", "calls of refund"),
        "A limit of tool calls counts a call once that is tried several times.",
        features=("tool_retry",),
    ),
    **{
        f"P11 {name}": Known(
            Crossing((feature,), way, turns=(("fetch", other),)),
            "kept",
            ("result",),
            "A result is lost if a call beside it waits or fails when the next message comes.",
            ways=ways,
        )
        for name, feature, other, way, ways in (
            ("review", "review_each", "refund", "new message", ("new message",)),
            ("client", "client_tools", "page", "new message", ("new message",)),
            ("error", "once", "fail", "invoke", ()),
        )
    },
    "blocked results": Known(
        Crossing(("guard_result", "tool_limit"), turns=(("fetch poison",),) * 3, talk=("plain",)),
        "limited",
        ("tool calls",),
        "A limit does not count a call that has run if a guard around it blocks its result.",
    ),
    "emulated results": Known(
        Crossing(("emulator", "guard_result"), turns=(("fetch",),), talk=("plain",)),
        "checked",
        ("result",),
        "The model reads an emulated result unchecked if the guard is inside of the emulator.",
    ),
    "empty chunk": Known(
        Crossing(("guard_answer",), "stream messages", turns=("poison",), talk=("plain",)),
        "streamed",
        ("messages",),
        "After the text in place of an answer, an empty chunk of another message is streamed.",
    ),
    "blocked answers": Known(
        Crossing(("guard_beside", "limit_thread"), talk=("poison",) * 4),
        "limited",
        ("model calls",),
        "A limit of a thread does not count answers that a guard around it throws away.",
    ),
    **{
        f"last words of {feature}": Known(
            Crossing((feature,), "stream messages", turns=(("fetch",),) * 5, talk=("plain",)),
            "streamed",
            ("messages",),
            "The text in which a limit ends a run is not streamed, if it is in place of calls.",
        )
        for feature in ("limit_answer", "budget")
    },
    "labels": Known(
        Crossing(
            ("flow_guard", "tool_limit"), "stream messages", turns=(("fetch",),), talk=("plain",)
        ),
        "streamed",
        ("messages",),
        "A result is not streamed as a message if FlowGuard adds labels to a Command.",
        features=("flow_guard",),
    ),
}
