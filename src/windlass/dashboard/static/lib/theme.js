// Light or dark: as the system, unless a person chose.
import { signal } from "@preact/signals";

const wished = matchMedia("(prefers-color-scheme: dark)");
const actual = () => document.documentElement.dataset.theme ?? (wished.matches ? "dark" : "light");
export const theme = signal(actual());

export function switchTheme() {
  const next = actual() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("windlass.theme", next);
  } catch {
    // storage is off: the choice holds until the page is left
  }
  theme.value = next;
}

wished.addEventListener("change", () => (theme.value = actual()));
