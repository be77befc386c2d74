// What is alive: the clock of the server, whether the tab is seen, the age of the data, and at most four renders a second.
import { signal, computed } from "@preact/signals";
import { options } from "preact";

const SLOT = 250;
const AFTER_INPUT = 1500;
const STALE = 5;

const offset = signal(0);
const tick = signal(Date.now());
export const visible = signal(!document.hidden);
export const heardAt = signal(Date.now());
export const lost = signal(false);
// The time of the server, in milliseconds; it moves once a second and stands still in a hidden tab.
export const now = computed(() => tick.value + offset.value);
export const age = computed(() => Math.max(0, Math.round((tick.value - heardAt.value) / 1000)));
export const stale = computed(() => lost.value && age.value >= STALE);

export function heard(response) {
  const date = Date.parse(response.headers.get("Date") ?? "");
  const mine = Date.now();
  if (date && Math.abs(date - mine - offset.peek()) > 1500) offset.value = date - mine;
  heardAt.value = mine;
  lost.value = false;
}

export function heardEvent() {
  heardAt.value = Date.now();
  lost.value = false;
}

export function unheard() {
  lost.value = true;
}

export function startClock() {
  setInterval(() => {
    if (!document.hidden) tick.value = Date.now();
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    visible.value = !document.hidden;
    if (!document.hidden) tick.value = Date.now();
  });
}

// Data that arrives by itself is drawn at most four times a second; what a person does is drawn at once.
let input = 0;
let last = 0;
export const renders = { count: 0 };

export function throttleRenders() {
  for (const name of ["pointerdown", "keydown", "input", "popstate", "click"]) addEventListener(name, () => (input = performance.now()), true);
  input = performance.now();
  options.debounceRendering = (flush) => {
    const at = performance.now();
    const run = () => {
      last = performance.now();
      renders.count += 1;
      flush();
    };
    if (at - input < AFTER_INPUT) queueMicrotask(run);
    else setTimeout(run, Math.max(0, last + SLOT - at));
  };
}
