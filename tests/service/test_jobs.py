"""Jobs as they are stored: workers of several versions read them."""

from __future__ import annotations

import json
from typing import Any

from agent_factory.service.jobs import DecisionJob, MessageJob, ThreadJob, UndoJob, read_job
from tables import each

PLACE: dict[str, Any] = {
    "run": "r", "thread": "t", "tenant": "acme", "agent": "desk", "priority": 3, "trace": None,
}  # fmt: skip

STORED = {
    "message": {
        **PLACE, "kind": "message", "input": "gA==", "checkpoint": None, "context": None,
        "config": {}, "stream": None, "subgraphs": True, "interrupt_before": None,
        "interrupt_after": None,
    },
    "late message": {
        **PLACE, "kind": "message", "input": "gA==", "checkpoint": "c", "context": {"user": "ann"},
        "config": {"tags": ["a"]}, "stream": ["updates"], "subgraphs": False,
        "interrupt_before": ["tools"], "interrupt_after": "*", "begins_at": 5.5,
        "before": [["r0", "gA==", None]], "rollback": "r1",
    },
    "decision": {
        **PLACE, "kind": "decision", "decisions": {"d": {"type": "approve"}}, "stream": None,
    },
    "undo": {**PLACE, "kind": "undo", "of": "r0"},
}  # fmt: skip
"""Jobs as the first version stored them."""


@each("name", STORED)
def test_a_job_has_the_form_that_it_was_stored_in(name: str) -> None:
    """A worker of the first version reads what this one stores, and the reverse."""
    stored = json.dumps(STORED[name])
    job = read_job(stored)
    assert job is not None
    assert type(job) is {"decision": DecisionJob, "undo": UndoJob}.get(name, MessageJob)
    assert json.loads(job.to_text()) == STORED[name]
    assert read_job(job.to_text()) == job


@each("name", STORED)
def test_fields_of_other_versions_are_left_out_or_have_a_default(name: str) -> None:
    later = {**STORED[name], "later": "field"}
    assert read_job(json.dumps(later)) == read_job(json.dumps(STORED[name]))
    needed = {*PLACE} - {"trace"} | {"kind", "input", "decisions", "of"}
    earlier = {key: value for key, value in STORED[name].items() if key in needed}
    job = read_job(json.dumps(earlier))
    assert isinstance(job, ThreadJob)
    assert job.trace is None


FIRST = {
    "without a trace": {
        "kind": "message", "run": "r", "thread": "t", "tenant": "acme", "agent": "desk",
        "priority": 0, "input": "gA==", "context": '{"user": "ann"}',
    },
    "with a trace": {
        **PLACE, "kind": "message", "input": "gA==", "context": None, "before": [["r0", "gB=="]],
        "rollback": "r1",
    },
    "with a config": {
        **PLACE, "kind": "message", "input": "gA==", "context": {"user": "ann"},
        "config": {"configurable": {}}, "stream": None, "before": [["r0", "gB==", "c"]],
    },
    "a decision": {
        "kind": "decision", "run": "r", "thread": "t", "tenant": "acme", "agent": "desk",
        "priority": 0, "decisions": {"d": {"type": "approve"}},
    },
}  # fmt: skip
"""Jobs as the commits before the first version stored them."""


@each("name", FIRST)
def test_jobs_of_the_first_commits_are_read(name: str) -> None:
    stored = FIRST[name]
    job = read_job(json.dumps(stored))
    assert job is not None
    if isinstance(job, DecisionJob):
        assert job.decisions == stored["decisions"]
        return
    assert isinstance(job, MessageJob)
    assert job.context == (None if stored["context"] is None else {"user": "ann"})
    before = [("r0", "gB==", "c" if name == "with a config" else None)]
    assert [*map(tuple, job.before)] == (before if "before" in stored else [])
    assert (job.checkpoint, job.rollback) == (None, stored.get("rollback"))


def test_the_row_of_a_run_without_its_message_has_no_job() -> None:
    assert read_job("{}") is None
