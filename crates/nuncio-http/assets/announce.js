// What a screen reader hears. A stream of words would drown everything else, so an answer is read out
// sentence by sentence, as each is complete.

import { byId } from "./dom.js";

const SENTENCE = /^[\s\S]*?(?:[.!?…](?=\s)|[。！？]|\n)/;

let unsaid = "";

/** Says something at once. */
export function announce(text) {
  const words = text.trim();
  if (!words) return;
  const region = byId("announcements");
  const line = document.createElement("p");
  line.textContent = words;
  region.append(line);
  // Readers speak what is added; what was spoken need not stay.
  while (region.childElementCount > 20) region.firstElementChild.remove();
}

/** Takes a piece of an answer and says what is complete. */
export function announcePiece(piece) {
  unsaid += piece;
  for (let match = SENTENCE.exec(unsaid); match; match = SENTENCE.exec(unsaid)) {
    announce(match[0]);
    unsaid = unsaid.slice(match[0].length);
  }
  // Some answers have no sentences: a list of numbers, a program.
  if (unsaid.length > 500) announceRest();
}

/** Says what is left of an answer. */
export function announceRest() {
  announce(unsaid);
  unsaid = "";
}
