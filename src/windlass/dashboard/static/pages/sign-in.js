// Sign in with an API token. The server keeps a session in a cookie that scripts cannot read; the token is not kept here.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { signIn } from "../lib/session.js";
import { Command } from "../components/marks.js";

export function SignIn() {
  const input = useRef(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Windlass";
    input.current.focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      await signIn(input.current.value.trim());
    } catch (error) {
      setProblem(error.status === 401 ? "This token is not known, has expired, or was revoked." : error.message);
    } finally {
      setBusy(false);
    }
  };
  return html`<main class="signin" id="main"><section class="panel">
    <h1><svg viewBox="0 0 18 18" aria-hidden="true"><circle cx="9" cy="9" r="4.4" /><path d="M9 .9v3.7M9 13.4v3.7M.9 9h3.7M13.4 9h3.7" /><circle cx="9" cy="9" r=".6" /></svg>windlass</h1>
    <form onSubmit=${submit}>
      <label class="field"><span>API token</span><input ref=${input} type="password" autocomplete="current-password" required spellcheck=${false} /></label>
      ${problem && html`<p class="banner in" data-s="failed" role="alert"><span>${problem}</span></p>`}
      <button type="submit" class="btn primary" disabled=${busy}>${busy ? "Working…" : "Sign in"}</button></form>
    <p class="quiet">An administrator makes a token; its roles say what you may do:</p><${Command} text="windlass token create anna --role operate" />
  </section></main>`;
}
