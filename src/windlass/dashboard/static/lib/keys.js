// The keyboard: one table for the whole dashboard and one for the screen that is shown.
import { go, link } from "./router.js";

const GO = { o: "/", p: "/pipelines", j: "/jobs", f: "/failures", s: "/schedules", r: "/processors", a: "/operations", y: "/system" };
export const GENERAL = [
  ["g o", "Overview"],
  ["g p", "Pipelines"],
  ["g j", "Jobs"],
  ["g f", "Failures"],
  ["g s", "Schedules"],
  ["g r", "Processors"],
  ["g a", "Operations"],
  ["g y", "System"],
  ["/", "Filter"],
  ["⌘K", "Find a page, a job or an action"],
  ["t", "Light or dark"],
  ["?", "All keys"],
  ["Esc", "Close"],
];

let screen = {};
export const screenKeys = { list: [] };

// The keys of a screen: {key: [text, act]}; returns what removes them. Called in a layout effect, so that keys act on what is shown.
export function useKeysOf(table) {
  screen = table;
  screenKeys.list = Object.entries(table).map(([key, [text]]) => [key, text]);
  return () => {
    if (screen === table) [screen, screenKeys.list] = [{}, []];
  };
}

const isTyping = (target) => target instanceof Element && (target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null || target.closest("dialog") !== null);

export function startKeys({ palette, help, theme }) {
  let pending = 0;
  addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      palette();
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
    const key = event.key;
    if (pending && Date.now() - pending < 1500) {
      pending = 0;
      if (GO[key]) {
        event.preventDefault();
        go(link(GO[key]));
      }
      return;
    }
    if (screen[key]) {
      event.preventDefault();
      screen[key][1](event);
    } else if (key === "g") pending = Date.now();
    else if (key === "/") {
      const filter = document.querySelector(".filter input");
      if (!filter) return;
      event.preventDefault();
      filter.focus();
    } else if (key === "?") help();
    else if (key === "t") theme();
  });
}
