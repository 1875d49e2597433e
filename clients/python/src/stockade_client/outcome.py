"""What a call can end with: refusals are values, a missing answer is an exception."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from .schema import Problem, Reservation

T = TypeVar("T")

#: Whether a call had its effect.
Effect: TypeAlias = Literal["not_applied", "unknown"]


@dataclass(frozen=True)
class Done(Generic[T]):
    """It was done, now or before."""

    value: T
    #: The word of `Stockade-Outcome`: `held`, `confirmed`, `replayed` and so on.
    word: str
    #: The effect was there already: this key has been used before, perhaps by a try of this very call.
    replayed: bool


@dataclass(frozen=True)
class Refused:
    """It was refused, and nothing was changed. Newer services may know more codes."""

    problem: Problem

    @property
    def code(self) -> str:
        """The word that programs compare: `sold_out` and so on."""
        return self.problem["code"]


@dataclass(frozen=True)
class Unanswered:
    """One request of a bulk call had no answer after all tries. Keep its key, and ask again."""

    outcome: Effect
    problem: Problem | None


Outcome: TypeAlias = Done[T] | Refused
BulkOutcome: TypeAlias = Done[Reservation] | Refused | Unanswered


class NoAnswer(Exception):
    """There was no answer, after all tries. Keep the key: only the same one finds out, or has its one effect."""

    def __init__(self, message: str, outcome: Effect, key: str | None, problem: Problem | None, tries: int) -> None:
        super().__init__(message)
        #: Whether any of the tries may have had its effect.
        self.outcome = outcome
        #: The key of the call, where it has one.
        self.key = key
        #: What the service said last, if it said anything.
        self.problem = problem
        self.tries = tries


class UnexpectedRefusal(Exception):
    """A refusal where the caller had no use for one: see `unwrap`."""

    def __init__(self, refused: Refused) -> None:
        problem = refused.problem
        super().__init__(f"{problem['code']}: {problem['detail']} (request {problem['instance']})")
        self.refused = refused


def unwrap(outcome: Outcome[T]) -> T:
    """The value; raises where it was refused."""
    if isinstance(outcome, Refused):
        raise UnexpectedRefusal(outcome)
    return outcome.value
