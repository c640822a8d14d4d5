// The inbox keeps itself fresh: times in the reader's own zone, and a word when something changed.
// Nothing here is needed to do the work; without it the pages are only a little less lively.

import { localTimes, sendOnce } from "./forms.js";
import { switches } from "./switches.js";

/** How often to ask whether something changed. */
const EVERY = 5000;

/** What is typed as a time is meant in the reader's own zone, as it is on that day. */
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

/** Looks again and again whether there is something new, while somebody looks at the page. */
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
    // A list nobody is at shows what is new at once; anything else is only told of it.
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
