"""`agent-factory policy`: decisions about the calls of each tool of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, Cells, Text
from agent_factory.cli.error_reports import CommandError
from agent_factory.cli.loading import load

if TYPE_CHECKING:
    from agent_factory.review.policy import PolicyRow

EXAMPLES = """\
agent-factory policy shop.agent:agent
agent-factory policy shop/agent.py --json"""

_STYLES = {"allow": "green", "ask": "yellow", "deny": "red", "judge": "magenta"}


def policy(
    target: Annotated[str, typer.Argument(help="The agent: module:name or file.py:name.")],
    json: AsJson = False,
) -> None:
    """Show which calls of an agent's tools run, are asked about, judged or denied.

    The first matching row of a tool decides about a call. Rows without a rule are marked.
    """
    # Imported late: the import takes long, and --help does without.
    from agent_factory.review.policy import policy_table

    agent = load(target).agent
    if agent is None:
        raise CommandError(f"{target} is not an agent. Its rules are read from the agent itself.")
    rows = policy_table(agent)
    firsts = {row.tool: row for row in reversed(rows)}

    def cells(row: PolicyRow) -> Cells:
        is_first = row is firsts[row.tool]
        decision = f"{row.action}, or {row.otherwise}" if row.otherwise else row.action
        return {
            "tool": Text(row.tool if is_first else "", "cyan"),
            "calls": row.when or ("all calls" if is_first else "other calls"),
            "decision": Text(decision, _STYLES[row.action]),
            "who": ", ".join(row.reviewers),
            "notes": Text("; ".join(_notes(row)), "" if row.is_covered else "bold"),
        }

    console.show_rows(rows, cells, empty="The agent has no tools.", json=json)
    left = list(dict.fromkeys(row.tool for row in rows if not row.is_covered))
    if left and not json:
        verb = "is" if len(left) == 1 else "are"
        console.write(f"{console.counted(len(left), 'tool')} {verb} not covered: {', '.join(left)}")


def _notes(row: PolicyRow) -> list[str]:
    """Remarks on a row: reason, limits, and the deciding rule."""
    from agent_factory.review.policy import DECISIONS

    notes = [row.reason] if row.reason else []
    if row.decisions and row.decisions != DECISIONS:
        notes.append(f"only {', '.join(row.decisions)}")
    if row.remember is not None:
        days, seconds = divmod(row.remember, 86400)
        longest = f"{days:g} d" if days and not seconds else f"{row.remember:g} s"
        notes.append(f"may be remembered for {longest}")
    if not row.is_covered:
        notes.append("no rule" if row.middleware else "no policy")
    elif row.rule != row.tool:
        notes.append(f"rule {row.rule}")
    return notes
