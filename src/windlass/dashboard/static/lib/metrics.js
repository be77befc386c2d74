// The metrics of the service, read from the text that Prometheus gets.
import { useEffect, useState } from "preact/hooks";
import { base } from "./router.js";
import { visible } from "./live.js";

const EVERY = 10000;
const LINE = /^([a-zA-Z_:][\w:]*)(\{.*\})? ([^ ]+)/;

export function parse(text) {
  const families = new Map();
  const family = (name) => {
    if (!families.has(name)) families.set(name, { name, help: "", kind: "", samples: [] });
    return families.get(name);
  };
  for (const line of text.split("\n")) {
    const [, about, name, rest] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (about) family(name)[about === "HELP" ? "help" : "kind"] = rest;
    else if (line && !line.startsWith("#")) {
      const found = LINE.exec(line);
      if (!found) continue;
      const plain = found[1].replace(/_(bucket|sum|count|created)$/, "");
      family(families.has(found[1]) ? found[1] : families.has(plain) ? plain : found[1]).samples.push({ labels: `${found[1].slice(plain.length)}${found[2] ?? ""}`, value: Number(found[3]) });
    }
  }
  return [...families.values()].map((one) => ({ ...one, sum: one.kind === "histogram" || one.kind === "summary" ? null : one.samples.reduce((total, item) => total + item.value, 0) }));
}

export function useMetrics() {
  const [state, set] = useState({ data: null, problem: null });
  useEffect(() => {
    let ended = false;
    const read = async () => {
      if (document.hidden) return;
      try {
        const response = await fetch(`${base}/metrics`, { credentials: "same-origin" });
        if (!response.ok) throw new Error(`status ${response.status}`);
        const data = parse(await response.text());
        if (!ended) set({ data, problem: null });
      } catch (error) {
        if (!ended) set((old) => ({ data: old.data, problem: { title: "The metrics cannot be read", message: error.message, status: 0 } }));
      }
    };
    read();
    const timer = setInterval(read, EVERY);
    const woken = visible.subscribe((seen) => seen && read());
    return () => {
      ended = true;
      clearInterval(timer);
      woken();
    };
  }, []);
  return state;
}
