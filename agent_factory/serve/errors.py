"""Errors of the service as responses."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from agent_factory.errors import ArgumentError
from agent_factory.review import NothingPending, NoThread, ReviewError
from agent_factory.serve.json_response import JsonResponse
from agent_factory.service import (
    AlreadyDecided,
    ClaimedByOther,
    DatabaseUnavailable,
    DatabaseVersionError,
    DecisionForbidden,
    NotFound,
    ThreadBusy,
)

_STATUS: dict[type[Exception], int] = {
    NotFound: 404,
    ThreadBusy: 409,
    AlreadyDecided: 409,
    ClaimedByOther: 409,
    DecisionForbidden: 403,
    ReviewError: 422,
    NothingPending: 409,
    NoThread: 404,
    ArgumentError: 422,
    DatabaseUnavailable: 503,
    DatabaseVersionError: 503,
}


def status_of(error: Exception) -> int:
    """The status code of a response to a request that has led to this error."""
    # By the nearest class: some errors of reviews have another status than ReviewError.
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)


def error_response(
    request: Request,
    status: int,
    text: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JsonResponse:
    """An error, in the form that the clients of the path read.

    Args:
        request: The request.
        status: The status of the response.
        text: What was expected, what came, what to write.
        param: The field that is wrong; clients of OpenAI's API read it.
        code: The kind of the error; they read it, too.
        headers: Headers of the response.
    """
    # Starlette's path begins with the prefix under which the application is mounted.
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    # Only routes of OpenAI's API begin so, and its clients read errors in a form of their own.
    if not path.startswith("/v1/"):
        return JsonResponse({"detail": text}, status_code=status, headers=headers)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": text, "type": kind, "param": param, "code": code}
    return JsonResponse({"error": error}, status_code=status, headers=headers)
