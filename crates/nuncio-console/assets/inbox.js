// Keeps the inbox up to date: shows times in the reader's time zone, and a notice when something changed.
// All pages work without this script.

import { localTimes, sendOnce } from "./forms.js";
import { switches } from "./switches.js";

/** Interval of asking the server for changes. */
const EVERY = 5000;

/** Typed times are in the reader's time zone, with its offset on that day. */
function zones() {
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const hidden of document.querySelectorAll("[data-zone-of]")) {
    const input = document.getElementById(hidden.dataset.zoneOf);
    const place = input.closest(".field").querySelector("[data-zone-name]");
    const settle = () => {
      const typed = input.type === "time" ? new Date() : new Date(input.value || Date.now());
      hidden.value = offset(Number.isNaN(typed.getTime()) ? new Date() : typed);
      place.textContent = name ?? `UTC${hidden.value}`;
    };
    input.addEventListener("input", settle);
    settle();
  }
}

function offset(date) {
  const minutes = -date.getTimezoneOffset();
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const size = Math.abs(minutes);
  return minutes === 0 ? "Z" : `${minutes < 0 ? "-" : "+"}${two(size / 60)}:${two(size % 60)}`;
}

/** Polls for changes while the page is visible. */
function watch(main) {
  const changed = document.querySelector("#changed > span");
  const look = async () => {
    if (document.hidden || !changed.hidden) return;
    let answer;
    try {
      answer = await fetch(main.dataset.watch, { headers: { accept: "application/json" } });
    } catch {
      return; // The server is away; the next look may find it.
    }
    if (!answer.ok) return;
    const { version } = await answer.json();
    if (version === main.dataset.version) return;
    // A list without focus is reloaded at once; other pages only show a notice.
    if (main.classList.contains("inbox") && document.activeElement === document.body) location.reload();
    else changed.hidden = false;
  };
  setInterval(look, EVERY);
  document.addEventListener("visibilitychange", look);
}

switches();
localTimes();
zones();
sendOnce();
const main = document.querySelector("[data-watch]");
if (main) watch(main);
