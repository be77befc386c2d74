// One stream of events for the whole tab. The browser resumes it where it was cut; after `reset` everything comes anew.
import { effect, signal } from "@preact/signals";
import { base } from "./router.js";
import { heardEvent, unheard, visible } from "./live.js";
import { seesAll, session } from "./session.js";

const AGAIN = 3000;

// The newest sample of all phases and instances, and a number that grows when something happens to the watched job.
export const sample = signal(null);
export const changed = signal(0);
const watched = signal("");

export function watchJob(id) {
  watched.value = id ? `job:${id}` : "";
}

let source = null;
let topics = "";

function open() {
  source?.close();
  source = null;
  if (!topics) return;
  const made = new EventSource(`${base}/v1/events?${new URLSearchParams({ topics })}`);
  source = made;
  const on = (name, act) =>
    made.addEventListener(name, (event) => {
      heardEvent();
      act(JSON.parse(event.data));
    });
  made.addEventListener("error", () => {
    if (source !== made) return;
    sample.value = null;
    unheard();
    // A stream that was refused is not tried again by the browser.
    if (made.readyState === EventSource.CLOSED) setTimeout(() => source === made && open(), AGAIN);
  });
  on("overview", (data) => (sample.value = data));
  on("job", () => (changed.value += 1));
  on("reset", () => (changed.value += 1));
}

export function startStream() {
  effect(() => {
    const alive = visible.value && session.value;
    const wanted = alive ? [seesAll.value ? "overview" : "", watched.value].filter(Boolean).join(",") : "";
    if (wanted === topics) return;
    topics = wanted;
    if (!wanted) sample.value = null;
    open();
  });
}
