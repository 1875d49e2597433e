"""The rows: what is done to whom. Each draws its faults, and plays them on processes of its own."""


import plan


class Row:
    """One line of the table."""

    #: As in ROWS=, and in words.
    name: str
    fault: str
    #: Acknowledged writes may be missing afterwards, by what Redis promises: they are counted and published.
    may_lose = False
    #: Those are only changes of which the service said that they are on one server alone: no other is missing.
    keeps_replicated = False
    #: Part of `make test`.
    is_quick = False
    #: Holds may run out, so that clients are told that they are late. Their answers are not checked for linearizability.
    may_expire = False
    #: The share of holds of one second.
    brief = 0
    #: How many clients, how many turns each of them has on its tape, and whether it begins anew when these are done.
    clients, turns, is_endless = plan.CLIENTS, plan.TURNS, True

    def draw(self, rng):
        """The faults of a run: whatever is chosen, as JSON."""
        raise NotImplementedError

    def play(self, run):
        """Starts what it needs, lets the crowd in, does what was drawn; `run.finish` then compares."""
        raise NotImplementedError


def seconds(rng, least, most):
    return round(rng.uniform(least, most), 3)


def all_rows():
    """In the order of the table."""
    from matrix import clocks, cluster, files, frozen, killed, network, sentinel, several, starved
    return [row for module in (killed, frozen, network, starved, files, clocks, several, sentinel, cluster) for row in module.ROWS]
