"""Puts a secret into a text, quoted as programs quote it, and finds what is left of it."""

from __future__ import annotations

import json


def quoted(value: str, how: str) -> str:
    """The value, or an object or a pair with the value, in this notation."""
    match how:
        case "raw":
            return value
        case "repr":
            return repr(value)
        case "json":
            return json.dumps(value)
        case "json in json":
            return json.dumps(json.dumps({"user": "bob", "password": value, "x": 1}))
        case "json in json in json":
            return json.dumps(json.dumps({"body": json.dumps({"password": value, "x": [1]})}))
        case "json in repr":
            return repr(json.dumps({"user": "bob", "password": value, "x": 1}))
        case "repr in json":
            return json.dumps(repr({"user": "bob", "password": value, "x": 1}))
        case "labels in json":
            return json.dumps(
                json.dumps([{"name": "user", "value": "bob"}, {"name": "password", "value": value}])
            )
        case "labels in repr":
            return repr(json.dumps([{"value": value, "name": "password"}, {"value": 1, "name": "x"}]))
        case "pairs in json":
            return json.dumps(json.dumps([["user", "bob"], ["password", value]]))
    raise ValueError(how)


def survivors(secret: str, template: str, hidden: str) -> list[str]:
    """Runs of four characters of the secret that are in the hidden text, without those that the template itself has."""
    runs = {secret[place : place + 4] for place in range(len(secret) - 3)}
    return sorted(run for run in runs if run in hidden and run not in template)
