// A changed request is announced; the page does not change by itself while it is read.

import { byId } from "./dom.js";

const form = byId("consent");
const { agent } = form.dataset;

document.addEventListener("news", (event) => {
  if (event.detail.kind !== "agent" || event.detail.agent !== agent) return;
  // A page without input is reloaded at once.
  if (!form.dataset.touched && document.activeElement === document.body) location.reload();
});
form.addEventListener("input", () => {
  form.dataset.touched = "yes";
});

/** Says what saving means while no permission is selected. */
function warnIfNothing() {
  const switches = [...form.querySelectorAll("input[name=scope]")];
  byId("none-selected").hidden = switches.length === 0 || switches.some((one) => one.checked);
}
form.addEventListener("change", warnIfNothing);
warnIfNothing();
