// Emphasis, code, links and images within a line of Markdown. Every function takes time linear in the text.

import { element } from "./dom.js";
import { page, say } from "./page.js";

const MARK = /[\\`*_~[!<]|https?:\/\//g;
const STYLES = { "*": ["em"], _: ["em"], "**": ["strong"], __: ["strong"], "***": ["strong", "em"], "~~": ["del"] };

/** Longest run of backticks that begins code. Each length that nothing closes costs one search. */
const MAX_CODE_RUN = 8;

/** An element with any number of nodes in it; a call has a limit of arguments. */
export function filled(tag, attributes, nodes) {
  const made = element(tag, attributes);
  for (const node of nodes) made.append(node);
  return made;
}

/** The nodes of a text. A mark that is not closed is text. */
export function inline(text) {
  const made = [];
  /** Marks that nothing closes from here on; looking for them again would take quadratic time. */
  const unclosed = new Set();
  let plain = "";
  let at = 0;
  for (let found = matchFrom(MARK, text, at); found; found = matchFrom(MARK, text, at)) {
    plain += text.slice(at, found.index);
    const { node, words, length } = read(text, found.index, unclosed);
    if (node) {
      if (plain) made.push(document.createTextNode(plain));
      plain = "";
      made.push(node);
    } else {
      plain += words;
    }
    at = found.index + length;
  }
  plain += text.slice(at);
  return plain ? [...made, document.createTextNode(plain)] : made;
}

/** The match of a global or sticky expression from an index on. */
function matchFrom(expression, text, at) {
  expression.lastIndex = at;
  return expression.exec(text);
}

/** What begins at a mark: a node, or words, and its length. */
function read(text, at, unclosed) {
  const mark = text[at];
  if (mark === "\\") {
    return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "") ? { words: text[at + 1], length: 2 } : { words: "\\", length: 1 };
  }
  if (mark === "h" || mark === "<") return address(text, at) ?? { words: mark, length: 1 };
  if (mark === "[" || mark === "!") return link(text, at) ?? { words: mark, length: 1 };
  const run = text.slice(at, endOfRun(text, at));
  const words = { words: run, length: run.length };
  const begin = at + run.length;
  if (mark === "`") {
    const end = run.length > MAX_CODE_RUN ? -1 : closing(text, begin, run, unclosed, () => true);
    return end < 0 ? words : { node: element("code", { text: text.slice(begin, end).trim() }), length: end + run.length - at };
  }
  const tags = STYLES[run];
  if (!tags || /\s/.test(text[begin] ?? " ") || (mark === "_" && isWord(text[at - 1]))) return words;
  const end = closing(text, begin, run, unclosed, (last, after) => !/\s/.test(last) && (mark !== "_" || !isWord(after)));
  if (end < 0) return words;
  const inner = inline(text.slice(begin, end));
  const [node] = tags.reduceRight((children, tag) => [filled(tag, {}, children)], inner);
  return { node, length: end + run.length - at };
}

const isWord = (character) => /[\p{L}\p{N}]/u.test(character ?? "");

/** The index after the run of equal characters that begins at an index. */
function endOfRun(text, at) {
  let end = at + 1;
  while (text[end] === text[at]) end += 1;
  return end;
}

/** The index of the run of marks that closes the one before `begin`, or -1. */
function closing(text, begin, run, unclosed, closes) {
  if (unclosed.has(run)) return -1;
  for (let start = text.indexOf(run[0], begin), end; start >= 0; start = text.indexOf(run[0], end)) {
    end = endOfRun(text, start);
    if (end - start === run.length && closes(text[start - 1], text[end])) return start;
  }
  unclosed.add(run);
  return -1;
}

/** A bare web address, also in angle brackets. */
function address(text, at) {
  const bracketed = matchFrom(/<((?:https?:\/\/|mailto:)[^\s<>]+)>/y, text, at);
  if (bracketed) return linked(bracketed[1], [bracketed[1]], bracketed[0]);
  if (isWord(text[at - 1])) return null;
  const bare = matchFrom(/https?:\/\/[^\s<>"`*（）【】《》“”，。；：！？、]+/uy, text, at)?.[0];
  if (!bare) return null;
  let end = bare.length;
  while (".,;:!?'".includes(bare[end - 1])) end -= 1;
  // A closing bracket belongs to the sentence unless it was opened in the address.
  const url = bare.slice(0, end);
  const isOpened = url.split("(").length >= url.split(")").length;
  const own = url.endsWith(")") && !isOpened ? url.slice(0, -1) : url;
  return linked(own, [own], own);
}

/** A link in place of a part of the text, or that part as it is. */
function linked(url, children, whole) {
  const node = anchor(url, children);
  return node ? { node, length: whole.length } : { words: whole, length: whole.length };
}

/** `[words](address)` or `![words](address)`. */
function link(text, at) {
  // A bracket in the words or in the address ends the search, so no part of the text is searched twice.
  const words = matchFrom(/!?\[([^[\]\\]*(?:\\.[^[\]\\]*)*)\]\(/sy, text, at);
  if (!words) return null;
  const url = matchFrom(/[ \t\n]*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?/y, text, at + words[0].length);
  const rest = matchFrom(/(?:[ \t\n]+(?:"[^"()]*"[ \t\n]*)?)?\)/y, text, at + words[0].length + url[0].length);
  if (!rest) return null;
  const whole = words[0] + url[0] + rest[0];
  if (text[at] === "[") return linked(url[1], inline(words[1]), whole);
  return { node: picture(url[1], words[1]), length: whole.length };
}

/** A link that opens beside the conversation; null for any scheme but the web's and mail. */
function anchor(url, children) {
  let target;
  try {
    target = new URL(url);
  } catch {
    return null;
  }
  if (!["http:", "https:", "mailto:"].includes(target.protocol)) return null;
  // A link within the words of another would be invalid.
  const words = children.map((child) => (child.nodeName === "A" ? document.createTextNode(child.textContent) : child));
  return filled("a", { href: target.href, rel: "noopener noreferrer nofollow ugc", target: "_blank", title: target.href }, words);
}

/** An image, if the agent declares images of that kind; otherwise its address. */
function picture(url, words = "") {
  const isData = /^data:image\/(png|jpeg|gif|webp);base64,/.test(url);
  const isRemote = /^https:\/\//.test(url);
  const { https, data } = page.agent.images;
  if ((isData && data) || (isRemote && https)) {
    return element("img", { src: url, alt: words, loading: "lazy", referrerpolicy: "no-referrer" });
  }
  const told = [words, isData ? "" : url].filter(Boolean).join(" ");
  return element("span", { class: "quiet", text: say("picture", { url: told }) });
}
