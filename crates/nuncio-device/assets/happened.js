// Something new happened: the page says so, and does not jump. A day begins where the reader is.

import { byId } from "./dom.js";

document.addEventListener("news", (event) => {
  // The page was written a moment before it first listens.
  if (event.detail.kind === "happened" && !event.detail.first) byId("fresh").hidden = false;
});

const form = byId("filter");

form.addEventListener("submit", () => {
  const { day, offset } = form.elements;
  offset.value = day.value ? String(-new Date(`${day.value}T00:00`).getTimezoneOffset()) : "";
});
