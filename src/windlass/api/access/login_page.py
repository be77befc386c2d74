"""The page that signs a browser in, and its script. The script is a file of its own: the policy of the page allows no other."""

from __future__ import annotations

from html import escape
from typing import Final

POLICY: Final = "default-src 'none'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in to Windlass</title>
<main>
<h1>Sign in to Windlass</h1>
<p id="message" role="status">{message}</p>
<form method="post" action="login" autocomplete="off">
<p><label>Code of the one-time link, or API token<br>
<input name="secret" type="password" size="60" required autofocus></label></p>
<p><button type="submit">Sign in</button></p>
</form>
<p>The server prints a one-time link when it starts on this machine. An API token is made by: windlass token create NAME --role view</p>
</main>
<script src="login.js"></script>
</html>
"""

SCRIPT: Final = """"use strict";
(async () => {
  const code = location.hash.slice(1);
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  const message = document.getElementById("message");
  message.textContent = "Signing in ...";
  try {
    const response = await fetch("v1/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
    });
    if (response.ok) { location.replace("./"); return; }
    message.textContent = (await response.json()).detail;
  } catch {
    message.textContent = "The server does not answer.";
  }
})();
"""


def page(message: str = "") -> str:
    """The page; without a code behind ``#`` it is a form."""
    return _PAGE.format(message=escape(message))
