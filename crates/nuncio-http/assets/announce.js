// Announcements for screen readers. Streaming every word would drown everything else, so an answer is read out
// sentence by sentence, as each is complete.

import { byId } from "./dom.js";

const SENTENCE = /^[\s\S]*?(?:[.!?…](?=\s)|[。！？]|\n)/;

let unsaid = "";

/** Announces a text at once. */
export function announce(text) {
  const words = text.trim();
  if (!words) return;
  const region = byId("announcements");
  const line = document.createElement("p");
  line.textContent = words;
  region.append(line);
  // Screen readers speak added text; spoken text need not stay.
  while (region.childElementCount > 20) region.firstElementChild.remove();
}

/** Takes a piece of an answer and announces its complete sentences. */
export function announcePiece(piece) {
  unsaid += piece;
  for (let match = SENTENCE.exec(unsaid); match; match = SENTENCE.exec(unsaid)) {
    announce(match[0]);
    unsaid = unsaid.slice(match[0].length);
  }
  // Some answers have no sentences: a list of numbers, a program.
  if (unsaid.length > 500) announceRest();
}

/** Announces the remaining text of an answer. */
export function announceRest() {
  announce(unsaid);
  unsaid = "";
}
