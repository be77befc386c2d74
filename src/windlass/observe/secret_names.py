"""Which names are names of secrets, by whole words: ``api_token``, ``accessToken`` and ``secret-key``, but neither ``secretary`` nor
``token_count``.

A name is split into words at capitals and at everything that is no letter (underscores, hyphens, dots, digits). Five rules decide:

1. A name is the name of a secret if one of its words is (``password``, ``token``, ``cookie``, ``dsn``), or two words together (``api key``,
   ``session id``, ``connection string``). Words that are written as one (``dbpassword``, ``authtoken``) are known by their ends.
2. ``pass``, ``pin`` and ``sig`` are common words. They name a secret at the end of a name (``db_pass``, ``card_pin``), not before other
   words (``pass_through``). ``pass``, ``pin``, ``sig`` and ``signature`` are innocent behind some words: ``first_pass``, ``gpio_pin``, ``function_signature``.
3. A measure word behind the secret makes the name innocent, if only measure words and units follow: ``token_count``, ``token_expires_at``,
   ``password_changed_at``, ``signature_algorithm``, ``tokens_per_second``; ``token_type_value`` is a secret.
4. A measure word before the secret makes a plural innocent (``max_tokens``, ``total_cookies``, ``prompt_tokens``), and ``max``, ``min`` and
   ``per`` also a singular (``max_token``, ``cost_per_token``).
5. A word that asks, directly before the secret, makes the name innocent: ``has_token``, ``is_secret``, ``needs_password``.

A name with two secrets, such as ``token_count_token``, is innocent only if both are.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 200
"""Characters of a name that count: the last ones."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Runs of capitals are one word (JWTToken: jwt, token), and so are runs of small letters with one capital before them.
_WORD = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]+")

_WHOLE = _words(
    """auth bearer connectionstring connstr cookie cookies cred creds csrf cvc cvv dsn dsns hmac jwt jwts otp otps passcode passcodes passkey
    passkeys pw pwd pwds secret secrets sessionid sessionids sid sids signature signatures token tokens totp xsrf"""
)
"""Words that name a secret."""

_LAST = _words("pass pin pins sig sigs")
"""Words that name a secret if nothing but words of ``_VALUES`` follows."""

_VALUES = _words("code codes decoded encoded encrypted hash hashed hex plain raw text value values")
"""Words that may follow the words of ``_LAST``."""

_PASSES = _words(
    """all backward boarding build can compiler did final first forward free last multi must next one optimizer partial per previous render
    season second should single tests third to two will"""
)
_PINS = _words("analog board chip clock data digital gpio input led map output")
_SIGNED = _words("argument call callback function handler method of operator type")
_OTHERWISE = (
    {"pass": _PASSES}
    | {"pin": _PINS, "pins": _PINS}
    | dict.fromkeys(("sig", "sigs", "signature", "signatures"), _SIGNED)
)
"""Words directly before a word that give it another meaning: ``first_pass``."""

_ANYWHERE = re.compile(r"passw(?:or)?d(?!less)|passphrase|authori[sz]ation|credential|apikey|privatekey")
"""Parts of words that no other word has: they name a secret wherever they are."""

_END = re.compile(
    r"(?:secret|token|(?:secret|access|signing|encryption|session)key)s?$"
    r"|(?:admin|db|ftp|ldap|login|mail|my|mysql|pg|proxy|redis|root|smtp|ssh|user)(?:pass|pw)$"
)
"""Ends of words that were written as one: clientsecret, authtoken, dbpass, dbpw."""

_KEYS = _words(
    """access account aes api consumer decryption deploy encryption fernet hmac license master pass principal private session shared signing
    ssh storage subscription webhook"""
)
_CODES = _words("access activation backup mfa pass recovery security verification")
_PAIRS = frozenset(
    {
        *((kind, key) for kind in _KEYS for key in ("key", "keys")),
        *((kind, code) for kind in _CODES for code in ("code", "codes")),
        *((kind, text) for kind in ("connection", "conn") for text in ("string", "strings", "str")),
        ("session", "id"),
        ("session", "ids"),
        ("pass", "phrase"),
        ("pass", "word"),
    }
)
"""Two words that name a secret together."""

SECONDS = frozenset(second for _, second in _PAIRS)
"""The second words of such pairs: in a text, the first word may stand before them (``api key: …``)."""

STEMS = (
    "pass", "pw", "secret", "token", "auth", "cookie", "cred", "csrf", "xsrf", "cvc", "cvv", "dsn", "hmac", "jwt", "otp", "sid", "bearer",
    "key", "sig", "pin", "session", "code", "string", "connstr", "conn_str", "conn-str",
)  # fmt: skip
"""Every name of a secret contains one of these, whatever its case. A text without them needs no search for names."""

_LONG = _words("cookie cookies dsn dsns connstr connectionstring")
_LONG_ENDS = ("authorization", "authorisation", "passphrase")

_COUNTING = _words("avg average count max maximum mean median min minimum n num remaining sum total")
"""Words before a plural that make it a number, at the beginning of the name or directly before the plural."""

_BOUNDS = _words("max maximum min minimum per")
"""Words directly before a secret that make also a singular a number."""

_ASKING = _words("are had has have is needs requires was were")
"""Words directly before a secret that make a yes or no of it: ``has_token``."""

_TEXT_TOKENS = _words("cached completion context generated input output prompt reasoning thinking used")
"""Words directly before ``tokens`` that make it a number of tokens of a text."""

_MEASURES = _words(
    """age alg algo algorithm algorithms attempts audience budget bytes changed cost count counts created date enabled errors expiration
    expired expires expiry failures format issued issuer kind last left length lengths lifetime limit limits max maximum method min minimum
    mode modified name names per policy price provider rate rates refreshed remaining renewed required retries revoked rotated rotation scope
    scopes size sizes status strength time timestamp total totals ttl type types updated usage used uses valid validity verified version"""
)
"""Words behind a secret that measure or describe it."""

_UNITS = _words(
    """ago at bits by characters chars date day days hour hours in ms month months ns on s second seconds minute minutes request time
    timestamp until us utc week weeks year years"""
)
"""Words that may follow a word that measures: ``token_expires_at``, ``token_rate_per_minute``."""


@lru_cache(maxsize=4096)
def names_secret(name: str) -> bool:
    """Whether a name, of at most ``LONGEST`` characters, is the name of a secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    return any(_is_shown_nowhere(words, place) for place in range(len(words)))


@lru_cache(maxsize=1024)
def may_have_spaces(name: str) -> bool:
    """Whether unquoted values of this name, which is the name of a secret, go on behind a space: headers, connection strings, phrases."""
    words = [word.lower() for word in _WORD.findall(name)]
    return any(
        word in _LONG
        or word.rstrip("s").endswith(_LONG_ENDS)
        or (before in ("connection", "conn") and (before, word) in _PAIRS)
        or (before, word) == ("pass", "phrase")
        for before, word in zip(["", *words], words, strict=False)
    )


def _is_shown_nowhere(words: list[str], place: int) -> bool:
    """Whether the word at this place, perhaps together with the word before it, names a secret that no other word makes innocent."""
    start = _start(words, place)
    if start is None:
        return False
    word, before, behind = words[place], words[start - 1] if start else "", words[place + 1 :]
    if before in _BOUNDS or before in _ASKING or _is_measured(behind):
        return False
    is_counted = before in _COUNTING or (start > 0 and (words[0] in _COUNTING or words[0] == "number"))
    return not (word.endswith("s") and is_counted) and not (word == "tokens" and before in _TEXT_TOKENS)


def _start(words: list[str], place: int) -> int | None:
    """Where the secret begins that ends with the word at this place; None if the word ends no secret."""
    word, before = words[place], words[place - 1] if place else ""
    if (before, word) in _PAIRS:
        return place - 1
    if word in _LAST:
        return (
            None
            if before in _OTHERWISE.get(word, ()) or not _VALUES.issuperset(words[place + 1 :])
            else place
        )
    if word in _WHOLE:
        return None if before in _OTHERWISE.get(word, ()) else place
    return place if _END.search(word) or _ANYWHERE.search(word) else None


def _is_measured(behind: list[str]) -> bool:
    """Whether the words behind a secret only measure or describe it."""
    if not behind or behind[0] not in _MEASURES:
        return False
    return (behind[0] == "per" and len(behind) == 2) or all(
        word in _MEASURES or word in _UNITS for word in behind
    )
