"""Three systems of twenty processes each, and one notification when all have finished: docs/recipes/fan-in.md tells it
step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, cast

from stockade_client import Barrier, Done, Refused, Stockade, UnexpectedRefusal, unwrap
from stockade_client.schema import Arrive, BarrierEnd, Event
from stockade_client.webhooks import Headers, NotGenuine, Seen, verify

SYSTEMS = ("orders", "prices", "stock")
PARTICIPANTS = [f"{system}-{number}" for system in SYSTEMS for number in range(20)]
#: The night is over two hours after it began, whoever is missing.
DEADLINE_SECONDS = 2 * 3600
#: Who was missing can be read for a week.
RETENTION_SECONDS = 7 * 86_400


def begin(barrier: Barrier, participants: list[str], url: str) -> str:
    """Makes the barrier, or finds it made. Returns the secret that the notification is signed with."""
    made = unwrap(
        barrier.put(
            {
                "participants": participants,
                "deadline_seconds": DEADLINE_SECONDS,
                "retention_seconds": RETENTION_SECONDS,
                "notify": [{"url": url}],
            }
        )
    )
    return made["notify"][0]["secret"] or ""


def take_part(barrier: Barrier, participant: str, work: Callable[[], None]) -> str:
    """What one process does, and does again after a crash. How the job stands then."""
    arrival: Arrive = {"participant": participant}
    try:
        work()
    except Exception as error:
        arrival = {"participant": participant, "outcome": "failed", "note": str(error)[:256]}
    match barrier.arrive(arrival):
        case Done(value=progress):
            return progress["status"]
        case Refused(code="barrier_ended"):
            return "late"  # it ended without this process
        case Refused() as refused:
            raise UnexpectedRefusal(refused)  # a mistake of ours, such as a name that nobody waits for


def names(barrier: Barrier, status: Literal["missing", "arrived", "failed"]) -> Iterator[str]:
    """Who is missing, for instance: page after page."""
    after = None
    while True:
        page = unwrap(barrier.participants(status, after=after, limit=500))
        yield from (one["participant"] for one in page["items"])
        after = page["next"]
        if after is None:
            return


def give_time(barrier: Barrier, is_alive: Callable[[str], bool], seconds: int) -> bool:
    """Before the deadline: more time, where all that are missing are still at work."""
    if not all(is_alive(participant) for participant in names(barrier, "missing")):
        return False
    return isinstance(barrier.extend(seconds), Done)  # refused: it has ended


def receive(secret: str, headers: Headers, body: bytes, seen: Seen, act: Callable[[Event], None]) -> int:
    """Takes in one message. Returns the status of the answer."""
    try:
        event = verify(secret, headers, body)
    except NotGenuine:
        return 401
    if not seen.is_new(event["id"]):
        return 204
    try:
        act(event)
    except Exception:
        seen.forget(event["id"])
        return 500  # it comes again
    return 204


def after_the_night(
    stockade: Stockade, event: Event, url: str, publish: Callable[[], None], start: Callable[[str, list[str]], None]
) -> None:
    """What the one notification sets off."""
    end = cast(BarrierEnd, event["data"])
    match end["status"]:
        case "completed":
            publish()
        case "timed_out":
            # Those that are missing begin anew, with a barrier of their own.
            again = f"{end['barrier']}-again"
            missing = list(names(stockade.barrier(end["barrier"]), "missing"))
            begin(stockade.barrier(again), missing, url)
            start(again, missing)
        case _:
            raise ValueError(f"{end['barrier']} ended {end['status']}")  # nobody here cancels it
