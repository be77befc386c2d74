// The frame of every screen: the bar with its pages, what is alive, and banners.
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";
import { link, path } from "../lib/router.js";
import { age, heardAt, stale, visible } from "../lib/live.js";
import { many, number, time } from "../lib/format.js";
import { seesAll, session, signOut } from "../lib/session.js";
import { switchTheme } from "../lib/theme.js";
import { overview, readOverview } from "../lib/facts.js";
import { openHelp, openPalette } from "./palette.js";
import { failing } from "../lib/failing.js";

const PAGES = [["Overview", "/"], ["Pipelines", "/pipelines"], ["Jobs", "/jobs"], ["Failures", "/failures"], ["Schedules", "/schedules"], ["Processors", "/processors"], ["Operations", "/operations"], ["System", "/system"]];

// The screens of a caller who sees a part of all jobs.
const OWN = new Set(["/", "/jobs", "/failures", "/operations"]);

export function Shell({ children }) {
  const here = `/${path.value.split("/")[1] ?? ""}`;
  const who = session.value;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <header class="bar">
      <a class="brand" href=${link("/")}><svg viewBox="0 0 18 18" aria-hidden="true"><circle cx="9" cy="9" r="4.4" /><path d="M9 .9v3.7M9 13.4v3.7M.9 9h3.7M13.4 9h3.7" /><circle cx="9" cy="9" r=".6" /></svg>windlass</a>
      ${who?.environment && html`<span class="env cut hide-s" dir="auto" title=${`database ${who.environment}`}>${who.environment}</span>`}
      <nav class="nav" aria-label="Pages">${PAGES.filter(([, to]) => seesAll.value || OWN.has(to)).map(([name, to]) => html`<a key=${to} href=${link(to)} aria-current=${here === to || (to === "/operations" && here === "/audit") ? "page" : null}>${name}${to === "/failures" && failing.value > 0 && html`<span class="flag" title=${`${failing.value} groups of failures in the last hour`}>${number(failing.value)}</span>`}</a>`)}</nav>
      <span class="fill"></span>
      <button type="button" class="btn plain hide-s" title="Find a page, a job or an action" onClick=${openPalette}><${Icon} name="find" /><span class="hide-l">Find</span> <kbd>⌘K</kbd></button>
      <${Live} />
      <button type="button" class="btn plain square" title="Light or dark" aria-label="Light or dark" onClick=${switchTheme}><${Icon} name="theme" /></button>
      ${who && (who.how === "session" ? html`<button type="button" class="btn plain hide-s" title=${`${who.subject}: ${who.roles.join(", ")}. Sign out`} onClick=${signOut}><span class="cut" dir="auto">${who.subject}</span></button>` : html`<span class="quiet hide-s cut" dir="auto" title=${who.roles.join(", ")}>${who.subject}</span>`)}
    </header>
    ${stale.value && html`<div class="banner" data-s="warn" role="alert"><${Icon} name="warn" /><span><b>No answer from the server for ${age.value} s.</b> You see the state of ${time(new Date(heardAt.value), true)}; the page tries again and goes on by itself.</span><button type="button" class="btn small" onClick=${() => readOverview()}>Try now</button></div>`}
    <main class="page" id="main" tabindex="-1">${children}
      <footer class="foot"><span class="hide-s"><kbd>g</kbd> then <kbd>o</kbd> <kbd>p</kbd> <kbd>j</kbd> <kbd>f</kbd> go to a page</span><span class="hide-s"><kbd>/</kbd> filter</span><span class="hide-s"><kbd>⌘K</kbd> find</span><button type="button" class="linklike hide-s" onClick=${openHelp}><kbd>?</kbd> all keys</button><span class="fill"></span>
        <span>${["Windlass", who?.version, who?.store].filter(Boolean).join(" · ")}${overview.value ? ` · ${many(overview.value.instances.filter((one) => one.state === "running").length, "instance")} running` : ""}</span></footer></main>`;
}

function Live() {
  const text = !visible.value ? "paused" : stale.value ? `${age.value} s old` : "live";
  return html`<span class="live ${stale.value ? "stale" : ""}" title=${`Data of ${time(new Date(heardAt.value), true)}. Updates stop while the tab is hidden.`}><i></i>${text}${!stale.value && html` <small>${Math.max(1, age.value)} s</small>`}</span>`;
}
