// All layers and heads at a glance, and the chosen one as a matrix.

const SMALL = 72; // dots a side of a small picture
const BINS_SMALL = 36;
const BINS = 128; // more units than this are drawn together
const MATRIX = 460;

/** Weights summed into squares, at most bins a side of the scene, row = receiver; of a readout, a row a head. */
function binned(view, layerNumber, head, bins, scene = null) {
  const layer = view.explanation.layers[layerNumber];
  const shown = scene ?? rangesOf(view.explanation, layer);
  const columns = binsOf(shown.columns, bins);
  const rows = layer.is_readout ? layer.values.length : binsOf(shown.rows, bins);
  const cells = new Float64Array(rows * columns);
  const binOf = (unit, [from, to], number) => Math.floor(((unit - from) * number) / (to - from));
  const inside = (unit, [from, to]) => unit >= from && unit < to;
  const add = (values, rowOf) => {
    for (let e = 0; e < layer.senders.length; e++) {
      const [sender, receiver] = [layer.senders[e], layer.receivers[e]];
      if (!inside(sender, shown.columns) || (!layer.is_readout && !inside(receiver, shown.rows))) continue;
      const cell = rowOf(receiver) * columns + binOf(sender, shown.columns, columns);
      if (values[e] > cells[cell]) cells[cell] = values[e]; // the strongest of a square is what it shows
    }
  };
  if (layer.is_readout) layer.values.forEach((values, row) => add(values, () => row));
  else add(weightsOf(layer, head), (receiver) => binOf(receiver, shown.rows, rows));
  return { cells, rows, columns };
}

/** Into how many squares some units go. */
function binsOf([from, to], bins) {
  return Math.max(1, Math.min(bins, to - from));
}

/** Shapes of a matrix of cells; neighbors in a row of the same strength stay apart, empty ones are not drawn. */
function cellShapes({ cells, rows, columns }, x, y, width, height, isMarked = false) {
  const most = largest(cells);
  const [w, h] = [width / columns, height / rows];
  const shapes = [{ kind: "rect", x, y, width, height, fill: themed("cell"), rx: 2 }];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const value = cells[row * columns + column];
      if (value <= 0) continue;
      const mark = isMarked ? { row, column, value } : undefined;
      shapes.push({ kind: "rect", x: x + column * w, y: y + row * h, width: w + 0.3, height: h + 0.3, fill: colorOf(Math.sqrt(value / most), 1, false, 1), mark });
    }
  }
  return shapes;
}

/** Small pictures of every head of every layer, to pick from; each is drawn when it comes into sight. */
function gridView(view) {
  const { layers, units } = view.explanation;
  const table = element("div", { class: "grid", role: "group", "aria-label": "Layers and heads. Arrow keys go between them, Enter chooses." });
  const buttons = [];
  const distance = distancesOf(view.explanation);
  const watcher = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => drawOne(entry.target)), { rootMargin: "600px" });
  const drawOne = (canvas) => {
    watcher.unobserve(canvas);
    const [layer, head] = [Number(canvas.dataset.layer), Number(canvas.dataset.head)];
    paintPicture(canvas, smallPicture(view, layer, head));
    const far = isAcross(view.explanation, layers[layer]) ? () => null : distance;
    const words = spreadWords(spreadOf(layers[layer], head, units.length, far));
    canvas.parentElement.title = `${layers[layer].name}, ${headName(head)}: ${words.join(", ")}`;
    canvas.nextSibling.textContent = words.join("\n");
  };
  layers.forEach((layer, number) => {
    const row = element("div", { class: "row" }, element("span", { class: "side" }, layer.name));
    const heads = layer.values.length > 1 ? [-1, ...layer.values.keys()] : [0];
    for (const head of heads) {
      const canvas = element("canvas", { "data-layer": number, "data-head": head, width: SMALL, height: SMALL });
      const button = element(
        "button",
        { type: "button", class: "head", "aria-label": `${layer.name}, ${headName(head)}`, "data-layer": number, "data-head": head, click: () => view.choose({ layer: number, head }) },
        canvas,
        element("small", {}, ""),
        element("span", {}, headName(head)),
      );
      buttons.push(button);
      row.append(button);
      watcher.observe(canvas);
    }
    table.append(row);
  });
  table.addEventListener("keydown", (event) => gridKey(event, buttons));
  const mark = () => {
    for (const button of buttons) {
      const isChosen = Number(button.dataset.layer) === view.chosen.layer && Number(button.dataset.head) === view.chosen.head;
      button.setAttribute("aria-pressed", isChosen);
      button.tabIndex = isChosen ? 0 : -1;
    }
  };
  view.listen(["layer", "head"], mark);
  view.listen(["theme"], () => buttons.forEach((button) => watcher.observe(button.firstChild)));
  mark();
  return { node: table, picture: () => gridPicture(view) };
}

function headName(head) {
  return head < 0 ? "mean" : `head ${head + 1}`;
}

/** How widely a head looks, and how far where units have a distance: two short lines. */
function spreadWords({ entropy, distance }) {
  return [`${shown(entropy)} bit`, ...(distance === null ? [] : [`${shown(distance)} away`])];
}

function smallPicture(view, layer, head) {
  return { width: SMALL, height: SMALL, shapes: cellShapes(binned(view, layer, head, BINS_SMALL), 0, 0, SMALL, SMALL) };
}

function gridPicture(view) {
  const shapes = [];
  const [side, step] = [80, SMALL + 12];
  let widest = 0;
  view.explanation.layers.forEach((layer, number) => {
    shapes.push(label(0, number * (step + 14) + 40, layer.name, "start", 12));
    const heads = layer.values.length > 1 ? [-1, ...layer.values.keys()] : [0];
    heads.forEach((head, place) => {
      const [x, y] = [side + place * step, number * (step + 14)];
      shapes.push(...cellShapes(binned(view, number, head, BINS_SMALL), x, y, SMALL, SMALL), label(x, y + SMALL + 14, headName(head), "start", 11));
    });
    widest = Math.max(widest, heads.length);
  });
  return { width: side + widest * step, height: view.explanation.layers.length * (step + 14), shapes };
}

function gridKey(event, buttons) {
  const now = buttons.indexOf(document.activeElement);
  const { layer, head } = document.activeElement.dataset;
  const inRow = (wanted) => buttons.findIndex((button) => button.dataset.layer === String(wanted) && button.dataset.head === head);
  const next = { ArrowRight: now + 1, ArrowLeft: now - 1, ArrowDown: inRow(Number(layer) + 1), ArrowUp: inRow(Number(layer) - 1) }[event.key];
  if (next === undefined || !buttons[next]) return;
  event.preventDefault();
  buttons[next].focus();
}

/** The chosen layer and head as a matrix; a click on squares that hold many units goes into them. */
function matrixView(view) {
  const canvas = element("canvas", { class: "matrix", tabindex: 0, role: "img" });
  const note = element("p", { class: "note" });
  const whole = element("button", { type: "button", class: "quiet", hidden: true, click: () => goInto(wholeOf(view)) }, "whole matrix");
  const scene = { ...wholeOf(view) };
  const goInto = (shown) => {
    Object.assign(scene, shown);
    draw();
  };
  const draw = () => {
    const picture = matrixPicture(view, scene);
    canvas.style.width = `${picture.width}px`;
    canvas.style.aspectRatio = `${picture.width} / ${picture.height}`;
    paintPicture(canvas, picture);
    whole.hidden = isSame(scene, wholeOf(view));
    canvas.setAttribute("aria-label", matrixWords(view, scene));
    note.textContent = matrixWords(view, scene);
  };
  canvas.addEventListener("pointermove", (event) => {
    const cell = cellAt(view, scene, canvas, event);
    canvas.title = cell ? cell.words : "";
    if (cell && cell.unit !== view.chosen.hover) view.choose({ hover: cell.unit });
  });
  canvas.addEventListener("pointerleave", () => view.choose({ hover: null }));
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(view, scene, canvas, event);
    if (cell && cell.size > 1) goInto(around(view, cell.receiver, cell.sender));
  });
  canvas.addEventListener("keydown", (event) => {
    const now = currentUnit(view) ?? 0;
    if (event.key === "Enter" && Math.max(sizeOf(scene.rows), sizeOf(scene.columns)) > BINS) goInto(around(view, now, now));
    else if (event.key === "Escape") goInto(wholeOf(view));
  });
  let before = wholeOf(view);
  view.listen(["layer", "head", "theme"], () => {
    // Another layer may go between other texts.
    if (!isSame(before, wholeOf(view))) Object.assign(scene, wholeOf(view));
    before = wholeOf(view);
    draw();
  });
  draw();
  return { node: element("div", { class: "matrix-box" }, canvas, note, whole), picture: () => matrixPicture(view, scene) };
}

/** All that the chosen layer goes between. */
function wholeOf(view) {
  return rangesOf(view.explanation, view.explanation.layers[view.chosen.layer]);
}

function sizeOf([from, to]) {
  return to - from;
}

function isSame(a, b) {
  return ["rows", "columns"].every((side) => a[side].every((end, place) => end === b[side][place]));
}

/** The surroundings of a square: of the same units in rows and columns, unless it goes from text to text. */
function around(view, receiver, sender) {
  const { rows, columns } = wholeOf(view);
  const near = (unit, [first, last]) => {
    const from = Math.max(first, Math.min(unit - BINS / 4, last - BINS / 2));
    return [from, Math.min(last, from + BINS / 2)];
  };
  const isAcrossTexts = isAcross(view.explanation, view.explanation.layers[view.chosen.layer]);
  return { rows: near(receiver, rows), columns: near(isAcrossTexts ? sender : receiver, columns) };
}

const MOST_NAMED = 40; // rows and columns that still have room for a name
const NAMES_ROOM = 74;

function frameOf(view, scene) {
  const layer = view.explanation.layers[view.chosen.layer];
  const columns = binsOf(scene.columns, BINS);
  const rows = layer.is_readout ? layer.values.length : binsOf(scene.rows, BINS);
  const longest = layer.is_readout ? sizeOf(scene.columns) : Math.max(sizeOf(scene.rows), sizeOf(scene.columns));
  const isNamed = longest <= MOST_NAMED;
  const margin = isNamed ? NAMES_ROOM : 18;
  const most = layer.is_readout ? columns : Math.max(rows, columns);
  const cell = (isNamed ? Math.min(MATRIX, Math.max(120, 26 * most)) : MATRIX) / most;
  const [side, height] = [cell * columns, layer.is_readout ? 26 * rows : cell * rows];
  return { x: margin, y: margin, side, height, isNamed, columns, rows, width: side + margin + (isNamed ? 44 : 4), whole: height + margin + 4 };
}

function matrixPicture(view, scene) {
  const frame = frameOf(view, scene);
  const { layer, head } = view.chosen;
  const cells = binned(view, layer, head, BINS, scene);
  const shapes = cellShapes(cells, frame.x, frame.y, frame.side, frame.height, frame.isNamed);
  if (frame.isNamed) shapes.push(...matrixNames(view, scene, frame));
  else {
    const [from, to] = scene.columns;
    shapes.push(label(frame.x, 12, "attended to →", "start", 11), label(frame.x + frame.side, 12, `${from + 1} … ${to}`, "end", 11));
  }
  return { width: frame.width, height: frame.whole, shapes };
}

function matrixNames(view, scene, frame) {
  const isReadout = view.explanation.layers[view.chosen.layer].is_readout;
  const [w, h] = [frame.side / frame.columns, frame.height / frame.rows];
  const shapes = [];
  const size = Math.min(12, Math.max(7, w * 0.6));
  const name = (unit) => clipped(shortNameOf(view.explanation, unit), 10);
  for (let column = 0; column < frame.columns; column++) {
    shapes.push(...slanted(name(scene.columns[0] + column), frame.x + (column + 0.5) * w, frame.y - 5, size));
  }
  for (let row = 0; row < frame.rows; row++) {
    if (isReadout) shapes.push(label(frame.x - 5, frame.y + (row + 0.5) * h + 4, headName(row), "end", 11));
    else shapes.push(label(frame.x - 5, frame.y + (row + 0.5) * h + size / 3, name(scene.rows[0] + row), "end", size));
  }
  return shapes;
}

/** A name that runs upwards. */
function slanted(text, x, y, size) {
  return [{ ...label(x, y, text, "start", size), turn: -55 }];
}

function cellAt(view, scene, canvas, event) {
  const frame = frameOf(view, scene);
  const scale = frame.width / canvas.clientWidth;
  const column = Math.floor(((event.offsetX * scale - frame.x) / frame.side) * frame.columns);
  const row = Math.floor(((event.offsetY * scale - frame.y) / frame.height) * frame.rows);
  if (column < 0 || row < 0 || column >= frame.columns || row >= frame.rows) return null;
  const isReadout = view.explanation.layers[view.chosen.layer].is_readout;
  const sizes = [sizeOf(scene.columns) / frame.columns, sizeOf(scene.rows) / frame.rows];
  const sender = scene.columns[0] + Math.floor(column * sizes[0]);
  const receiver = isReadout ? sender : scene.rows[0] + Math.floor(row * sizes[1]);
  const { cells, columns } = binned(view, view.chosen.layer, view.chosen.head, BINS, scene);
  const to = isReadout ? headName(row) : nameOf(view.explanation, receiver);
  const size = isReadout ? sizes[0] : Math.max(...sizes);
  return { unit: receiver, sender, receiver, size, words: `${to} attends to ${nameOf(view.explanation, sender)}: ${shown(cells[row * columns + column])}` };
}

function matrixWords(view, scene) {
  const layer = view.explanation.layers[view.chosen.layer];
  const texts = isAcross(view.explanation, layer) ? [scene.rows, scene.columns].map(([unit]) => view.explanation.units[unit].source) : [];
  const between = texts.length ? `A row, of the ${texts[0]}, attends to the columns, of the ${texts[1]}` : "A row attends to the columns";
  const what = layer.is_readout ? "A row is a head, a column what the whole attends to" : between;
  const number = layer.is_readout ? sizeOf(scene.columns) : Math.max(sizeOf(scene.rows), sizeOf(scene.columns));
  const binnedWords = number > BINS ? `; a square is ${Math.ceil(number / BINS)} units and shows its strongest weight, a click goes into it` : "";
  const top = layer.top ? `; the ${layer.top} strongest of each row are shown` : "";
  return `${what}${binnedWords}${top}.`;
}
