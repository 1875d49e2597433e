"""Sends a call until it is answered: always the same bytes with the same key, so it has one effect at most."""

from __future__ import annotations

import email.utils
import random
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from .outcome import Done, Effect, NoAnswer, Outcome, Refused
from .schema import Problem

#: Nothing was sent when one of these is raised.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True)
class Settings:
    """How patient a client is."""

    #: Seconds without a byte of an answer after which a try is given up.
    timeout: float = 10.0
    #: How often a call is sent at most.
    tries_max: int = 6
    #: The pause before try n + 1 is random, below this times 2^n seconds. A `Retry-After` is added to it.
    backoff: float = 0.1
    #: The random part is never longer, and neither is a `Retry-After`.
    backoff_max: float = 5.0


@dataclass
class _Failure:
    """Why a try gave no answer."""

    may_have_run: bool
    why: str
    problem: Problem | None = None
    again: bool = True
    retry_after: float = 0.0
    cause: Exception | None = None


class Transport:
    """One service. Safe to share between threads."""

    def __init__(self, base_url: str, api_key: str | None, settings: Settings, http: httpx.Client | None) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self.settings = settings
        self._http = http or httpx.Client()

    def close(self) -> None:
        self._http.close()

    def send(self, method: str, path: str, body: object = None, key: str | None = None) -> Outcome[Any]:
        headers = dict(self._headers)
        if key is not None:
            headers["Idempotency-Key"] = quoted(key)
        url, timeout = self._base_url + path, self.settings.timeout
        request = self._http.build_request(method, url, headers=headers, timeout=timeout, json=body)
        may_have_run = False
        tries = 0
        while True:
            tries += 1
            answer = self._try(request)
            if not isinstance(answer, _Failure):
                return answer
            may_have_run = may_have_run or answer.may_have_run
            if not answer.again or tries >= self.settings.tries_max:
                why = f"{method} {path}: {answer.why} ({tries} tries)"
                effect: Effect = "unknown" if may_have_run else "not_applied"
                raise NoAnswer(why, effect, key, answer.problem, tries) from answer.cause
            self.pause(tries, answer.retry_after)

    def pause(self, tries: int, retry_after: float) -> None:
        """Waits before the next try."""
        settings = self.settings
        jitter = random.random() * min(settings.backoff_max, settings.backoff * 2**tries)
        time.sleep(min(retry_after, settings.backoff_max) + jitter)

    def _try(self, request: httpx.Request) -> Outcome[Any] | _Failure:
        try:
            answer = self._http.send(request, follow_redirects=False)
            body = _parsed(answer)
        except (httpx.HTTPError, ValueError) as error:
            return _Failure(not isinstance(error, _NOT_SENT), str(error) or repr(error), cause=error)
        status = answer.status_code
        if status < 300:
            word = answer.headers.get("Stockade-Outcome", "")
            return Done(body, word, word == "replayed")
        problem = _problem_of(body)
        if problem is not None and status < 500 and not problem["retryable"]:
            return Refused(problem)
        retry_after = _seconds(answer.headers.get("Retry-After"))
        if problem is not None:
            unknown = problem.get("outcome") == "unknown"
            return _Failure(unknown, problem["detail"], problem, problem["retryable"], retry_after)
        # No answer of Stockade but of something in between, which may have passed the call on.
        again = status >= 500 or status == 429
        return _Failure(again, f"{status}, and no answer of Stockade", None, again, retry_after)


def _parsed(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        # An error page of something in between need not be JSON; a good answer that is not was cut.
        if answer.is_success:
            raise
        return None


def _problem_of(body: Any) -> Problem | None:
    is_problem = isinstance(body, dict) and "code" in body and "retryable" in body
    return body if is_problem else None


def part(text: str) -> str:
    """A name as one part of a path."""
    return quote(text, safe="")


def query(**wanted: str | int | None) -> str:
    """What is given of it, with its `?`."""
    given = {name: value for name, value in wanted.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def quoted(key: str) -> str:
    """A key as a structured-field string: any printable text, also with `;` or quotes in it."""
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _seconds(retry_after: str | None) -> float:
    """Of `Retry-After`: seconds, or a date."""
    if retry_after is None:
        return 0.0
    if retry_after.isdigit():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0
