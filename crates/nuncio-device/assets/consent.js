// What is asked changes under the reader: the page says so, and does not change by itself.

import { byId } from "./dom.js";

const form = byId("consent");
const { agent } = form.dataset;

document.addEventListener("news", (event) => {
  if (event.detail.kind !== "agent" || event.detail.agent !== agent) return;
  // A page that nobody has touched shows what is new at once.
  if (!form.dataset.touched && document.activeElement === document.body) location.reload();
});
form.addEventListener("input", () => {
  form.dataset.touched = "yes";
});
