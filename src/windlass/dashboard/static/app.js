// Starts the dashboard: session, stream, keys, and the screen that the address says.
import { render } from "preact";
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { html } from "./lib/html.js";
import { parts, query, startRouter } from "./lib/router.js";
import { renders, startClock, throttleRenders } from "./lib/live.js";
import { readSession, session, signedOut } from "./lib/session.js";
import { startStream } from "./lib/stream.js";
import { startFacts } from "./lib/facts.js";
import { startDepths } from "./lib/history.js";
import { startFailing } from "./lib/failing.js";
import { startKeys } from "./lib/keys.js";
import { switchTheme } from "./lib/theme.js";
import { Shell } from "./components/shell.js";
import { Dialog } from "./components/dialog.js";
import { Toasts } from "./components/toast.js";
import { Palette, openHelp, openPalette } from "./components/palette.js";
import { Empty } from "./components/empty.js";

// The module of each screen is loaded when the screen is first opened; the server has the first one sent with the page.
const SCREENS = {
  "": () => import("./pages/overview.js").then((found) => found.Overview),
  pipelines: () => import("./pages/pipelines.js").then((found) => found.Pipelines),
  "pipelines/": () => import("./pages/pipeline.js").then((found) => found.Pipeline),
  jobs: () => import("./pages/jobs.js").then((found) => found.Jobs),
  "jobs/": () => import("./pages/job.js").then((found) => found.Job),
  failures: () => import("./pages/failures.js").then((found) => found.Failures),
  schedules: () => import("./pages/schedules.js").then((found) => found.Schedules),
  processors: () => import("./pages/processors.js").then((found) => found.Processors),
  operations: () => import("./pages/operations.js").then((found) => found.Operations),
  audit: () => import("./pages/audit.js").then((found) => found.Audit),
  system: () => import("./pages/system.js").then((found) => found.System),
  "sign-in": () => import("./pages/sign-in.js").then((found) => found.SignIn),
};
const AGAIN = 2000;
const loaded = signal({});

// While the server is away the screen is asked for again; the one before stays.
function load(name) {
  SCREENS[name]().then(
    (found) => (loaded.value = { ...loaded.value, [name]: found }),
    () => setTimeout(() => load(name), AGAIN),
  );
}

function useScreen(name) {
  const shown = loaded.value[name];
  useEffect(() => {
    if (!shown && SCREENS[name]) load(name);
  }, [name]);
  return shown;
}

function Screen() {
  const [first = "", second] = parts.value;
  const name = second && (first === "jobs" || first === "pipelines") ? `${first}/` : first;
  const Shown = useScreen(name);
  useEffect(() => {
    if (first === "jobs" && second) return;
    document.title = `${first ? first[0].toUpperCase() + first.slice(1) : "Overview"} · Windlass`;
  }, [first, second]);
  if (!SCREENS[name] || name === "sign-in") return html`<section class="panel below"><${Empty} title="There is no such page" /></section>`;
  if (!Shown) return html`<div class="skeleton" aria-busy="true" aria-label="Loading"><i></i><i></i><i></i></div>`;
  return html`<${Shown} key=${second ?? first} id=${second} name=${second} range=${query.value.get("range") ?? "1h"} />`;
}

function Entry() {
  const Shown = useScreen("sign-in");
  return Shown ? html`<${Shown} /><${Toasts} />` : null;
}

function App() {
  if (signedOut.value) return html`<${Entry} />`;
  if (!session.value) return null;
  return html`<${Shell}><${Screen} /><//><${Dialog} /><${Palette} /><${Toasts} />`;
}

async function enter() {
  try {
    await readSession();
  } catch {
    setTimeout(enter, 2000);
  }
}

throttleRenders();
startRouter();
startClock();
startKeys({ palette: openPalette, help: openHelp, theme: switchTheme });
startStream();
startFacts();
startFailing();
startDepths();
render(html`<${App} />`, document.getElementById("app"));
enter();
// For measurements: how often the page was drawn.
globalThis.windlass = { renders };
