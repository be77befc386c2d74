"""The tables: what is hidden is hidden in full, and what is shown is shown in full."""

from __future__ import annotations

import pytest

from tests.observe.embedding import quoted, survivors
from tests.observe.redaction_cases import BARE, INNOCENT_NAMES, QUOTED, SECRET_NAMES, SHOWN
from windlass.observe import secret_names
from windlass.observe.redaction import Secrets

CANARY = "c4n4ry.s3cret"
SPACED = "c4n4ry s3cret, w1th ] sp4ces"

hide = Secrets().hide


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert Secrets().is_secret(name)
    assert any(stem in name.lower() for stem in secret_names.STEMS), "the quick check must not miss it"
    if "." not in name:
        rest = "" if secret_names.may_have_spaces(name) else " b"
        assert hide(f"a {name}={CANARY} b") == f"a {name}=***{rest}"


@pytest.mark.parametrize("name", INNOCENT_NAMES)
def test_innocent_names(name: str) -> None:
    assert not Secrets().is_secret(name)
    for text in (f"a {name}={CANARY} b", f'{{"{name}": "{CANARY}"}}', f"('{name}', '{CANARY}')"):
        assert hide(text) == text


@pytest.mark.parametrize("template", BARE)
def test_values_without_quotes(template: str) -> None:
    text = hide(template.format(CANARY))
    assert survivors(CANARY, template, text) == []
    assert "***" in text


@pytest.mark.parametrize(("template", "how"), QUOTED)
@pytest.mark.parametrize(
    "secret", [CANARY, SPACED, 'c4n4ry\'s "s3cret"', "c4n4ry\\s3cret\\", "c4n4ry\ns3cret", '":00 c4n4ry",x']
)
def test_values_in_quotes(template: str, how: str, secret: str) -> None:
    if how == "raw":
        secret = secret.lstrip('"')  # else it would be an empty value
    text = hide(template.format(quoted(secret, how)))
    assert survivors(secret, template, text) == []
    assert "***" in text


@pytest.mark.parametrize("text", SHOWN)
def test_texts_that_stay(text: str) -> None:
    assert hide(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password => x user=bob", "password => *** user=bob"),
        ('{"password": "a b", "user": "bob"}', '{"password": "***", "user": "bob"}'),
        ('{"b": "{\\"token\\": \\"a\\", \\"user\\": \\"bob\\"}"}', '{"b": "{\\"token\\": \\"***\\", \\"user\\": \\"bob\\"}"}'),
        ("headers={'Authorization': ['Bearer abc', 'x'], 'Accept': 'y'}", "headers={'Authorization': [***], 'Accept': 'y'}"),
        ('[["api_key","x"],["user","bob"]]', '[["api_key","***"],["user","bob"]]'),
        ("https://h/?token=a&page=3&sig=b", "https://h/?token=***&page=3&sig=***"),
        ("amqp://bob:x@h:5672/v and https://tok@h/y", "amqp://bob:***@h:5672/v and https://***@h/y"),
        ("Authorization: Foo a b\nHost: h", "Authorization: ***\nHost: h"),
        ("Cookie: a=1; b=2\r\nHost: h", "Cookie: ***\r\nHost: h"),
        ("-H 'Authorization: Foo a' https://h", "-H 'Authorization: ***' https://h"),
        ("token=a, user=bob; pin=1, x", "token=***, user=bob; pin=***, x"),
        ("pytest --token abc --user bob", "pytest --token *** --user bob"),
        ("primary key: 5, api key: abc", "primary key: 5, api key: ***"),
    ],
)  # fmt: skip
def test_only_the_value_is_replaced(text: str, expected: str) -> None:
    assert hide(text) == expected


def test_own_names_also_behind_another_word() -> None:
    assert Secrets(names=["iban"]).hide("the iban: DE02 --iban=DE02") == "the iban: *** --iban=***"
