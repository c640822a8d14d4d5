// Announces new activity without moving the page, and shows days in the reader's time zone.

import { byId } from "./dom.js";

document.addEventListener("news", (event) => {
  // The page was rendered shortly before its event stream started.
  if (event.detail.kind === "happened" && !event.detail.first) byId("fresh").hidden = false;
});

const form = byId("filter");

form.addEventListener("submit", () => {
  const { day, offset } = form.elements;
  offset.value = day.value ? String(-new Date(`${day.value}T00:00`).getTimezoneOffset()) : "";
});
