// Pictures as lists of shapes: one list makes an SVG to look at, a canvas where there is much, and both downloads.
//
// A shape is { kind: "line" | "path" | "rect" | "circle" | "text", …its numbers, fill, stroke, thick, opacity, … }.
// `mark` holds what the page wants to know of it again ({ unit: 3 } becomes data-unit="3"), `title` is read on hover.

const SVG = "http://www.w3.org/2000/svg";
const FONT = "system-ui, sans-serif";

const GEOMETRY = {
  line: ["x1", "y1", "x2", "y2"],
  path: ["d"],
  rect: ["x", "y", "width", "height", "rx"],
  circle: ["cx", "cy", "r"],
  text: ["x", "y"],
};

/** An HTML element; attributes whose value is a function become listeners, words become text and nothing else. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** An SVG element. */
function shapeElement(tag, attributes = {}) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  return made;
}

/** A color of the style sheet as it is now, light or dark; needed thousands of times, so cached. */
let colors = {};
function themed(name) {
  const root = document.documentElement;
  if (colors.theme !== root.dataset.theme) colors = { theme: root.dataset.theme };
  return (colors[name] ??= getComputedStyle(root).getPropertyValue(`--${name}`).trim());
}

/** A shape as an SVG element. */
function svgShape(shape) {
  const made = shapeElement(shape.kind);
  for (const name of GEOMETRY[shape.kind]) {
    if (shape[name] !== undefined) made.setAttribute(name, typeof shape[name] === "number" ? tidy(shape[name]) : shape[name]);
  }
  paint(made, "fill", shape.fill ?? "none");
  if (shape.stroke) {
    paint(made, "stroke", shape.stroke);
    made.setAttribute("stroke-width", tidy(shape.thick ?? 1));
    made.setAttribute("stroke-linecap", "round");
    made.setAttribute("stroke-linejoin", "round");
  }
  if (shape.opacity !== undefined) made.setAttribute("opacity", tidy(shape.opacity));
  if (shape.dash) made.setAttribute("stroke-dasharray", shape.dash.join(" "));
  if (shape.kind === "text") {
    made.setAttribute("font-family", FONT);
    made.setAttribute("font-size", shape.size ?? 12);
    if (shape.bold) made.setAttribute("font-weight", "600");
    if (shape.turn) made.setAttribute("transform", `rotate(${shape.turn} ${tidy(shape.x)} ${tidy(shape.y)})`);
    made.setAttribute("text-anchor", shape.anchor ?? "start");
    made.setAttribute("xml:space", "preserve");
    made.textContent = shape.text;
  }
  for (const [name, value] of Object.entries(shape.mark ?? {})) made.setAttribute(`data-${name}`, value);
  if (shape.title) made.append(titleOf(shape.title));
  return made;
}

/** A color; how see-through it is stands apart, as older programs want it. */
function paint(made, name, color) {
  const parts = color.match(/^rgba\((\d+, \d+, \d+), ([\d.]+)\)$/);
  made.setAttribute(name, parts ? `rgb(${parts[1]})` : color);
  if (parts) made.setAttribute(`${name}-opacity`, parts[2]);
}

function titleOf(words) {
  const made = shapeElement("title");
  made.textContent = words;
  return made;
}

function tidy(number) {
  return Math.round(number * 100) / 100;
}

/** A picture { width, height, shapes } as an SVG element. */
function svgPicture(picture, label = "") {
  const { width, height } = picture;
  const made = shapeElement("svg", { viewBox: `0 0 ${tidy(width)} ${tidy(height)}`, width: tidy(width), height: tidy(height) });
  if (label) {
    made.setAttribute("role", "img");
    made.setAttribute("aria-label", label);
  }
  made.append(...picture.shapes.map(svgShape));
  return made;
}

/** Draws one shape on a canvas. */
function paintShape(pen, shape) {
  pen.globalAlpha = shape.opacity ?? 1;
  pen.setLineDash(shape.dash ?? []);
  pen.lineCap = pen.lineJoin = "round";
  if (shape.kind === "text") {
    pen.font = `${shape.bold ? "600 " : ""}${shape.size ?? 12}px ${FONT}`;
    pen.textAlign = { middle: "center", end: "right" }[shape.anchor] ?? "left";
    pen.fillStyle = shape.fill;
    pen.save();
    pen.translate(shape.x, shape.y);
    pen.rotate(((shape.turn ?? 0) * Math.PI) / 180);
    pen.fillText(shape.text, 0, 0);
    pen.restore();
    return;
  }
  if (shape.kind === "rect" && !shape.rx && !shape.stroke) { // much faster where there are thousands
    pen.fillStyle = shape.fill;
    pen.fillRect(shape.x, shape.y, shape.width, shape.height);
    return;
  }
  const path = new Path2D(shape.kind === "path" ? shape.d : undefined);
  if (shape.kind === "line") {
    path.moveTo(shape.x1, shape.y1);
    path.lineTo(shape.x2, shape.y2);
  } else if (shape.kind === "circle") path.arc(shape.cx, shape.cy, shape.r, 0, 2 * Math.PI);
  else if (shape.kind === "rect") path.roundRect(shape.x, shape.y, shape.width, shape.height, shape.rx ?? 0);
  if (shape.fill && shape.fill !== "none") {
    pen.fillStyle = shape.fill;
    pen.fill(path);
  }
  if (shape.stroke) {
    pen.strokeStyle = shape.stroke;
    pen.lineWidth = shape.thick ?? 1;
    pen.stroke(path);
  }
}

/** Draws a picture on a canvas of its size, `scale` dots a unit. */
function paintPicture(canvas, picture, scale = window.devicePixelRatio || 1) {
  canvas.width = Math.max(1, Math.round(picture.width * scale));
  canvas.height = Math.max(1, Math.round(picture.height * scale));
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, picture.width, picture.height);
  for (const shape of picture.shapes) paintShape(pen, shape);
}

/** Hands the reader a file. */
function download(name, blob) {
  const link = element("a", { download: name, href: URL.createObjectURL(blob) });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function onPaper(picture) {
  const paper = { kind: "rect", x: 0, y: 0, width: picture.width, height: picture.height, fill: themed("paper") };
  return { ...picture, shapes: [paper, ...picture.shapes] };
}

function downloadSvg(name, picture) {
  const drawn = svgPicture(onPaper(picture));
  const text = new XMLSerializer().serializeToString(drawn);
  download(`${name}.svg`, new Blob([text], { type: "image/svg+xml" }));
}

/** A canvas has a largest size; a longer picture is drawn with fewer dots. */
const MOST_DOTS = 16000;

function downloadPng(name, picture) {
  const canvas = element("canvas");
  paintPicture(canvas, onPaper(picture), Math.min(2, MOST_DOTS / Math.max(picture.width, picture.height)));
  canvas.toBlob((blob) => download(`${name}.png`, blob), "image/png");
}

/** A figure: what is drawn, a caption, and its downloads.
 *
 * @param {string} name of the files
 * @param {string} heading above it
 * @param {Node} drawn what is looked at
 * @param {() => {width, height, shapes}} picture the list of shapes as it looks now
 * @param {string} caption below it
 */
function figure(name, heading, drawn, picture, caption = "") {
  const save = (kind, how) =>
    element("button", { type: "button", class: "quiet", "aria-label": `${heading}: save as ${kind}`, "data-save": `${name}.${kind.toLowerCase()}`, click: () => how(name, picture()) }, kind);
  return element(
    "figure",
    { "data-figure": name },
    element("div", { class: "above" }, element("h3", {}, heading), element("span", { class: "saves" }, save("SVG", downloadSvg), save("PNG", downloadPng))),
    drawn,
    caption ? element("figcaption", {}, caption) : null,
  );
}
