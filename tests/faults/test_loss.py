"""A Redis that forgets what it has answered must be found out."""

import faults
from matrix import Row


class Forgetful(Row):
    name, fault = "forgetful", "kill -9 of a Redis that writes no log"

    def draw(self, rng):
        return {}

    def play(self, run):
        redis = run.redis("--appendonly", "no")
        run.service(redis.url)
        run.open()
        run.over()
        redis.call("SAVE")
        for _ in range(20):
            run.over()      # these are forgotten
        redis.kill()
        redis.start(ready=False)
        run.over()


def test_what_is_lost_is_counted_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "KEPT", tmp_path)
    result = faults.played(Forgetful(), seed=1, number=0)
    assert result.lost > 0 and any("acknowledged" in why for why in result.wrong)
    [kept] = tmp_path.iterdir()
    assert {"plan.json", "calls.jsonl", "wrong.txt", "service-0.log"} <= {path.name for path in kept.iterdir()}
