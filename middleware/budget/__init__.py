"""A budget of money, tokens, time, turns and tool calls, for a run, a thread or many agents.

What a call will cost at least is set aside before it is made, so that a limit holds before money
is gone and not after; what it did cost takes its place. The layers do the work, since only they
see the request and its answer. A hook before the model ends a run that is over, whatever hooks
would send it back.
"""

from .account import (
    BudgetState,
)
from .interrupt import (
    BudgetRequest,
    BudgetResponse,
    RaiseBudget,
    StopRun,
)
from .ledger import (
    Ledger,
    Reservation,
)
from .limits import (
    BudgetExceededError,
    Limits,
    Spent,
)
from .middleware import (
    BudgetMiddleware,
)
from .prices import (
    Price,
    UnknownPriceError,
)

__all__ = [
    "BudgetExceededError",
    "BudgetMiddleware",
    "BudgetRequest",
    "BudgetResponse",
    "BudgetState",
    "Ledger",
    "Limits",
    "Price",
    "RaiseBudget",
    "Reservation",
    "Spent",
    "StopRun",
    "UnknownPriceError",
]
