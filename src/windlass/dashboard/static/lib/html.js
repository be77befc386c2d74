// html`…` makes Preact elements. Text in it is text: nothing here or elsewhere sets HTML.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
