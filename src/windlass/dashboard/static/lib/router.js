// The address is the whole state of a screen: path, filter, page, tab, range. Links are plain links; this file keeps them in the page.
import { signal, computed } from "@preact/signals";

export const base = new URL(document.baseURI).pathname.replace(/\/$/, "");
const read = () => ({ path: decode(location.pathname.slice(base.length)) || "/", search: location.search });
const current = signal(read());

function decode(path) {
  return path.replace(/\/+$/, "");
}

export const path = computed(() => current.value.path);
export const query = computed(() => new URLSearchParams(current.value.search));
export const parts = computed(() => path.value.split("/").filter(Boolean).map(safely));

function safely(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// The address of a screen: link("/jobs", {q: "state:failed"}).
export function link(to, wanted = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(wanted)) if (value !== null && value !== undefined && value !== "") search.set(name, value);
  const text = search.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%2F", "/");
  return `${base}${to}${text ? `?${text}` : ""}`;
}

export const jobsLink = (...terms) => link("/jobs", { q: terms.filter(Boolean).join(" ") });
export const jobLink = (id) => link(`/jobs/${encodeURIComponent(id)}`);

// A value as a term of a filter: quoted where it is no plain word.
export function term(key, value) {
  const text = String(value);
  return /^[\w.@/+-]+$/.test(text) ? `${key}:${text}` : `${key}:"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

export function go(address, { replace = false, keepScroll = false } = {}) {
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  const before = current.value.path;
  current.value = read();
  if (!keepScroll && before !== current.value.path) scrollTo(0, 0);
}

// The same screen with other parameters.
export function adjust(changes, options = { replace: false, keepScroll: true }) {
  const wanted = Object.fromEntries(query.peek());
  go(link(path.peek() === "/" ? "/" : location.pathname.slice(base.length), { ...wanted, ...changes }), options);
}

export function adjusted(changes) {
  const wanted = Object.fromEntries(query.value);
  return link(current.value.path === "/" ? "/" : current.value.path, { ...wanted, ...changes });
}

export function startRouter() {
  addEventListener("popstate", () => (current.value = read()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const anchor = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!anchor || anchor.target || anchor.hasAttribute("download") || anchor.origin !== location.origin) return;
    const below = anchor.pathname === base || anchor.pathname.startsWith(`${base}/`);
    const first = anchor.pathname.slice(base.length).split("/")[1] ?? "";
    if (!below || !SCREENS.has(first)) return;
    event.preventDefault();
    go(anchor.pathname + anchor.search);
  });
}

const SCREENS = new Set(["", "pipelines", "jobs", "failures", "schedules", "processors", "operations", "audit", "system", "sign-in"]);
