"""Errors of the service as responses."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from uuid import uuid4

from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.errors import AgentFactoryError, ArgumentError, MissingExtra, require, sentence
from agent_factory.review import NothingPending, NoThread, ReviewError
from agent_factory.serve.json_response import TYPES, JsonResponse
from agent_factory.service import (
    AlreadyDecided,
    AlreadyExists,
    ClaimedByOther,
    DatabaseUnavailable,
    DatabaseVersionError,
    DecisionForbidden,
    NotFound,
    ReadOnly,
    RunCancelled,
    RunFailed,
    ThreadBusy,
)

logger = logging.getLogger("agent_factory.serve")

_STATUS: dict[type[Exception], int] = {
    NotFound: 404,
    ThreadBusy: 409,
    AlreadyDecided: 409,
    AlreadyExists: 409,
    ClaimedByOther: 409,
    DecisionForbidden: 403,
    ReadOnly: 403,
    ReviewError: 422,
    NothingPending: 409,
    NoThread: 404,
    ArgumentError: 422,
    DatabaseUnavailable: 503,
    DatabaseVersionError: 503,
}


def status_of(error: Exception) -> int:
    """The status code of the response for an error."""
    if isinstance(error, HTTPException):
        return error.status_code
    # By the nearest class: some errors of reviews have another status than ReviewError.
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)


_PYTHON = re.compile(r"\w\(|\b\w+=|\b(?:None|True|False|Python)\b|\bservice\.\w")
"""Text for callers in Python alone."""

_TYPE = re.compile(rf"\b(?:(?<=got )|an? )({'|'.join(TYPES)})\b")


def text_of(error: AgentFactoryError) -> str:
    """An error as text for people: in words of JSON, without codes, ids of runs, hints for Python.

    >>> from agent_factory.service import ThreadBusy
    >>> text_of(ThreadBusy("thread 't'", "is running.", "Submit it with busy='queue'."))
    "thread 't': is running."
    """
    # A client over HTTP cannot follow a hint for Python.
    hint = "" if _PYTHON.search(error.hint) else error.hint
    subject = "The run" if isinstance(error, RunFailed | RunCancelled) else f"{error.subject}:"
    return in_json_words(f"{subject} {sentence(error.reason)} {hint}".strip())


def in_json_words(text: str) -> str:
    """A text without codes of errors, and with JSON's names of types.

    >>> in_json_words("[AF337] refund: expected a dict, got str ('approve').")
    "refund: expected an object, got a string ('approve')."
    """
    return _TYPE.sub(lambda match: TYPES[match[1]], re.sub(r"\[AF\d+\] ", "", text))


def refusal_of(
    request: Request, error: Exception, words: Callable[[AgentFactoryError], str] = text_of
) -> tuple[int, str]:
    """Status and text of the response for an error. An error of the server is logged, and hidden.

    Args:
        words: Writes an error of the caller as text.
    """
    status = status_of(error)
    if isinstance(error, HTTPException):
        return status, error.detail
    if isinstance(error, AgentFactoryError) and status < 500:
        return status, words(error)
    number = uuid4().hex[:12]
    logger.error("Error %s at %s %r", number, request.method, request.scope["path"], exc_info=error)
    text = "The server has failed."
    if status == 503:
        text = "The database is not available now. Try again."
    return status, f"{text} Its log says why, under {number}."


async def refusal(request: Request, error: Exception) -> JsonResponse:
    """The response to a refused request, for an application."""
    if status_of(error) >= 500 and not isinstance(error, HTTPException):
        raise error  # RequestGuard answers without details
    return refusal_response(request, error)


def refusal_response(request: Request, error: Exception) -> JsonResponse:
    """The response for an error, with the headers of an HTTPException."""
    headers = error.headers if isinstance(error, HTTPException) else None
    return error_response(request, *refusal_of(request, error), headers=headers)


def require_extra(extra: str, name: str) -> None:
    """Raise HTTPException (501) if an extra is not installed, for the protocol with this name."""
    try:
        require(extra, name)
    except MissingExtra as error:
        raise HTTPException(501, str(error)) from error


def error_response(
    request: Request,
    status: int,
    text: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JsonResponse:
    """An error, in the form of the clients of the path.

    Args:
        text: The expectation, the fact, and the remedy.
        param: The wrong field, for clients of OpenAI's API.
        code: The kind of the error, for the same clients.
    """
    # Starlette's path begins with the prefix under which the application is mounted.
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    # Routes of OpenAI's API, whose clients read another form of errors.
    if not path.startswith("/v1/"):
        return JsonResponse({"detail": text}, status_code=status, headers=headers)
    kind = "server_error" if status >= 500 or status == 424 else "invalid_request_error"
    error = {"message": text, "type": kind, "param": param, "code": code}
    return JsonResponse({"error": error}, status_code=status, headers=headers)
