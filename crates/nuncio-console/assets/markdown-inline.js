// Emphasis, code, links and images within a line of Markdown.

import { element } from "./dom.js";
import { page, say } from "./page.js";

const MARK = /[\\`*_~[!<]|https?:\/\//;
const STYLES = { "*": ["em"], _: ["em"], "**": ["strong"], __: ["strong"], "***": ["strong", "em"], "~~": ["del"] };

/** The nodes of a text. A mark that is not closed is text. */
export function inline(text) {
  const made = [];
  /** Marks that nothing closes from here on; looking for them again would take quadratic time. */
  const unclosed = new Set();
  let plain = "";
  let rest = text;
  const put = (node) => {
    if (plain) made.push(document.createTextNode(plain));
    plain = "";
    made.push(node);
  };
  for (let found = rest.search(MARK); found >= 0; found = rest.search(MARK)) {
    plain += rest.slice(0, found);
    rest = rest.slice(found);
    const { node, words, length } = read(rest, plain.at(-1) ?? made.at(-1)?.textContent?.at(-1) ?? "", unclosed);
    if (node) put(node);
    else plain += words;
    rest = rest.slice(length);
  }
  plain += rest;
  return plain ? [...made, document.createTextNode(plain)] : made;
}

/** What begins at a mark: a node, or words, and its length. */
function read(rest, before, unclosed) {
  const mark = rest[0];
  const run = /^(.)\1*/s.exec(rest)[0];
  const words = { words: mark === "h" ? "http" : run, length: mark === "h" ? 4 : run.length };
  if (mark === "\\") {
    const escaped = /^\\([!-/:-@[-`{-~])/.exec(rest);
    return escaped ? { words: escaped[1], length: 2 } : { words: "\\", length: 1 };
  }
  if (mark === "`") {
    const end = closing(rest, run, unclosed, () => true);
    return end < 0 ? words : { node: element("code", { text: rest.slice(run.length, end).trim() }), length: end + run.length };
  }
  if (mark === "h" || mark === "<") return address(rest, before) ?? (mark === "h" ? words : { words: "<", length: 1 });
  if (mark === "[" || mark === "!") return link(rest) ?? { words: mark, length: 1 };
  const tags = STYLES[run];
  const next = rest[run.length] ?? " ";
  if (!tags || /\s/.test(next) || (mark === "_" && isWord(before))) return words;
  const end = closing(rest, run, unclosed, (last, after) => !/\s/.test(last) && (mark !== "_" || !isWord(after)));
  if (end < 0) return words;
  const inner = inline(rest.slice(run.length, end));
  const [node] = tags.reduceRight((children, tag) => [element(tag, {}, ...children)], inner);
  return { node, length: end + run.length };
}

const isWord = (character) => /[\p{L}\p{N}]/u.test(character ?? "");

/** The index of the run of marks that closes the one at the beginning, or -1. */
function closing(rest, run, unclosed, closes) {
  let at = run.length;
  while (!unclosed.has(run)) {
    const start = rest.indexOf(run[0], at);
    if (start < 0) {
      unclosed.add(run);
      break;
    }
    let end = start;
    while (rest[end] === run[0]) end += 1;
    if (end - start === run.length && start > run.length && closes(rest[start - 1], rest[end])) return start;
    at = end;
  }
  return -1;
}

/** A bare web address, also in angle brackets. */
function address(rest, before) {
  const bracketed = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/.exec(rest);
  if (bracketed) return { node: anchor(bracketed[1], [bracketed[1]]), length: bracketed[0].length };
  if (isWord(before)) return null;
  const bare = /^https?:\/\/[^\s<>"`*（）【】《》“”，。；：！？、]+/u.exec(rest)?.[0].replace(/[.,;:!?']+$/, "");
  if (!bare) return null;
  // A closing bracket belongs to the sentence unless it was opened in the address.
  const isOpened = bare.split("(").length >= bare.split(")").length;
  const url = bare.endsWith(")") && !isOpened ? bare.slice(0, -1) : bare;
  return { node: anchor(url, [url]), length: url.length };
}

/** `[words](address)` or `![words](address)`. */
function link(rest) {
  const found = /^(!?)\[((?:[^[\]\\]|\\.)*)\]\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+"[^"]*")?\s*\)/.exec(rest);
  if (!found) return null;
  const [whole, image, words, url] = found;
  const node = image ? picture(url, words) : anchor(url, inline(words));
  return node ? { node, length: whole.length } : { words: whole, length: whole.length };
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
  return element("a", { href: target.href, rel: "noopener noreferrer nofollow ugc", target: "_blank", title: target.href }, ...words);
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
