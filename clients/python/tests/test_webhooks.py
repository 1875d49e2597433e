"""Messages as Stockade sends them, and as nobody may."""

from __future__ import annotations

import base64
import hmac
import json
from email.message import Message

import pytest

from stockade_client.webhooks import Headers, NotGenuine, Seen, verify

#: The example of Standard Webhooks.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
SENT = 1614265330
HEADERS = {"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": str(SENT), "WEBHOOK-SIGNATURE": SIGNATURE}
BODY = b'{"test": 2432232314}'


def read(secrets: str | list[str], headers: Headers, body: bytes = BODY) -> object:
    """What a message says, at the time when it was sent. It need not be an event here."""
    return verify(secrets, headers, body, now=SENT)


def test_a_genuine_message_is_read() -> None:
    assert read(SECRET, HEADERS) == {"test": 2432232314}
    assert read([OTHER, SECRET], HEADERS) == {"test": 2432232314}
    # While the secret is changed.
    both = {**HEADERS, "WEBHOOK-SIGNATURE": f"v1,AAAA {SIGNATURE} v2,BBBB"}
    assert read(SECRET, both) == {"test": 2432232314}
    for late in (-300, 300):
        verify(SECRET, HEADERS, BODY, now=SENT + late)
    # As Python's own server has them.
    message = Message()
    for name, value in HEADERS.items():
        message[name] = value
    assert read(SECRET, message) == {"test": 2432232314}


def test_bytes_are_signed_not_the_text_that_they_make() -> None:
    body = json.dumps({"note": "é\u2028"}, ensure_ascii=False).encode()
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    mac = base64.b64encode(hmac.digest(key, b"a.%d." % SENT + body, "sha256")).decode()
    headers = {"webhook-id": "a", "webhook-timestamp": str(SENT), "webhook-signature": f"v1,{mac}"}
    assert read(SECRET, headers, body) == {"note": "é\u2028"}


@pytest.mark.parametrize(
    ("secret", "change", "body", "late"),
    [
        (OTHER, {}, BODY, 0),
        (SECRET, {"Webhook-Id": "another"}, BODY, 0),
        (SECRET, {"webhook-timestamp": str(SENT + 1)}, BODY, 0),
        (SECRET, {"webhook-timestamp": f"{SENT}.0"}, BODY, 0),
        (SECRET, {"webhook-timestamp": ""}, BODY, 0),
        (SECRET, {"webhook-timestamp": "\u0661"}, BODY, 0),
        (SECRET, {"WEBHOOK-SIGNATURE": SIGNATURE.replace("v1,", "v1a,")}, BODY, 0),
        (SECRET, {"WEBHOOK-SIGNATURE": SIGNATURE[3:]}, BODY, 0),
        (SECRET, {"WEBHOOK-SIGNATURE": SIGNATURE[:-4]}, BODY, 0),
        (SECRET, {"WEBHOOK-SIGNATURE": "v1,"}, BODY, 0),
        (SECRET, {"WEBHOOK-SIGNATURE": "é"}, BODY, 0),
        (SECRET, {}, BODY + b" ", 0),
        (SECRET, {}, BODY, 301),
        (SECRET, {}, BODY, -301),
        ([], {}, BODY, 0),
    ],
)
def test_what_is_not_genuine_is_refused(secret: str, change: dict[str, str], body: bytes, late: int) -> None:
    with pytest.raises(NotGenuine):
        verify(secret, {**HEADERS, **change}, body, now=SENT + late)


def test_an_old_message_is_refused() -> None:
    with pytest.raises(NotGenuine):
        verify(SECRET, HEADERS, BODY)
    with pytest.raises(NotGenuine):
        verify(SECRET, {}, BODY)


def test_repeats_are_dropped_by_id_and_the_oldest_ids_forgotten() -> None:
    seen = Seen(2)
    assert [seen.is_new(id) for id in ("a", "b", "a", "b", "c", "a")] == [True, True, False, False, True, True]
    seen.forget("a")
    assert seen.is_new("a")
