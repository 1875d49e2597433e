"""The rows: what is done to whom. Each draws its faults, and plays them on processes of its own."""


class Row:
    """One line of the table."""

    #: As in ROWS=, and in words.
    name: str
    fault: str
    #: Acknowledged writes may be missing afterwards, by what Redis promises: they are counted and published.
    may_lose = False

    def draw(self, rng):
        """The faults of a run: whatever is chosen, as JSON."""
        raise NotImplementedError

    def play(self, run):
        """Starts what it needs, lets the crowd in, does what was drawn; `run.finish` then compares."""
        raise NotImplementedError


def seconds(rng, least, most):
    return round(rng.uniform(least, most), 3)


def all_rows():
    from matrix import frozen, killed, network, starved
    return [*killed.ROWS, *frozen.ROWS, *network.ROWS, *starved.ROWS]
