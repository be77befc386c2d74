"""Secrets: none reaches a line, by whichever way it comes."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass

import pytest

from tests.observe.lines import app, written
from windlass.observe.redaction import Secrets
from windlass.observe.safe_text import shown

CANARY = "c4n4ry-s3cret"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjNG40cnkifQ.c2lnbmF0dXJlc2lnbmF0dXJl"


@dataclass
class Login:
    user: str
    password: str


@pytest.mark.parametrize(
    "name",
    ["password", "PASSWORD", "db_password", "dbpassword", "passwd", "token", "access_token", "accessToken", "x-api-key", "apikey",
     "Authorization", "client_secret", "SECRET", "cookie", "Set-Cookie", "private_key", "auth", "jwt", "passphrase", "credentials",
     "refreshToken", "session_id", "secret_key", "secrets", "token_value", "tokencounter_token", "api_token", "secret-key", "authtoken",
     "clientsecret", "privateKey", "privatekey", "X-Amz-Security-Token", "JWTToken", "APIKey", "password2", "dbPasswd", "userpassword_hash",
     "access_tokens", "tokens", "token_type_value", "token_count_token", "pass_word", "aws_secret_access_key", "AWSAccessKey", "otp"],
)  # fmt: skip
def test_names_that_hide(name: str) -> None:
    assert Secrets().is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "author",
        "prompt_tokens",
        "tokenizer",
        "keyboard",
        "path",
        "county",
        "user",
        "passed",
        "compass",
        "authored_by",
        "secretary",
        "secretariat",
        "token_count",
        "tokenCount",
        "token_limit",
        "cookie_size",
        "secretaries",
        "password_length",
        "token_type",
        "tokenType",
        "token-expires-at",
        "token_expires_in_seconds",
        "max_tokens",
        "total_tokens",
        "token_rate_per_minute",
        "primary_key",
        "idempotency_key",
        "public_key",
        "pass_rate",
        "sidebar",
        "cookiecutter",
        "authority",
    ],
)
def test_names_that_show(name: str) -> None:
    assert not Secrets().is_secret(name)


def test_own_names() -> None:
    secrets = Secrets(names=["iban"])
    assert secrets.is_secret("IBAN") and not secrets.is_secret("ibans")


@pytest.mark.parametrize(
    "text",
    [
        f"password={CANARY}", f"password: {CANARY}", f"password = '{CANARY}'", f'{{"password": "{CANARY}"}}', f"{{'token': '{CANARY}'}}",
        f"password=b'{CANARY}'", f'password="a\\"{CANARY}"', f"passwords=['x', '{CANARY}']", f"token={CANARY}&x=1", f"accessToken={CANARY}",
        f"Authorization: Bearer {CANARY}", f"authorization=Basic {CANARY}", f"sent bearer {CANARY}", f"Cookie: a=1; sid={CANARY}; b=2",
        f"postgresql://bob:{CANARY}@db/app", f"redis://:{CANARY}@cache/0", f"host=db user=bob password={CANARY} dbname=app",
        f"DB_PASSWORD={CANARY}", f"api_key={CANARY}", f"X-Api-Key: {CANARY}", f"client_secret={CANARY}", repr(Login("bob", CANARY)),
        f"token \n=\n {CANARY}", f"data['password'] = '{CANARY}'", f"url=https://host/?a=1&token={CANARY}", f"x=1 my-secret-key={CANARY}",
        f"token_count=7 token={CANARY}", f"privateKey: {CANARY}", f"passwd={CANARY}", f"user.password={CANARY}", f"APITOKEN={CANARY}",
    ],
)  # fmt: skip
def test_values_with_a_name_are_hidden_in_text(text: str) -> None:
    assert CANARY not in Secrets().hide(text)
    assert "***" in Secrets().hide(text)


def test_what_is_no_secret_stays() -> None:
    text = "job 0190 of welcome failed: prompt_tokens=512, secretary=Mary, token_count=7, token_type: card, tokenExpiresAt='12:00', county=Kent, see https://example.org/a?b=c at 12:00:01"
    assert Secrets().hide(text) == text


def test_tokens_are_known_by_their_look() -> None:
    assert Secrets().hide(f"got {JWT} back") == "got *** back"


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_way_leads_past(style: str) -> None:
    """A canary through every part of a record, plain and nested in objects (the literal, and by name)."""
    with written(style, secrets=Secrets([CANARY, "p@ss/w\nrd"])) as lines:
        app.info("login with %s", CANARY)
        app.info(f"login with {CANARY}")  # what careless code does
        app.info(
            "x",
            extra={
                "note": CANARY,
                CANARY: 1,
                "password": "short",
                "deep": {"a": [{"token": "short"}, (CANARY,)]},
            },
        )
        app.info(
            "x",
            extra={
                "job_id": CANARY,
                "event": CANARY,
                "login": Login("bob", "short"),
                "bytes": CANARY.encode(),
            },
        )
        app.info(
            "x",
            extra={
                "url": "redis://:p%40ss%2Fw%0Ard@host/0",
                "json": json.dumps("p@ss/w\nrd"),
                "repr": repr("p@ss/w\nrd"),
            },
        )
        try:
            raise ValueError(f"cannot log in with {CANARY}, password='short'")
        except ValueError:
            app.exception("it broke", stack_info=True)
        logging.getLogger(CANARY).info("x")
    assert len(lines.heads) == 7
    # The line of this file that raises is quoted in the traceback; the secret itself is not in it.
    for secret in (CANARY, "short'", '"short"', "p@ss", "p%40ss"):
        assert secret not in lines.text, [line for line in lines.all if secret in line]


def test_secrets_may_come_later() -> None:
    with written() as lines:
        app.info("%s", CANARY)
        lines.secrets.add(CANARY)
        app.info("%s", CANARY)
    assert [line["message"] for line in lines.objects] == [CANARY, "***"]


def test_the_password_of_a_url() -> None:
    secrets = Secrets()
    for url in (
        "postgresql://bob:c4n4ry%2Fs3cret@db/app",
        "sqlite:///jobs.db",
        "postgresql://[bad",
        "",
        "redis://:xyz1@h",
    ):
        secrets.add_url(url)
    assert secrets.hide("login c4n4ry/s3cret or c4n4ry%2Fs3cret or xyz1") == "login *** or *** or ***"


@pytest.mark.parametrize("after", [100, 100_000])
def test_no_half_of_a_secret_is_left_at_the_cut(after: int) -> None:
    secrets = Secrets([CANARY])
    for before in range(2030, 2060):
        assert CANARY[:4] not in shown("a" * before + CANARY + "b" * after, secrets)


def test_nor_where_much_was_hidden_before_it() -> None:
    """So much that what is looked at of a very long text becomes shorter than what is shown."""
    secret = "".join(f"{n:04x}" for n in range(40))
    secrets = Secrets([secret])
    for count in range(60, 160):
        assert secret[:8] not in shown(secret * count + "b" * 100_000, secrets)


def test_short_values_are_left_to_their_names() -> None:
    assert Secrets(["a", ""]).hide("a banana") == "a banana"


@pytest.mark.parametrize(
    "piece", ["password", "token=", "password='", "a", "a-", "aB", "a=", "eyJ", "://:@", "cookie:"]
)
def test_hostile_texts_cost_no_more_than_long_ones(piece: str) -> None:
    """One long text costs what as many characters in 32 short texts cost; where the cost grew with the square of the length, it would be
    32 times as much. Both are measured side by side, several times, and the best of each counts."""
    secrets = Secrets([CANARY])
    short = piece * (2_000 // len(piece)) + "="
    long = piece * (64_000 // len(piece)) + "="

    def cost(text: str, times: int) -> float:
        began = time.thread_time()
        for _ in range(times):
            secrets.hide(text)
        return time.thread_time() - began

    rounds = [(cost(long, 1), cost(short, 32)) for _ in range(5)]
    assert min(one for one, _ in rounds) < 8 * min(many for _, many in rounds)


def test_what_is_left_of_a_long_value_where_a_text_was_cut_is_hidden() -> None:
    value = "".join(f"{n:02x}" for n in range(100))
    secrets = Secrets([value])
    assert secrets.hide_values(f"401 for {value[:150]}") == "401 for ***"
    assert secrets.hide_values(f"{value[-150:]} was refused") == "*** was refused"
    assert secrets.hide_values(f"{value[-20:]} {value} {value[:20]}… {value[:20]}") == "*** *** ***… ***"
    assert secrets.hide_values(value[:11]) == value[:11], "so little is anybody's"
    assert Secrets(["short-password"]).hide_values("short-pass") == "short-pass"
