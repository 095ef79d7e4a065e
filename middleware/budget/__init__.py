"""A budget of money, tokens, time, turns and tool calls, for a run, a thread or several agents."""

from .ledger import Ledger, Reservation
from .limits import Account as Account
from .limits import BudgetExceededError, Limits, Spent
from .middleware import BudgetMiddleware, BudgetRequest, BudgetResponse, RaiseBudget, StopRun
from .prices import ModelName as ModelName
from .prices import Price, UnknownPriceError
from .prices import Prices as Prices
from .state import BudgetState

# Public. The other imports above are for the service, which keeps its own ledger.
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
