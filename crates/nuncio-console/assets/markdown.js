// Displays Markdown of an agent. Elements are made one by one: markup in the text stays text.
// The time is linear in the text, whatever an agent or a tool writes: no expression below can match a part in two ways.

import { element, printable } from "./dom.js";
import { filled, inline } from "./markdown-inline.js";

const FENCE = /^ {0,3}(`{3,}|~{3,}(?!~))[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])([ \t]+)(.*)$/;
const QUOTE = /^ {0,3}> ?/;

/** Number of quotes and lists that may be inside each other; deeper ones are shown as text. */
const MAX_DEPTH = 6;

/** Unfinished text that is read again with every piece, in characters. Of a longer one, pieces are collected. */
const READ_AT_ONCE = 2000;

/** Pieces are collected until the unfinished text has grown by one part in so many. */
const GROWTH = 16;

/** A text that may grow at its end. Finished blocks stay as they are; only the last ones are made again. */
export class MarkdownText {
  root = element("div", { class: "text markdown" });
  /** The text of the blocks that may change. */
  #rest = "";
  /** The text after it that is not shown yet. */
  #collected = "";
  #open = [];
  /** Whether the text so far ends with a carriage return, to which a line feed may belong. */
  #afterReturn = false;

  constructor(text = "") {
    this.append(text);
    this.end();
  }

  append(piece) {
    if (piece === "") return;
    const own = this.#afterReturn && piece.startsWith("\n") ? piece.slice(1) : piece;
    this.#afterReturn = piece.endsWith("\r");
    this.#collected += printable(own.replace(/\r\n?/g, "\n"));
    if (this.#collected.length * GROWTH > this.#rest.length - READ_AT_ONCE) this.end();
  }

  /** Shows all of the text. More may follow. */
  end() {
    if (this.#collected === "") return;
    this.#rest += this.#collected;
    this.#collected = "";
    const lines = this.#rest.split("\n");
    const found = blocks(lines, 0);
    const replaced = this.#open;
    for (const node of replaced) node.remove();
    keepImages(replaced, found);
    for (const { node } of found) this.root.append(node);
    // After a list, the last block may turn out to be its next item.
    const kept = ["UL", "OL"].includes(found.at(-2)?.node.tagName) ? 2 : 1;
    const open = found.slice(-kept);
    this.#open = open.map(({ node }) => node);
    if (found.length > kept) this.#rest = lines.slice(open[0].begin).join("\n");
  }
}

/** Puts the images that are already loaded in place of those that would be requested again. */
function keepImages(replaced, found) {
  const images = replaced.flatMap((node) => [...node.querySelectorAll("img")]);
  if (images.length === 0) return;
  const next = found.flatMap(({ node }) => [...node.querySelectorAll("img")]);
  for (const [at, image] of next.entries()) if (images[at]?.isEqualNode(image)) image.replaceWith(images[at]);
}

/** The blocks of the lines: their elements, and the index of their first line. */
function blocks(lines, depth) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === "") at += 1;
    else {
      const [node, next] = block(lines, at, depth);
      found.push({ node, begin: at });
      at = next;
    }
  }
  return found;
}

const nodes = (lines, depth) => blocks(lines, depth).map(({ node }) => node);

/** The element of the block that begins at a line, and the index of the line after it. */
function block(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence[1]);
  const heading = HEADING.exec(line);
  // The headings of the page itself are above.
  if (heading) return [filled(`h${Math.min(heading[1].length + 2, 6)}`, {}, inline(headingText(heading[2]))), at + 1];
  if (isRule(line)) return [element("hr"), at + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) return quote(lines, at, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return list(lines, at, depth);
  if (isTable(lines, at)) return table(lines, at);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== "" && !interrupts(lines, end, depth)) end += 1;
  return [filled("p", {}, inline(lines.slice(at, end).join("\n"))), end];
}

/** Whether a line ends the paragraph before it. A number does so only if a list begins with it. */
function interrupts(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line) || HEADING.test(line) || isRule(line) || isTable(lines, at)) return true;
  if (depth >= MAX_DEPTH) return false;
  const item = ITEM.exec(line);
  return QUOTE.test(line) || (item !== null && (!/\d/.test(item[2]) || /^1[.)]$/.test(item[2])));
}

/** The text of a heading without the `#` that may close it. */
function headingText(text) {
  const whole = text.trimEnd();
  let end = whole.length;
  while (whole[end - 1] === "#") end -= 1;
  return end === 0 || /\s/.test(whole[end - 1]) ? whole.slice(0, end).trim() : whole.trim();
}

/** Whether a line is a thematic break: three or more of one mark, and nothing else. */
function isRule(line) {
  if (!/^ {0,3}[-*_]/.test(line)) return false;
  const marks = line.replace(/[ \t]/g, "");
  return marks.length >= 3 && marks === marks[0].repeat(marks.length);
}

function code(lines, at, fence) {
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(fence) && lines[end].trim().replaceAll(fence[0], "") === "")) end += 1;
  const text = lines.slice(at + 1, end).join("\n");
  return [element("pre", { class: "raw", tabindex: "0" }, element("code", { text })), end + 1];
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [filled("blockquote", {}, nodes(inner, depth + 1)), end];
}

function list(lines, at, depth) {
  const [, indent, first] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first);
  const items = [];
  let width = 0;
  let end = at;
  for (; end < lines.length; end += 1) {
    const line = lines[end];
    const item = ITEM.exec(line);
    const isOwn = item !== null && item[1].length <= indent.length + 1 && /\d/.test(item[2]) === ordered;
    if (isOwn) {
      width = item[1].length + item[2].length + item[3].length;
      items.push([item[4]]);
    } else if (line.trim() === "") {
      let next = end + 1;
      while (next < lines.length && lines[next].trim() === "") next += 1;
      if (next === lines.length || !(ITEM.test(lines[next]) || /^\s{2}/.test(lines[next]))) break;
      for (; end < next - 1; end += 1) items.at(-1).push("");
      items.at(-1).push("");
    } else if (/^\s{2}/.test(line)) {
      items.at(-1).push(line.slice(Math.min(width, line.length - line.trimStart().length)));
    } else if (item === null && lines[end - 1].trim() !== "" && !interrupts(lines, end, depth)) {
      items.at(-1).push(line);
    } else {
      break;
    }
  }
  const start = ordered && !/^1[.)]$/.test(first) ? String(parseInt(first, 10)) : null;
  const made = items.map((inner) => filled("li", {}, itemNodes(inner, depth + 1)));
  return [filled(ordered ? "ol" : "ul", { start }, made), end];
}

/** The content of a list item. A single paragraph needs no element of its own. */
function itemNodes(lines, depth) {
  const made = nodes(lines, depth);
  const end = lines.findLastIndex((line) => line !== "") + 1;
  if (made[0]?.tagName !== "P" || lines.slice(0, end).includes("")) return made;
  return [...made[0].childNodes, ...made.slice(1)];
}

function isTable(lines, at) {
  const [head, delimiters] = [lines[at], lines[at + 1]];
  if (!head.includes("|") || !delimiters?.includes("-")) return false;
  const marks = cells(delimiters);
  return marks.every((mark) => /^:?-+:?$/.test(mark)) && cells(head).length === marks.length;
}

function table(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const row = (line, tag) => filled("tr", {}, cells(line).map((cell) => filled(tag, {}, inline(cell))));
  const body = lines.slice(at + 2, end).map((line) => row(line, "td"));
  const made = element("table", {}, element("thead", {}, row(lines[at], "th")), filled("tbody", {}, body));
  return [element("div", { class: "table", tabindex: "0" }, made), end];
}

const cells = (line) =>
  line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => cell.trim());
