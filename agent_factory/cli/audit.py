"""`agent-factory audit`: who did what in a service, and whether the audit is intact."""

from __future__ import annotations

import json as json_format
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, Text
from agent_factory.cli.error_reports import CommandError, ShowTraceback
from agent_factory.cli.service import Target, Tenant, load_service
from agent_factory.errors import ArgumentError


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
    traceback: ShowTraceback = False,
) -> None:
    """Show who did what in a service, the newest first, or check that no entry was changed.

    Store the head that --verify prints where nobody can change it together with the database, and
    pass it as --head next time. The exit code is 1 if entries were changed, removed or moved.
    """
    loaded_service = load_service(service)
    if verify or head is not None:
        from agent_factory.service import AuditTampered

        try:
            newest = loaded_service.verify_audit(head=head)
        except ArgumentError as error:
            raise CommandError(str(error), error) from error
        except AuditTampered as error:
            if json:
                wrong = {"head": None, "wrong_entry": error.number, "error": str(error)}
                console.write_json(wrong)
            else:
                console.write(str(error))
            raise typer.Exit(1) from error
        if json:
            console.write_json({"head": newest, "wrong_entry": None, "error": None})
        else:
            console.write(f"The audit is intact. Its head is {newest}")
        return
    entries = loaded_service.inbox(tenant).audit(thread=thread, who=who, limit=limit)
    if json:
        console.write_json([asdict(entry) for entry in entries])
        return
    if not entries:
        console.write("The audit has no entries.")
        return
    table = Table("number", "at", "thread", "who", "what", "detail", box=None)
    for entry in entries:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
        detail = "" if entry.detail is None else json_format.dumps(entry.detail, ensure_ascii=False)
        cells = (str(entry.number), at, entry.thread_id, entry.who, entry.what, detail)
        table.add_row(*map(Text, cells))
    console.show(table)
