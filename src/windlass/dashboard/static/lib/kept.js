// Small choices of a person that this browser keeps: saved views.
import { signal } from "@preact/signals";

export function kept(name, initial) {
  let first = initial;
  try {
    first = JSON.parse(localStorage.getItem(`windlass.${name}`)) ?? initial;
  } catch {
    // unreadable: as if nothing was kept
  }
  const value = signal(first);
  return {
    value,
    put(next) {
      value.value = next;
      try {
        localStorage.setItem(`windlass.${name}`, JSON.stringify(next));
      } catch {
        // storage is off: kept until the page is left
      }
    },
  };
}
