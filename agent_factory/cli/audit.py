"""`agent-factory audit`: who did what in a service, and whether the audit is intact."""

from __future__ import annotations

import json as json_format
from typing import TYPE_CHECKING, Annotated

import typer

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, Cells
from agent_factory.cli.error_reports import EXIT_FOUND
from agent_factory.cli.service import Target, Tenant, load_service

if TYPE_CHECKING:
    from agent_factory.service import AuditEntry


def audit(
    service: Target,
    thread: Annotated[str | None, typer.Option(help="Only entries about this thread.")] = None,
    who: Annotated[str | None, typer.Option(help="Only entries of this person.")] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(help="The most to show.")] = 50,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check all entries, and print the head of the audit.")
    ] = False,
    head: Annotated[
        str | None, typer.Option(help="A head that was printed before, to check against.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show who did what in a service, the newest first, or check that no entry was changed.

    Store the head printed by --verify where nobody can change both head and database, and pass the
    head as --head next time. The exit code is 1 if entries were changed, removed or moved.
    """
    loaded_service = load_service(service)
    if verify or head is not None:
        from agent_factory.service import AuditTampered

        try:
            newest = loaded_service.verify_audit(head=head)
        except AuditTampered as error:
            wrong = {"head": None, "wrong_entry": error.number, "error": str(error)}
            console.report(wrong, str(error), json=json)
            raise typer.Exit(EXIT_FOUND) from error
        intact = {"head": newest, "wrong_entry": None, "error": None}
        console.report(intact, f"The audit is intact. Its head is {newest}", json=json)
        return
    entries = loaded_service.inbox(tenant).audit(thread=thread, who=who, limit=limit)

    def cells(entry: AuditEntry) -> Cells:
        detail = entry.detail
        return {
            "number": str(entry.number),
            "at": console.local_time(entry.at, "%Y-%m-%d %H:%M:%S"),
            "thread": entry.thread_id,
            "who": entry.who,
            "what": entry.what,
            "detail": "" if detail is None else json_format.dumps(detail, ensure_ascii=False),
        }

    console.show_rows(entries, cells, empty="The audit has no entries.", json=json)
