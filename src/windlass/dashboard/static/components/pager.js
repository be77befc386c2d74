// The foot of a keyset list: newer and older, never page numbers. The address remembers where the page begins, the history where it came from.
import { html } from "../lib/html.js";
import { adjust, query } from "../lib/router.js";

export function Pager({ next, note, children }) {
  const cursor = query.value.get("cursor");
  const older = () => adjust({ cursor: next }, { keepScroll: false });
  const newest = () => adjust({ cursor: null });
  const newer = () => (history.length > 1 && cursor ? history.back() : newest());
  return html`<div class="pager"><span>${note}</span>${children}<span class="fill"></span>
    ${cursor && html`<button type="button" class="btn small plain" onClick=${newest}>Newest</button>`}
    <button type="button" class="btn small" disabled=${!cursor} onClick=${newer}>Newer</button>
    <button type="button" class="btn small" disabled=${!next} onClick=${older}>Older</button>
  </div>`;
}
