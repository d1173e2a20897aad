// Texts: words shaded by what they matter, arcs between them for where they attend.

const CHUNK = 200; // words that the browser may lay out on their own, only when they come into sight
const LONG = 600; // from here on lines stand closer and chunks are cut

/** The words of all texts, with arcs above them. */
function wordsView(view) {
  const { explanation } = view;
  const isLong = explanation.units.length > LONG;
  const arcs = shapeElement("svg", { class: "arcs", "aria-hidden": "true" });
  const box = element("div", {
    class: isLong ? "words long" : "words",
    role: "group",
    "aria-label": "The text. Arrow keys go from word to word, Enter holds one, Escape lets go.",
  });
  const spans = new Array(explanation.units.length);
  const several = Object.keys(explanation.sources).length > 1;
  for (const [source, text] of Object.entries(explanation.sources)) {
    if (several) box.append(element("h4", {}, source));
    box.append(...paragraphs(view, source, text, spans, isLong));
  }
  const loose = looseWords(view, spans);
  if (loose) box.prepend(loose);
  box.append(arcs);
  spans.find(Boolean)?.setAttribute("tabindex", 0);
  listenToUnits(view, box, spans);

  const shade = () => shadeWords(view, spans);
  const draw = () => drawArcs(view, box, arcs, spans);
  view.listen(["attribution"], shade);
  view.listen(["hover", "pinned", "layer", "head", "direction", "threshold", "lines", "theme"], draw);
  view.listen(["hover", "pinned", "group"], () => emphasize(view, spans));
  view.listen(["layer", "head", "threshold", "lines"], () => underline(view, spans));
  new ResizeObserver(draw).observe(box);
  shade();
  underline(view, spans);
  return { node: box, picture: () => wordsPicture(view, box, spans) };
}

/** A text as elements: a span a unit, plain text between; Python counts characters, JavaScript half of some. */
function paragraphs(view, source, text, spans, isLong) {
  const characters = Array.from(text);
  const own = view.explanation.units.map((unit, index) => ({ unit, index })).filter(({ unit }) => unit.source === source);
  own.sort((a, b) => a.unit.start - b.unit.start);
  const chunks = [element("p", { class: "chunk" })];
  let at = 0;
  let inChunk = 0;
  for (const { unit, index } of own) {
    if (unit.start < at) continue; // two units for the same characters: the first is drawn
    const gap = characters.slice(at, unit.start).join("");
    if (isLong && inChunk >= CHUNK && /\s$/.test(gap || characters[unit.start] || "")) {
      chunks.at(-1).append(gap);
      chunks.push(element("p", { class: "chunk" }));
      inChunk = 0;
    } else chunks.at(-1).append(gap);
    spans[index] = wordSpan(view, index, characters.slice(unit.start, unit.stop).join(""));
    chunks.at(-1).append(spans[index]);
    at = unit.stop;
    inChunk++;
  }
  chunks.at(-1).append(characters.slice(at).join(""));
  return chunks;
}

/** Units that come from no text, such as the sign for its beginning. */
function looseWords(view, spans) {
  const { units, sources } = view.explanation;
  const loose = units.map((unit, index) => ({ unit, index })).filter(({ unit }) => !(unit.source in sources));
  if (!loose.length) return null;
  return element("p", { class: "loose" }, ...loose.map(({ unit, index }) => (spans[index] = wordSpan(view, index, unit.name))));
}

function wordSpan(view, index, text) {
  const span = element("span", { class: "word", "data-unit": index, tabindex: -1, role: "button" }, text);
  if (text.includes("\n") && !text.trim()) span.dataset.sign = "⏎"; // else there is nothing to see or to point at
  return span;
}

/** Pointer and keys on elements that carry data-unit, in words as in atoms. */
function listenToUnits(view, box, spans) {
  const unitAt = (event) => {
    const found = event.target.closest("[data-unit]");
    return found ? Number(found.dataset.unit) : null;
  };
  box.addEventListener("pointerover", (event) => view.choose({ hover: unitAt(event) }));
  box.addEventListener("pointerleave", () => view.choose({ hover: null }));
  box.addEventListener("click", (event) => {
    const unit = unitAt(event);
    if (unit !== null) view.choose({ pinned: view.chosen.pinned === unit ? null : unit });
  });
  box.addEventListener("focusin", (event) => {
    const unit = unitAt(event);
    if (unit !== null && event.target.matches(":focus-visible")) view.choose({ hover: unit });
  });
  box.addEventListener("focusout", () => view.choose({ hover: null }));
  box.addEventListener("keydown", (event) => {
    const unit = unitAt(event);
    if (unit !== null) unitKey(view, event, unit, spans);
  });
}

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

function unitKey(view, event, unit, spans) {
  if (event.key === "Escape") view.choose({ pinned: null, hover: null });
  else if (event.key === "Enter" || event.key === " ") view.choose({ pinned: view.chosen.pinned === unit ? null : unit });
  else if (event.key === "Home" || event.key === "End" || event.key in STEPS) {
    let next = event.key === "Home" ? 0 : event.key === "End" ? spans.length - 1 : unit + STEPS[event.key];
    while (spans[next] === undefined && next > 0 && next < spans.length - 1) next += STEPS[event.key] ?? 1;
    if (!spans[next]) return;
    spans[unit].setAttribute("tabindex", -1);
    spans[next].setAttribute("tabindex", 0);
    spans[next].focus();
  } else return;
  event.preventDefault();
}

function shadeWords(view, spans) {
  const attribution = view.explanation.attributions[view.chosen.attribution];
  const most = attribution ? largest(attribution.values) : 0;
  spans.forEach((span, unit) => {
    const value = attribution ? attribution.values[unit] : null;
    span.style.backgroundColor = attribution ? colorOf(value, most, attribution.is_signed) : "";
    span.dataset.value = value ?? "";
    span.setAttribute("aria-label", `${nameOf(view.explanation, unit)}: ${shown(value)}`);
  });
}

/** Where a readout looks, as a line below the words. */
function underline(view, spans) {
  const marks = marksOf(view);
  spans.forEach((span, unit) => {
    const mark = marks.get(unit);
    const thick = mark ? Math.max(1, Math.round(5 * mark.share)) : 0;
    if (thick || span.style.boxShadow) span.style.boxShadow = thick ? `0 ${thick}px 0 var(--line)` : "";
  });
}

function emphasize(view, spans) {
  const group = new Set(view.chosen.group);
  const now = currentUnit(view);
  for (const span of view.emphasized ?? []) span.classList.remove("current", "grouped");
  view.emphasized = [...group].map((unit) => spans[unit]).filter(Boolean);
  for (const span of view.emphasized) span.classList.add("grouped");
  if (now !== null && spans[now]) {
    spans[now].classList.add("current");
    view.emphasized.push(spans[now]);
  }
}

/** Arcs that are drawn while no word is chosen make a long text harder to read. */
const MOST_WORDS_FOR_ALL = 200;

function arcShapes(view, box, spans) {
  if (currentUnit(view) === null && view.explanation.units.length > MOST_WORDS_FOR_ALL) return [];
  const frame = box.getBoundingClientRect();
  const places = new Map();
  const place = (unit) => {
    if (!places.has(unit)) {
      const { left, top, width, height } = spans[unit].getClientRects()[0] ?? spans[unit].getBoundingClientRect();
      places.set(unit, { x: left + width / 2 - frame.left + box.scrollLeft, y: top - frame.top + box.scrollTop, height });
    }
    return places.get(unit);
  };
  const faint = currentUnit(view) === null ? 0.55 : 1;
  const color = themed("line");
  const { units } = view.explanation;
  const path = ({ from, to }) => (units[from].source === units[to].source ? arc : across)(place(from), place(to));
  return linesOf(view)
    .filter(({ from, to }) => spans[from] && spans[to])
    .map((line) => ({
      kind: "path",
      d: path(line),
      stroke: line.isEffect ? colorOf(line.value, Math.abs(line.value), true, 1) : color,
      thick: 1 + 3 * line.share,
      opacity: faint * (0.3 + 0.7 * line.share),
      mark: { from: line.from, to: line.to, value: line.value },
    }));
}

const MOST_LIFT = 46; // what the room between the lines allows

function arc(a, b) {
  if (a.x === b.x && a.y === b.y) return `M${tidy(a.x - 6)} ${tidy(a.y)}c-4 -16 16 -16 12 0`;
  const lift = Math.min(MOST_LIFT, 10 + Math.abs(a.x - b.x) * 0.12);
  return `M${tidy(a.x)} ${tidy(a.y)}C${tidy(a.x)} ${tidy(a.y - lift)} ${tidy(b.x)} ${tidy(b.y - lift)} ${tidy(b.x)} ${tidy(b.y)}`;
}

/** From a word of one text to one of another: between the lines, not over them. */
function across(a, b) {
  const [upper, lower] = a.y < b.y ? [a, b] : [b, a];
  const [from, to] = [upper.y + upper.height, lower.y];
  const bend = (to - from) / 2;
  return `M${tidy(upper.x)} ${tidy(from)}C${tidy(upper.x)} ${tidy(from + bend)} ${tidy(lower.x)} ${tidy(to - bend)} ${tidy(lower.x)} ${tidy(to)}`;
}

function drawArcs(view, box, arcs, spans) {
  arcs.style.height = "0"; // does not keep the box high when it shrinks
  Object.assign(arcs.style, { width: `${box.scrollWidth}px`, height: `${box.scrollHeight}px` });
  arcs.replaceChildren(...arcShapes(view, box, spans).map(svgShape));
}

/** The words as shapes, where the browser has put them. */
function wordsPicture(view, box, spans) {
  box.classList.add("whole"); // all of it, not only what is in sight
  const frame = box.getBoundingClientRect();
  const shapes = arcShapes(view, box, spans);
  for (const span of spans.filter(Boolean)) {
    for (const { left, top, width, height } of span.getClientRects()) {
      const mark = { unit: span.dataset.unit, value: span.dataset.value };
      const fill = span.style.backgroundColor || "none";
      shapes.push({ kind: "rect", x: left - frame.left, y: top - frame.top, width, height, rx: 3, fill, mark });
    }
  }
  shapes.push(...textShapes(box, frame));
  const picture = { width: frame.width, height: box.scrollHeight, shapes };
  box.classList.remove("whole");
  return picture;
}

function textShapes(box, frame) {
  const fill = themed("ink");
  const size = parseFloat(getComputedStyle(box).fontSize);
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  const shapes = [];
  while (walker.nextNode()) {
    for (const word of walker.currentNode.data.matchAll(/\S+/g)) {
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      const { left, top, height } = range.getBoundingClientRect();
      shapes.push({ kind: "text", x: left - frame.left, y: top - frame.top + 0.77 * height, size, fill, text: word[0] });
    }
  }
  return shapes;
}
