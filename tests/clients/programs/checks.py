"""Run named checks against the server at `sys.argv[1]`; print one JSON line for each."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import traceback
from typing import Any

URL = sys.argv[1]
LIMIT = 120


def run(**checks: Any) -> None:
    """Run each check: a function, sync or async, alone or with the value that it has to return."""
    for name, check in checks.items():
        line: dict[str, Any] = {"check": name.replace("_", " ")}
        function, *expected = check if isinstance(check, tuple) else (check,)
        try:
            value = function()
            if inspect.iscoroutine(value):
                value = asyncio.run(asyncio.wait_for(value, LIMIT))
            assert expected in ([], [value]), f"expected {expected[0]!r}, got {value!r}"
            line["value"] = None if expected else value
        except BaseException as error:
            traceback.print_exc()
            line["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(line, default=str), flush=True)
