// JSON with its parts coloured, and a traceback with the frames of libraries folded.
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";
import { copy } from "./marks.js";
import { adjusted, query } from "../lib/router.js";

const LONGEST = 60000;
const PART = /("(?:[^"\\]|\\.)*")(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\b(?:true|false|null)\b/g;

export function Json({ value, label = "JSON" }) {
  const whole = typeof value === "string" && value.length > LONGEST ? value : JSON.stringify(value, null, 2) ?? "null";
  const text = whole.length > LONGEST ? `${whole.slice(0, LONGEST)}\n… ${whole.length - LONGEST} more characters` : whole;
  return html`<pre class="code" tabindex="0" aria-label=${label}>${text.length < 20000 ? parts(text) : text}</pre>`;
}

function parts(text) {
  const found = [];
  let last = 0;
  for (const match of text.matchAll(PART)) {
    const [whole, string, colon] = match;
    if (match.index > last) found.push(text.slice(last, match.index));
    const kind = string ? (colon ? "k" : HIDDEN.test(string) ? "redact" : "s") : /^[tfn]/.test(whole) ? "b" : "n";
    found.push(html`<span class=${kind} dir="auto">${string ?? whole}</span>`);
    if (colon) found.push(colon);
    last = match.index + whole.length;
  }
  found.push(text.slice(last));
  return found;
}
const HIDDEN = /^"(?:\*{3,}|\[?hidden\]?|\[?redacted\]?)"$/i;

const FRAME = /^ {2}File "(.+)", line (\d+)(?:, in (.+))?$/;
const LIBRARY = /site-packages|dist-packages|[/\\]lib[/\\]python\d|[/\\]windlass[/\\](?!examples)|<frozen|<string>/;

// A traceback as its frames; text between frames (causes, the error itself) stays as it is.
export function framesOf(traceback) {
  const blocks = [];
  for (const line of traceback.replace(/\n+$/, "").split("\n")) {
    const match = FRAME.exec(line);
    if (match) blocks.push({ file: match[1], line: match[2], name: match[3] ?? "", code: [], own: !LIBRARY.test(match[1]) });
    else if (blocks.at(-1)?.file && /^ {4}/.test(line)) {
      if (!/^\s*[\^~]+\s*$/.test(line)) blocks.at(-1).code.push(line.slice(4));
    } else if (blocks.at(-1)?.text !== undefined) blocks.at(-1).text.push(line);
    else blocks.push({ text: [line] });
  }
  return blocks;
}

export function Traceback({ text }) {
  const all = query.value.get("frames") === "all";
  const blocks = framesOf(text);
  const own = blocks.some((block) => block.own);
  const lastOwn = blocks.findLastIndex((block) => block.file && (block.own || !own));
  const groups = [];
  for (const [i, block] of blocks.entries()) {
    if (block.file && !block.own && !all && own) {
      if (groups.at(-1)?.folded) groups.at(-1).folded.push(block);
      else groups.push({ folded: [block] });
    } else groups.push({ block, here: i === lastOwn });
  }
  return html`<div class="trace">
    ${groups.map((group, i) =>
      group.folded
        ? html`<details key=${i}><summary><${Icon} name="more" />${group.folded.length} ${group.folded.length === 1 ? "frame" : "frames"} in ${[...new Set(group.folded.map(packageOf))].slice(0, 3).join(", ")}</summary>
            ${group.folded.map((block, j) => html`<${Frame} key=${j} ...${block} />`)}</details>`
        : group.block.file
          ? html`<${Frame} key=${i} ...${group.block} here=${group.here} />`
          : html`<div class="frame" key=${i}><pre dir="auto">${group.block.text.join("\n")}</pre></div>`,
    )}
  </div>
  <div class="pager"><span class="seg" role="group" aria-label="Frames"><a href=${adjusted({ frames: null })} aria-current=${all ? null : "true"}>Own frames</a><a href=${adjusted({ frames: "all" })} aria-current=${all ? "true" : null}>All frames</a></span>
    <span class="fill"></span><button type="button" class="btn small plain" onClick=${() => copy(text)}><${Icon} name="copy" />Copy</button></div>`;
}

function Frame({ file, line, name, code, here }) {
  return html`<div class="frame ${here ? "here" : ""}"><p>${file.split(/[/\\]/).slice(-3).join("/")}:<b>${line}</b>${name && html` in <b>${name}</b>`}</p>${code.length > 0 && html`<pre>${code.join("\n")}</pre>`}</div>`;
}

function packageOf(block) {
  const found = /(?:site|dist)-packages[/\\]([^/\\]+)|python\d[\d.]*[/\\]([^/\\]+)|[/\\](windlass)[/\\]/.exec(block.file);
  return (found?.[1] ?? found?.[2] ?? found?.[3] ?? "libraries").replace(/\.py$/, "");
}
