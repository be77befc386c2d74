"""What to write instead of a part of a filter that is wrong."""

from __future__ import annotations

from windlass.control.filters.keys import KEYS, Key
from windlass.errors import did_you_mean
from windlass.model import State
from windlass.store.ids import is_id

_OTHER_NAMES = {
    "status": "state",
    "type": "kind",
    "task": "kind",
    "name": "kind",
    "handler": "kind",
    "queue": "phase",
    "lane": "priority",
    "user": "principal",
    "owner": "principal",
    "subject": "principal",
    "org": "tenant",
    "worker": "instance",
    "host": "instance",
    "job": "id",
    "uuid": "id",
    "code": "error",
    "trace": "correlation",
    "unique": "key",
    "idempotency": "key",
    "since": "created",
    "before": "created",
    "ended": "finished",
    "completed": "finished",
    "tries": "attempt",
    "retries": "attempt",
    "argument": "args",
    "arg": "args",
    "params": "args",
    "group": "batch",
}
_SIGNS = {
    "!": "Write - for not: -state:failed.",
    "(": "Brackets do not exist: terms all have to hold, and a comma joins values of one key.",
    ")": "Brackets do not exist: terms all have to hold, and a comma joins values of one key.",
    "|": "Write a comma for or: state:failed,cancelled.",
    "&": "Write a space for and: state:failed kind:report.",
    ",": "Write a comma only between values: state:failed,cancelled.",
    ";": "Write a space between terms: state:failed kind:report.",
    ":": "Write a key before the colon: state:failed.",
    '"': 'Write a key before the text: kind:"…".',
    "'": 'Write a key before the text, and double quotes: kind:"…".',
    "*": "Write a key before the *: kind:report*.",
    "=": "Write a key and a colon: state:failed.",
    "<": "Write a key and a colon before the comparison: age:<1h.",
    ">": "Write a key and a colon before the comparison: age:>1h.",
    ".": "Write args before the path: args.county:Harju.",
    "\\": "Remove the backslash.",
}


def for_key(name: str, has_path: bool) -> str:
    """The key that was probably meant."""
    if name.lower() in ("and", "or", "not"):
        return for_word(name, "")
    if name.isdecimal():
        return "Write a time of day behind a T, without a space: 2026-01-31T12:00."
    plain = name.lower().removesuffix("_id").removesuffix("_at")
    near = plain if plain in KEYS else _OTHER_NAMES.get(plain)
    if has_path and near != "args":
        return f"Write args.{name} for an argument of that name."
    if near:
        return f"Did you mean {near}?"
    found = did_you_mean(plain, KEYS, 0.55).removeprefix("; ").capitalize()
    return found or "Write one of these keys, such as state:failed."


def for_op(op: str, name: str, key: Key) -> str:
    """The comparison that was probably meant."""
    if op in ("=>", "=<"):
        return f"Write {op[::-1]}." if key.comparable else f"Write {name}:VALUE."
    if "!" in op or op == "<>":
        return f"Write -{name}:VALUE for not."
    if key.is_listed and (op.startswith("=") or not key.comparable):
        return f"Write the value alone: {name}:VALUE."
    return f"Write one of <, <=, > and >=, such as {key.example}."


def for_sign(sign: str) -> str:
    """The term that was probably meant by a sign at its beginning."""
    return _SIGNS.get(sign, "Begin a term with a key, such as state:failed.")


def for_word(word: str, op: str) -> str:
    """The term that was probably meant by a word without a colon."""
    match word.lower():
        case "and":
            return "Remove it: terms all have to hold."
        case "or":
            return "Write a comma between values of one key: state:failed,cancelled."
        case "not":
            return "Write a minus sign before the key: -state:failed."
    head = word.partition(".")[0]
    if op:
        right = "" if op in ("=", "==") else op
        return (
            f"Write -{word}:VALUE."
            if "!" in op or op == "<>"
            else f"Write a colon behind the key: {word}:{right}VALUE."
        )
    if word == "args":
        return "Write the name of the argument: args.county:Harju."
    if head in KEYS:
        return f"Write a colon and a value: {KEYS[word].example if word in KEYS and word != 'args' else f'{word}:VALUE'}."
    if word.lower() in tuple(State):
        return f"Write the key before the value: state:{word.lower()}."
    if is_id(word):
        return f"Write the key before the value: id:{word}."
    return f"Write the key before the value, such as kind:{word[:60]}."
