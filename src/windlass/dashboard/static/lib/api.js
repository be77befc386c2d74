// Talks to the REST API, and to nothing else. A refusal is a Problem with what happened and what to do.
import { base } from "./router.js";
import { heard, unheard } from "./live.js";

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `status ${status}`);
    Object.assign(this, { status, code: body.code ?? "", title: body.title ?? "", errors: body.errors ?? [], state: body.state, request: body.request_id });
  }
  get text() {
    const parts = this.errors.map((one) => (this.message.includes(one.detail) ? "" : `${one.pointer}: ${one.detail}`)).filter(Boolean);
    return [this.message, ...parts].join("; ");
  }
}

export const whenSignedOut = { call: () => {} };

// When this tab last changed something: no read from before it is good enough any more.
let acted = 0;

// `age`: seconds that the data may be old. The server then gives many open tabs one read; without it the read is the caller's own.
export async function request(method, path, { body, headers = {}, signal, quiet = false, age = 0 } = {}) {
  const options = { method, headers: { Accept: "application/json", ...headers }, credentials: "same-origin", signal };
  const accepted = Math.min(age, Math.floor((performance.now() - acted) / 1000));
  if (accepted > 0) options.headers["Cache-Control"] = `max-age=${accepted}`;
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] ??= "application/json";
  }
  let response;
  try {
    response = await fetch(`${base}${path}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    unheard();
    throw new Problem(0, { title: "No connection", detail: "the server does not respond; the page tries again by itself", code: "no-connection" });
  }
  if (method !== "GET") acted = performance.now();
  heard(response);
  if (response.status === 204) return null;
  const text = await response.text();
  let found = null;
  try {
    found = text ? parse(text) : null;
  } catch {
    found = { detail: `the server sent something else than JSON (status ${response.status})` };
  }
  if (response.ok) return found;
  if (response.status === 401 && !quiet) whenSignedOut.call();
  if (response.status >= 502 && response.status <= 504) unheard();
  throw new Problem(response.status, found ?? {});
}

// Numbers that a browser cannot hold exactly stay texts: an argument 12345678901234567890 is shown as it is.
function parse(text) {
  return JSON.parse(text, function (key, value, context) {
    if (typeof value === "number" && context?.source && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source)) return context.source;
    return value;
  });
}

export const get = (path, options) => request("GET", path, options);
export const post = (path, body = {}, options = {}) => request("POST", path, { ...options, body });

export function pathOf(template, params = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== null && value !== undefined && value !== "") search.set(name, value);
  const text = search.toString();
  return text ? `${template}?${text}` : template;
}
