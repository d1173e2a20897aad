// The page that answers: a form drawn from GET /model; the prediction changes while you type, the picture soon after.
// Whatever comes from the model or from the person goes in as text, never as HTML; pictures live in a sandboxed frame.
"use strict";

const PAUSE = { predict: 200, page: 600 }; // milliseconds without a key before each request
const MOST_IN_FULL = 4; // of more, such as the words of a sentence, only the predicted class is shown
const HINTS = { text: "type a text", smiles: "type a SMILES, such as CC(=O)Oc1ccccc1C(=O)O", node: "name one", number: "" };
const byId = (id) => document.getElementById(id);
const shown = (number, digits = 4) => {
  if (number === null) return "–";
  const whole = Math.min(17, Math.floor(Math.log10(Math.max(1, Math.abs(number)))) + 1); // zeros would stand for digits
  return String(Number(number.toPrecision(Math.max(digits, whole))));
};
const digitsBeside = (value, std) => {
  if (!value || !std) return 4; // the digits that the standard deviation leaves: seconds since 1970 need ten
  return Math.min(17, Math.max(4, Math.floor(Math.log10(Math.abs(value))) + 1 - Math.round(Math.log10(0.05 * std))));
};
let model = null;
const panels = [];

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

let wantsKey = false;
let key = ""; // only here: it is gone when the page is closed

function withKey(headers) {
  return key ? { ...headers, authorization: `Bearer ${key}` } : headers;
}

async function ask(path, body, signal) {
  const answer = await fetch(path, {
    method: "POST", body: JSON.stringify(body), headers: withKey({ "content-type": "application/json" }), signal,
  });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({ error: `the server answers ${answer.status}` }));
  throw new Error(problem.error);
}

class Panel {
  constructor(name) {
    this.name = name;
    this.root = byId("panel").content.cloneNode(true).firstElementChild;
    this.root.setAttribute("aria-label", `input ${name}`);
    this.root.dataset.panel = name;
    this.part = (selector) => this.root.querySelector(selector);
    this.predictions = null;
    this.timers = {};
    this.running = {};
    this.part("iframe").title = `explanation of input ${name}`;
    this.fill(this.part("form"));
    this.part("form").addEventListener("input", () => this.changed());
    this.part("form").addEventListener("submit", (event) => event.preventDefault());
    for (const button of this.root.querySelectorAll("[data-what]")) {
      button.addEventListener("click", () => this.download(button));
    }
  }

  fill(form) {
    this.cells = model.fields.map((field) => {
      const long = field.type === "text" || field.type === "smiles";
      const cell = element(long ? "textarea" : "input", { name: field.name, placeholder: HINTS[field.type] });
      if (long) cell.rows = field.type === "text" ? 4 : 2;
      else cell.type = field.type === "number" ? "number" : "text";
      if (field.type === "number") cell.step = "any";
      else if (field.type !== "node") cell.maxLength = model.limits[field.type === "text" ? "characters" : "smiles"];
      cell.classList.add(field.type);
      form.append(element("label", {}, element("span", { textContent: field.name }), cell));
      return cell;
    });
    const { targets = [], classes = {}, open = [] } = model.facts;
    const labels = targets.length === 1 ? classes[targets[0]] || [] : [];
    this.target = open.includes("target") ? this.word(form, "explained", "a word, or its place") : this.choice(form, "explained", targets.length > 1 ? targets : []);
    this.label = open.includes("label") ? this.word(form, "class", "the predicted one") : this.choice(form, "class", labels, "the predicted one");
  }

  // What is listed nowhere is typed; spaces stay, as one may be meant.
  word(form, name, placeholder) {
    const made = element("input", { name, type: "text", placeholder, maxLength: 200 });
    form.append(element("label", {}, element("span", { textContent: name }), made));
    return made;
  }

  choice(form, name, options, usual) {
    if (options.length < 2) return null;
    const made = element("select", { name });
    if (usual) made.append(element("option", { value: "", textContent: usual }));
    made.append(...options.map((each) => element("option", { value: each, textContent: each })));
    form.append(element("label", {}, element("span", { textContent: name }), made));
    return made;
  }

  // In words, which cell holds no number: the browser says that its value is empty.
  unreadable() {
    const index = this.cells.findIndex((cell) => cell.validity.badInput);
    return index < 0 ? "" : `${model.fields[index].name}: this is not a number`;
  }

  // The row as the interface takes it; null where a cell is empty still, or unreadable.
  row() {
    if (this.unreadable()) return null;
    const row = {};
    let texts = 0;
    for (const [place, field] of model.fields.entries()) {
      const value = this.cells[place].value;
      if (value.trim() === "" && field.may_be_missing) {
        row[field.name] = null;
        continue;
      }
      if (value.trim() === "" && field.type !== "text") return null;
      if (field.type === "number" && !Number.isFinite(Number(value))) return null;
      if (field.type === "text" && value.trim() !== "") texts += 1;
      row[field.name] = field.type === "number" ? Number(value) : field.type === "text" ? value : value.trim();
    }
    return texts || !model.fields.some((field) => field.type === "text") ? row : null;
  }

  question() {
    const query = { row: this.row() };
    if (this.target && this.target.value) query.target = this.target.value;
    if (this.label && this.label.value) query.label = this.label.value;
    return query;
  }

  changed() {
    this.part(".predictions").firstElementChild?.classList.add("stale");
    for (const [what, pause] of Object.entries(PAUSE)) {
      clearTimeout(this.timers[what]);
      this.running[what]?.abort();
      this.timers[what] = setTimeout(() => this.update(what), pause);
    }
  }

  async update(what) {
    const row = this.row();
    if (row === null) return this.show(null, this.unreadable());
    const abort = (this.running[what] = new AbortController());
    try {
      if (what === "predict") {
        const answer = await (await ask("predict", { rows: [row] }, abort.signal)).json();
        const { predictions, status } = answer.rows[0];
        this.show(predictions, status === "ok" ? "" : status);
      } else {
        this.part(".state").textContent = "explaining …";
        const page = await (await ask("page", this.question(), abort.signal)).text();
        this.part("iframe").srcdoc = page;
        this.part("iframe").hidden = this.part(".downloads").hidden = false;
        this.part(".state").textContent = "\u00a0";
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      if (what === "predict") return this.show(null, error.message);
      this.part("iframe").hidden = this.part(".downloads").hidden = true;
      this.part(".state").textContent = error.message;
    }
  }

  show(predictions, problem = "") {
    this.predictions = predictions;
    this.part(".problem").textContent = problem;
    this.part(".problem").hidden = !problem;
    this.part(".predictions").replaceChildren(...(predictions ? [this.list(predictions)] : []));
    if (!predictions) {
      this.part("iframe").hidden = this.part(".downloads").hidden = true;
      this.part(".state").textContent = "\u00a0";
    }
    difference();
  }

  list(predictions) {
    const list = element("dl", {});
    const many = predictions.length > MOST_IN_FULL;
    for (const each of predictions) {
      const share = each.probabilities[each.label];
      const classes = many ? [] : Object.entries(each.probabilities);
      list.append(element("dt", { textContent: each.name }));
      const digits = digitsBeside(each.value, each.std);
      const value = element("span", { className: "value", textContent: each.label || shown(each.value, digits) });
      let more = many && share !== undefined ? shown(share) : "";
      if (!each.label && each.std !== null) more += `± ${shown(each.std)}`;
      if (each.low !== null) more += ` (${shown(each.low, digits)} to ${shown(each.high, digits)})`;
      list.append(element("dd", {}, value, element("span", { className: "more", textContent: more })));
      for (const [label, share] of classes) {
        list.append(element("dt", { textContent: label }));
        const bar = element("meter", { min: 0, max: 1, value: share ?? 0 });
        list.append(element("dd", {}, bar, element("span", { textContent: shown(share) })));
      }
    }
    return list;
  }

  async download(button) {
    const what = button.dataset.what;
    try {
      const blob = await (await ask(what, this.question())).blob();
      const suffix = { page: "html", picture: "svg", explain: "json" }[what];
      save(blob, `explanation_${this.name}.${suffix}`);
    } catch (error) {
      this.part(".problem").textContent = error.message;
      this.part(".problem").hidden = false;
    }
  }
}

// The predictions for the second input minus those for the first.
function difference() {
  const line = byId("difference");
  const [first, second] = panels.map((panel) => panel.predictions);
  line.hidden = !byId("compare").checked || !first || !second;
  if (line.hidden) return;
  // Sentences differ in their words, and only some of the next tokens are listed.
  const named = new Map(second.map((each) => [each.name, each]));
  const parts = first.filter((each) => named.has(each.name)).map((each) => {
    const other = named.get(each.name);
    if (!each.label) return `${each.name}: ${shown(other.value - each.value)}`;
    if (first.length > MOST_IN_FULL || !Object.keys(each.probabilities).length) {
      return `${each.name}: ${each.label === other.label ? "the same" : `${other.label} for ${each.label}`}`;
    }
    const both = Object.entries(each.probabilities).filter(([label]) => Object.hasOwn(other.probabilities, label));
    const shares = both.map(([label, share]) => `${label} ${shown(other.probabilities[label] - share)}`);
    return `${each.name}: ${shares.join(", ")}`;
  });
  line.textContent = `second less first: ${parts.join("; ")}`;
}

function compare() {
  const on = byId("compare").checked;
  if (on && panels.length < 2) {
    panels.push(new Panel("b"));
    for (const [place, cell] of panels[1].cells.entries()) cell.value = panels[0].cells[place].value;
    panels[1].changed();
    byId("panels").append(panels[1].root);
  }
  if (panels[1]) panels[1].root.hidden = !on;
  difference();
}

// The reference for programs: a link has no key, so that the page fetches and shows it, and is hidden meanwhile.
async function reference(event) {
  if (!wantsKey) return;
  event.preventDefault();
  if (model === null) return document.querySelector("form [name=key]").focus();
  const answer = await fetch("docs", { headers: withKey({}) });
  if (!answer.ok) return;
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  const manual = element("div", { className: "manual" }, ...parsed.body.childNodes);
  const instead = (address, act) => manual.querySelector(`a[href="${address}"]`).addEventListener("click", (click) => {
    click.preventDefault();
    act();
  });
  instead("./", () => {
    manual.remove();
    document.body.classList.remove("behind");
  });
  instead("openapi.json", async () => save(await (await fetch("openapi.json", { headers: withKey({}) })).blob(), "openapi.json"));
  document.body.classList.add("behind");
  document.body.append(manual);
  scrollTo(0, 0);
}

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Whether the server answers; where it needs a key, the page has a field for it.
async function open() {
  const answer = await fetch("model", { headers: withKey({}) });
  if (answer.status === 401) {
    wantsKey = true;
    byId("about").textContent = key ? "The server does not know this key." : "The server wants a key.";
    askForKey();
    return false;
  }
  if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
  model = await answer.json();
  return true;
}

function askForKey() {
  const form = byId("key").content.cloneNode(true).firstElementChild;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    key = form.elements.key.value.trim();
    form.remove();
    start();
  });
  byId("panels").append(form);
  form.elements.key.focus();
}

async function begin() {
  if (!(await open())) return;
  const { model: name, rows, targets = [] } = model.facts;
  byId("about").textContent = [name, `over ${rows}`, targets.length ? `predicts ${targets.join(", ")}` : ""].filter(Boolean).join(", ");
  panels.push(new Panel("a"));
  byId("panels").append(panels[0].root);
  byId("compare").addEventListener("change", compare);
  panels[0].cells[0].focus();
}

const start = () => begin().catch((error) => { byId("about").textContent = `The model cannot be read: ${error.message}`; });

document.querySelector('a[href="docs"]').addEventListener("click", reference);
start();
