"""Room for a parser that recurses in native code, where a full stack ends the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

STACK = 256 * 1024 * 1024
"""Bytes of the stack; only what is used is taken. libcst 1.9 filled the usual 8 MB with a sum of
5,000 terms, and did not fill these with it."""

ResultT = TypeVar("ResultT")


def with_deep_stack(work: Callable[[], ResultT]) -> ResultT:
    """What some work gives, done by a thread that has a deep stack.

    >>> with_deep_stack(lambda: 2 + 3)
    5
    """
    done: Future[ResultT] = Future()
    usual = threading.stack_size(STACK)
    try:
        thread = threading.Thread(target=_settle, args=(done, work), daemon=True)
        thread.start()
    finally:
        threading.stack_size(usual)
    return done.result()


def _settle(done: Future[ResultT], work: Callable[[], ResultT]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)
