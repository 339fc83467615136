// Elements and texts. Texts come from models and are never markup: they are set as text, with what can't be seen shown.

const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\ud800-\udfff]/gu;

/** The text with control characters, marks of direction and halves of characters written out as ⟨U+202E⟩. */
function visible(text) {
  return String(text).replace(UNSEEN, (found) => {
    const code = found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${code}⟩`;
  });
}

/** An element: attributes by name, `text` and `on` (event to handler) apart; children are elements or texts. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = visible(value);
    else if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else element.setAttribute(name, value === true ? "" : visible(value));
  }
  element.append(...children.filter((child) => child !== null).map((child) =>
    child instanceof Node ? child : visible(child)));
  return element;
}

/** A text with what stands between backquotes as code. */
function coded(text) {
  return make("span", {}, ...text.split("`").map((part, place) => (place % 2 ? make("code", { text: part }) : part)));
}

/** A section with a heading that the page's list of sections leads to. */
function section(id, title, ...children) {
  return make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title`, text: title }), ...children);
}

/** A number as a reader wants it: four digits, and no exponent where it can be helped. */
function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(4)));
}

/** The same with its sign. */
function signed(value) {
  return value > 0 ? `+${number(value)}` : number(value);
}

/** `1 group`, `2 groups`. */
function count(many, word) {
  return `${many.toLocaleString("en")} ${word}${many === 1 ? "" : "s"}`;
}

/** A colour of the style sheet, as it is now: light or dark. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Move among the children of a widget that is one stop of the tab key: arrows, Home and End. */
function rove(items, index, key, width = 1) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: width, ArrowUp: -width, Home: -Infinity, End: Infinity };
  if (!(key in steps)) return null;
  return Math.max(0, Math.min(items.length - 1, index + steps[key]));
}
