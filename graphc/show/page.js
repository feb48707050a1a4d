"use strict";
/* The page of a plan. All text comes from data, and is put in as text only. */

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let picture = null; // the data of the page
let program = null; // the program that is shown
let parts = null; // its parts: what can be opened
let chosen = null; // the part, or line, that details are shown of
let given = {}; // numbers of symbols, for the question what if

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((c) => c !== null && c !== undefined));
  return made;
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const counted = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
const seconds = (s) => `${s < 10 ? s.toFixed(2) : s.toFixed(1)} s`;

/* ---- columns of small numbers: as graphc/show/columns.py writes them ---- */

function summed(steps) {
  let last = 0;
  return steps.map((n) => (last += n));
}

function valuesFrom({ places, names, types, literals }) {
  const values = {};
  summed(places).forEach((v, i) => {
    values[v] = { name: names[i], type: types[i], node: null, literal: literals[v] || "" };
  });
  return values;
}

function linesFrom({ files, file, line, code }) {
  return summed(line).map((number, i) =>
    ({ file: files[file[i]], line: number, code: code[i] }));
}

function nodesFrom(columns, values) {
  const lines = summed(columns.line), starts = summed(columns.starts), nodes = {};
  summed(columns.places).forEach((place, i) => {
    const outputs = columns.more[place] || [starts[i]];
    outputs.forEach((v) => { values[v].node = place; });
    nodes[place] = {
      place, outputs, op: columns.ops[columns.op[i]], line: lines[i],
      inputs: columns.inputs[i].map((v) => v + starts[i]),
      params: columns.params[place] || "", bodies: columns.bodies[place] || [],
    };
  });
  return nodes;
}

function edgesFrom(columns) {
  if (!columns.length) return [];
  const [starts, spans, lanes, firsts, more] = columns;
  const first = summed(firsts);
  return summed(starts).map((start, i) =>
    [start, start + spans[i], lanes[i], [first[i], ...(more[i] || [])]]);
}

/* ---- sizes: sums of products, evaluated for the numbers that are given ---- */

const FUNCTIONS = {
  "//": (a, b) => (b === 0 ? undefined : Math.floor(a / b)),
  "*": (...all) => all.reduce((a, b) => a * b, 1),
  min: Math.min,
  max: Math.max,
  clip: (index, size) => (index < 0 ? Math.max(index + size, 0) : Math.min(index, size)),
  stretch: (...all) => all.find((n) => n !== 1) ?? 1,
};

function geometric(size, growth, minimum) {
  let capacity = minimum;
  while (capacity < size) {
    capacity = Math.max(capacity + 1, Math.ceil(capacity * growth));
  }
  return capacity;
}

function capacityFor(how, size) {
  if (how.buckets.length) {
    const bucket = how.buckets.find((b) => size <= b);
    if (bucket !== undefined) return bucket;
    const last = how.buckets[how.buckets.length - 1];
    return how.open_ended ? geometric(size, how.growth, last) : undefined;
  }
  if (how.multiple) return Math.max(Math.ceil(size / how.multiple), 1) * how.multiple;
  return geometric(size, how.growth, how.minimum);
}

class Sizes {
  constructor(one, numbers) {
    this.one = one;
    this.numbers = { ...numbers };
    this.known = {};
  }

  symbol(place) {
    if (place in this.numbers) return this.numbers[place];
    const symbol = this.one.symbols[place];
    if (symbol.kind === "capacity" && symbol.capacity) {
      const size = this.symbol(symbol.of);
      return size === undefined ? undefined : capacityFor(symbol.capacity, size);
    }
    if (symbol.of !== null && symbol.kind !== "capacity") return this.symbol(symbol.of);
    if (symbol.formula !== null) return this.size(symbol.formula);
    return undefined;
  }

  size(ref) {
    if (typeof ref === "number") return ref;
    if (!(ref in this.known)) this.known[ref] = this.computed(ref);
    return this.known[ref];
  }

  computed(ref) {
    const { terms } = this.one.sizes[ref];
    if (terms === null) return undefined;
    let sum = 0;
    for (const [coefficient, factors] of terms) {
      let product = coefficient;
      for (const factor of factors) {
        const value = Array.isArray(factor)
          ? this.call(factor[0], factor[1])
          : this.symbol(factor);
        if (value === undefined) return undefined;
        product *= value;
      }
      sum += product;
    }
    return sum;
  }

  call(name, args) {
    const values = args.map((a) => this.size(a));
    return values.includes(undefined) ? undefined : FUNCTIONS[name](...values);
  }

  type(place) {
    const type = program.types[place];
    const shape = type.shape.map((ref) => this.size(ref));
    const texts = shape.map((n, i) =>
      n === undefined ? program.shapeTexts[place][i] : String(n));
    return `${type.dtype}[${texts.join(", ")}]`;
  }
}

const isAsked = (symbol) => ["axis", "argument", "count"].includes(symbol.kind);
/* Whether a program serves these sizes: undefined where more of them must be known. */
function serves(p, sizes) {
  const holds = p.predicates.map((fact) => {
    const left = sizes.size(fact.left), right = sizes.size(fact.right);
    if (left === undefined || right === undefined) return undefined;
    return (fact.relation === "==" ? left === right : left >= right) === fact.answer;
  });
  return holds.includes(false) ? false : holds.includes(undefined) ? undefined : true;
}

function typeText(place) {
  return Object.keys(given).length
    ? new Sizes(program, given).type(place)
    : program.types[place].text;
}

/* ---- parts: steps, blocks that repeat, source lines, nodes ---- */

class Part {
  constructor(kind, parent, data) {
    Object.assign(this, { kind, parent, data, children: [], edges: [] });
    this.gives = new Set(); // values that other parts take
    this.box = null;
  }

  get opened() {
    return this.box !== null && this.box.dataset.open === "yes";
  }
}

function addRows(part, { rows, edges, more }) {
  const start = part.children.length;
  part.data.more = (part.data.more || 0) + more;
  for (const [count, total, runs, inner] of rows) {
    if (count === 1 && runs.length === 1) {
      part.children.push(run(part, runs[0]));
      continue;
    }
    const block = new Part("block", part, { count, total, lines: runs.length });
    for (const one of runs) block.children.push(run(block, one));
    addEdges(block, inner, 0);
    part.children.push(block);
  }
  addEdges(part, edges, start);
}

function addEdges(part, edges, start) {
  for (const [a, b, lane, values] of edgesFrom(edges)) {
    part.edges.push([a + start, b + start, lane, values]);
    values.forEach((v) => part.children[a + start].gives.add(v));
  }
}

function run(parent, [line, nodes, more, edges]) {
  const part = new Part("line", parent, { line, count: nodes.length + more, more });
  for (const place of summed(nodes)) part.children.push(node(part, place));
  addEdges(part, edges, 0);
  (program.partsOfLine[line] ||= []).push(part);
  return part;
}

function node(parent, place) {
  const data = program.nodes[place], { inputs, outputs, bodies } = data;
  const part = new Part("node", parent, data);
  program.partOfNode[place] = part;
  outputs.forEach((v) => part.gives.add(v));
  inputs.forEach((v) => (program.takers[v] ||= []).push(part));
  for (const body of bodies) {
    if (bodies.length === 1) addRows(part, body);
    else {
      const inner = new Part("body", part, { index: part.children.length });
      addRows(inner, body);
      part.children.push(inner);
    }
  }
  return part;
}

function stepPart(parent, data) {
  const part = new Part("step", parent, data);
  addRows(part, data.rows);
  for (const value of data.outputs) {
    const maker = program.values[value].node;
    let inner = program.partOfNode[maker];
    while (inner && inner !== part) {
      inner.gives.add(value);
      inner = inner.parent;
    }
    part.gives.add(value);
  }
  const start = part.children.length;
  for (const step of data.inner.steps || []) part.children.push(stepPart(part, step));
  addEdges(part, data.inner.edges || [], start);
  if (data.segment !== null) program.segments[data.segment] = part;
  return part;
}

function rootPart() {
  const root = new Part("root", null, {});
  root.children.push(new Part("arguments", root, { values: program.inputs }));
  for (const step of program.steps) root.children.push(stepPart(root, step));
  root.children.push(new Part("results", root, { values: program.outputs }));
  addEdges(root, program.edges, 0);
  program.inputs.forEach((v) => root.children[0].gives.add(v));
  return root;
}

/* ---- words for parts ---- */

const nameOf = (value) => {
  const one = program.values[value];
  return one ? one.literal || one.name : "?";
};
const isPadded = (value) =>
  program.types[program.values[value].type].shape.some((ref) =>
    (program.sizes[ref]?.terms || []).some(([, factors]) =>
      factors.some((f) => program.symbols[f]?.kind === "capacity")));
const place = (line) => `${program.lines[line].file}:${program.lines[line].line}`;
const symbols = (places) => places.map((s) => program.symbols[s].name).join(", ");
const GLUE = {
  read: "read one integer from the device",
  host: "on the host",
  check: "check",
  join: "join the pieces",
  loop: "loop run by Python",
};

function keysText(step) {
  if (!program.compiled || step.segment === null) return "";
  return step.keys.length ? `compiled per ${symbols(step.keys)}` : "compiled once";
}

function words(part) {
  const { data } = part;
  switch (part.kind) {
    case "arguments": return ["arguments", ""];
    case "results": return ["results", data.values.some(isPadded) ? "cut to true sizes" : ""];
    case "block":
      return [`${data.count} times alike`,
        `${counted(data.lines, "line")}, ${counted(data.total, "node")} in all`];
    case "body": return [`graph ${data.index}`, ""];
    case "line": return [place(data.line), program.lines[data.line].code];
    case "node":
      return [data.op, [...data.inputs.map(nameOf), data.params].filter(Boolean)
        .join(", ")];
  }
  if (data.kind === "segment") {
    return [`segment ${data.segment}`, counted(data.count, "node")];
  }
  if (data.kind === "program") return ["program", counted(data.count, "node")];
  const of = data.kind === "read" ? symbols(data.keys) : data.text;
  return [GLUE[data.kind], of];
}

/* ---- drawing ---- */

const MOST_CHIPS = 6, AT_ONCE = 150;

function chips(part) {
  const values = [...new Set(part.data.values || part.gives)];
  const statics = part.kind === "arguments" ? program.static_inputs : [];
  const list = el("span", { class: "chips" });
  values.slice(0, MOST_CHIPS).forEach((value) => {
    const { type } = program.values[value];
    const fixed = statics.some((i) => program.inputs[i] === value);
    list.append(el("span", { class: fixed ? "chip static" : "chip", "data-type": type },
      el("b", {}, nameOf(value)), " ", el("span", { class: "type" }, typeText(type)),
      fixed ? " static" : ""));
  });
  const more = values.length - MOST_CHIPS;
  if (more > 0) list.append(el("span", { class: "chip" }, `${more} more`));
  return list;
}

function marks(part) {
  const list = el("span", { class: "marks" });
  if (part.kind === "step") {
    const step = part.data;
    const keys = keysText(step);
    if (keys) list.append(el("span", { class: "mark" }, keys));
    if (step.statics.length) {
      list.append(el("span", { class: "mark static" }, `static ${symbols(step.statics)}`));
    }
    if (step.kind === "segment" && step.text) {
      list.append(el("span", { class: "mark" }, step.text));
    }
    const done = compilationsOf(step.segment);
    if (done.length) {
      const total = done.reduce((sum, c) => sum + c.seconds, 0);
      list.append(el("span", { class: "mark" },
        `${counted(done.length, "compilation")}, ${seconds(total)}`));
    }
  }
  if (part.kind === "line" && part.data.count > 1) {
    list.append(el("span", { class: "mark" }, counted(part.data.count, "node")));
  }
  return list;
}

const compilationsOf = (segment) =>
  segment === null ? [] : program.compilations.filter((c) => c.segment === segment);

function drawn(part) {
  const [name, more] = words(part);
  const opens = part.children.length > 0;
  const kind = part.kind === "step" ? part.data.kind : part.kind;
  const head = el("button", {
    type: "button",
    class: "head",
    "aria-expanded": opens ? "false" : null,
    onclick: () => { if (opens) toggle(part); choose(part); },
  }, el("span", { class: "name" }, name), " ",
    el("span", { class: "more" }, more), marks(part));
  part.box = el("div", { class: `part ${kind}`, "data-open": "no" }, head, chips(part));
  part.head = head;
  return part.box;
}

function stack(part) {
  const lanes = part.edges.reduce((most, e) => Math.max(most, e[2]), 0);
  const list = el("div", { class: "stack" });
  list.style.setProperty("--lanes", lanes);
  part.arcs = svg("svg", { class: "arcs", "aria-hidden": "true" });
  list.append(part.arcs);
  part.stack = list;
  part.shown = 0;
  extend(part, AT_ONCE);
  if (part.data.more) {
    list.append(el("p", { class: "note" },
      `${counted(part.data.more, "more node")}: see f.plan.to_json()`));
  }
  return list;
}

/* Of many parts, the first are drawn; a button draws more. */
function extend(part, count) {
  const { children, stack: list } = part;
  const fresh = children.slice(part.shown, count);
  part.shown = Math.max(part.shown, Math.min(count, children.length));
  const old = list.querySelector(":scope > .further");
  list.append(...fresh.map(drawn));
  if (old) old.remove();
  const left = children.length - part.shown;
  if (left > 0) {
    list.append(el("button", { type: "button", class: "link further", onclick: () => {
      extend(part, part.shown + AT_ONCE);
      redraw();
    } }, `show more: ${left} are left`));
  }
}

function toggle(part, open = !part.opened) {
  if (!part.children.length || part.opened === open) return;
  part.box.dataset.open = open ? "yes" : "no";
  part.head.setAttribute("aria-expanded", String(open));
  if (open) part.box.append(stack(part));
  else {
    part.stack.remove();
    part.stack = null;
    forget(part);
  }
  redraw();
}

function forget(part) {
  for (const child of part.children.slice(0, part.shown)) {
    child.box = child.head = null;
    if (child.stack) { child.stack = null; forget(child); }
  }
}

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const visit = (part) => {
      if (!part.stack) return;
      arcs(part);
      part.children.slice(0, part.shown).forEach(visit);
    };
    visit(parts);
  });
}

function arcs(part) {
  const frame = part.stack.getBoundingClientRect();
  const x0 = parseFloat(getComputedStyle(part.stack).paddingLeft);
  const drawnParts = part.children.slice(0, part.shown);
  const middles = drawnParts.map((child) => {
    const box = child.head.getBoundingClientRect();
    return box.top - frame.top + box.height / 2;
  });
  part.arcs.setAttribute("width", x0);
  part.arcs.setAttribute("height", frame.height);
  const edges = part.edges.filter(([, b]) => b < part.shown);
  part.arcs.replaceChildren(...edges.map(([a, b, lane, values]) => {
    const x = x0 - 7 - lane * 7, up = middles[a] + 3, down = middles[b] - 3;
    const on = chosen === part.children[a] || chosen === part.children[b];
    const line = `M${x0} ${up}H${x + 5}Q${x} ${up} ${x} ${up + 5}` +
      `V${down - 5}Q${x} ${down} ${x + 5} ${down}H${x0 - 4}`;
    const tip = `M${x0 - 5} ${down - 3}L${x0} ${down}L${x0 - 5} ${down + 3}Z`;
    const title = svg("title", {});
    title.textContent = values.map((v) =>
      `${nameOf(v)}: ${typeText(program.values[v].type)}`).join("\n");
    return svg("g", { class: on ? "arc on" : "arc" },
      svg("path", { d: line, class: "wire" }), svg("path", { d: tip }), title);
  }));
}

/* ---- choosing: details of a part or of a source line ---- */

function reveal(part) {
  const path = [];
  for (let p = part.parent; p && p.parent; p = p.parent) path.unshift(p);
  for (const p of [...path, part]) {
    const at = p.parent.children.indexOf(p);
    if (at >= p.parent.shown) extend(p.parent, at + 1);
    if (p !== part) toggle(p, true);
  }
  if (part.head) {
    part.head.focus({ preventScroll: true });
    part.box.scrollIntoView({ block: "center" });
  }
}

function go(part) {
  reveal(part);
  choose(part);
}

function choose(part) {
  chosen = part;
  document.querySelectorAll(".chosen").forEach((e) => e.classList.remove("chosen"));
  if (part.box) part.box.classList.add("chosen");
  const line = part.data.line;
  if (line !== undefined && line !== null) mark(line);
  show(...detailsOf(part));
  redraw();
}

function mark(line) {
  document.querySelectorAll("#code .src").forEach((e) => {
    const on = e.dataset.line === String(line);
    e.classList.toggle("chosen", on);
    const frame = $("code"), top = e.offsetTop - frame.offsetTop;
    const seen = top >= frame.scrollTop && top < frame.scrollTop + frame.clientHeight - 30;
    if (on && !seen) frame.scrollTop = top - frame.clientHeight / 3;
  });
}

function chooseLine(line) {
  const [first] = program.partsOfLine[line] || [];
  if (first) reveal(first);
  if (first) chosen = first;
  document.querySelectorAll(".part.chosen").forEach((e) => e.classList.remove("chosen"));
  for (const part of program.partsOfLine[line] || []) {
    if (part.box) part.box.classList.add("chosen");
  }
  mark(line);
  show(place(line), ...aboutLine(line));
  redraw();
}

function show(title, ...sections) {
  $("details").replaceChildren(el("h2", {}, title), ...sections.filter(Boolean));
}

const section = (title, ...children) =>
  children.length ? el("section", {}, el("h3", {}, title), ...children) : null;
const list = (items) => el("ul", {}, ...items.map((item) => el("li", {}, item)));
const jump = (part, text) =>
  el("button", { type: "button", class: "link", onclick: () => go(part) }, text);
const pre = (text) => el("pre", {}, text);
/* Emitted code keeps its lines: it is scrolled, without the margin that all lines share. */
function emitted(lines) {
  const margins = lines.filter((l) => l.trim()).map((l) => /^ */.exec(l)[0].length);
  const least = Math.min(...margins, 80);
  return el("pre", { class: "emitted", tabindex: "0" },
    lines.map((l) => l.slice(least)).join("\n"));
}

function detailsOf(part) {
  const { data } = part;
  if (part.kind === "line") return [place(data.line), ...aboutLine(data.line)];
  if (part.kind === "node") return [`${data.op}`, ...aboutNode(part)];
  if (part.kind === "step") return [words(part)[0], ...aboutStep(data)];
  if (part.kind === "arguments") return ["arguments", aboutChecks(() => true)];
  return words(part);
}

function valueLine(value, part) {
  const { type } = program.values[value];
  const text = `${nameOf(value)}: ${typeText(type)}`;
  return part ? jump(part, text) : text;
}

function aboutNode(part) {
  const { data } = part;
  const takers = data.outputs.flatMap((v) => program.takers[v] || []);
  return [
    section("from", ...(data.inputs.length ? [list(data.inputs.map((v) =>
      valueLine(v, program.partOfNode[program.values[v].node])))] : [])),
    section("gives", list(data.outputs.map((v) => valueLine(v)))),
    section("goes to", ...(takers.length ? [list(takers.map((t) =>
      jump(t, `${t.data.op} at ${place(t.data.line)}`)))] : [])),
    data.params ? section("with", pre(data.params)) : null,
    ...aboutLine(data.line),
  ];
}

function aboutStep(step) {
  const own = program.code.functions[`segment_${step.segment}`];
  const asked = step.line === null ? null : section("asked for at",
    el("button", { type: "button", class: "link",
      onclick: () => chooseLine(step.line) }, place(step.line)),
    pre(program.lines[step.line].code));
  return [
    section("why", el("p", {}, step.reason)),
    step.remedy ? section("without it", el("p", {}, step.remedy)) : null,
    step.kind === "segment" ? null : asked,
    section("takes", ...(step.inputs.length
      ? [list(step.inputs.map((v) => valueLine(v)))] : [])),
    aboutCompilations([step.segment]),
    own ? section("emitted code", emitted(own)) : null,
  ];
}

function aboutCompilations(segments) {
  const rows = program.compilations.filter((c) => segments.includes(c.segment));
  if (!rows.length) return null;
  const row = (cells, tag) => el("tr", {}, ...cells.map((c) => el(tag, {}, c)));
  const why = (c) => el("tr", { class: "reason" }, el("td", { colspan: "4" }, c.reason));
  return section("compilations", el("table", { class: "compilations" },
    row(["part", "sizes", "seconds", "calls"], "th"),
    ...rows.flatMap((c) => [row([String(c.segment),
      Object.entries(c.sizes).map(([k, n]) => `${k}=${n}`).join(" ") || "-",
      c.seconds.toFixed(3), c.calls === null ? "-" : String(c.calls)], "td"), why(c)])));
}

function aboutChecks(wanted) {
  const checks = program.size_checks.filter(wanted);
  return section("size checks", ...(checks.length ? [list(checks.map((c) =>
    `${c.text}: ${c.reason} (${c.op} at ${place(c.line)})`))] : []));
}

function aboutLine(line) {
  const own = program.partsOfLine[line] || [];
  const nodes = own.flatMap((p) => p.children);
  const segments = [...new Set(own.map((p) => {
    let step = p;
    while (step && step.kind !== "step") step = step.parent;
    return step ? step.data.segment : null;
  }))];
  const rules = program.rewrites.filter((r) => r.line === line);
  const code = program.code.places[place(line)] || [];
  return [
    pre(program.lines[line].code),
    section("nodes", ...(nodes.length ? [list(nodes.slice(0, 60).map((n) =>
      jump(n, `${n.data.op} → ${n.data.outputs.map((v) => valueLine(v)).join(", ")}`)))]
      : [])),
    section("emitted code", ...(code.length ? [emitted(code.slice(0, 200))] : [])),
    section("rules applied", ...(rules.length ? [list(rules.map(ruleText))] : [])),
    aboutChecks((c) => c.line === line),
    aboutCompilations(segments),
  ];
}

const ruleText = (r) =>
  el("span", {}, el("b", {}, r.rule), r.count > 1 ? ` (${r.count} times)` : "",
    pre(`${r.before}\n→ ${r.after}`));

/* ---- the user's source ---- */

const MOST_LINES = 600;

function drawSource() {
  const rows = [];
  const order = program.lines.map((l, i) => [l, i]).sort(([a], [b]) =>
    a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line);
  let file = null, last = 0;
  for (const [line, i] of order.slice(0, MOST_LINES)) {
    if (line.file !== file) {
      rows.push(el("h3", {}, line.file));
      file = line.file;
    } else if (line.line > last + 1) rows.push(el("div", { class: "gap" }, "⋮"));
    last = line.line;
    const own = program.partsOfLine[i] || [];
    const count = own.reduce((n, p) => n + p.data.count, 0);
    rows.push(el("button", { type: "button", class: own.length ? "src" : "src unused",
      "data-line": i, onclick: () => chooseLine(i) },
      el("span", { class: "number" }, String(line.line)),
      el("code", {}, line.code || " "),
      el("span", { class: "mark" }, count ? String(count) : "")));
  }
  const left = order.length - MOST_LINES;
  if (left > 0) rows.push(el("p", { class: "note" }, `and ${left} more lines`));
  $("code").replaceChildren(el("h2", {}, "your lines"), ...rows);
}

function codeOf(source) {
  const places = {}, functions = {};
  let name = null, at = null;
  for (const line of source.split("\n")) {
    const begins = /^def (\w+)\(/.exec(line);
    if (begins) { name = begins[1]; at = null; functions[name] = []; }
    else if (/^\S/.test(line)) { name = null; at = null; }
    if (name === null) continue;
    functions[name].push(line);
    const remark = /^\s*# (.+?:\d+)(?:: |$)/.exec(line);
    if (remark) [, at] = remark;
    else if (at !== null && line.trim()) (places[at] ||= []).push(line);
  }
  return { places, functions };
}

/* ---- search ---- */

function search(text) {
  const words_ = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words_.length) return;
  const hits = [];
  for (const part of Object.values(program.partOfNode)) {
    const types = part.data.outputs.map((v) => valueLine(v)).join(" ");
    const line = program.lines[part.data.line];
    const all = `${part.data.op} ${types} ${place(part.data.line)} ${line.code}`;
    if (words_.every((w) => all.toLowerCase().includes(w))) hits.push([part, types]);
  }
  const first = ([part]) => (part.data.op.includes(words_[0]) ? 0 : 1);
  hits.sort((a, b) => first(a) - first(b)); // ops before lines that have the word
  const more = hits.length - 100;
  show(`search: ${counted(hits.length, "node")}`,
    list(hits.slice(0, 100).map(([part, types]) =>
      jump(part, `${part.data.op} → ${types} at ${place(part.data.line)}`))),
    more > 0 ? el("p", {}, `and ${more} more`) : null,
    program.count > Object.keys(program.partOfNode).length
      ? el("p", {}, "Nodes of folded copies are not searched.") : null);
}

/* ---- rewrite steps ---- */

function drawRewrites() {
  const rules = program.rewrites;
  const box = $("rewrites");
  box.hidden = !rules.length;
  if (!rules.length) return;
  const total = rules.reduce((n, r) => n + r.count, 0);
  const out = el("div", { class: "rule", "aria-live": "polite" });
  const slider = el("input", { type: "range", min: 1, max: rules.length, value: 1,
    "aria-label": "rewrite step", id: "step" });
  const tell = (follow) => {
    const i = Number(slider.value) - 1, rule = rules[i];
    out.replaceChildren(
      el("p", {}, `step ${i + 1} of ${rules.length}: `, el("b", {}, rule.rule),
        rule.count > 1 ? `, ${rule.count} times` : "",
        rule.exact ? ", exact" : ", equal up to rounding"),
      rule.about ? el("p", { class: "more" }, rule.about) : null,
      el("p", {}, el("button", { type: "button", class: "link",
        onclick: () => chooseLine(rule.line) }, place(rule.line))),
      el("pre", { class: "before" }, rule.before), el("pre", { class: "after" }, rule.after));
    if (follow) mark(rule.line);
  };
  slider.addEventListener("input", () => tell(true));
  box.replaceChildren(
    el("h2", {}, `rewrites: ${counted(total, "application")} of rules`),
    slider, out);
  tell(false);
}

/* ---- what if ---- */

const EARLIER = "for the sizes it is compiled for"; // as graphc/runtime/pictured.py has it

function drawWhatIf() {
  const box = $("whatif");
  const asked = program.symbols.map((s, i) => [s, i]).filter(([s]) => isAsked(s));
  box.hidden = !asked.length && !program.predicates.length;
  const out = el("div", { "aria-live": "polite", id: "answer" });
  const refused = {}; // why numbers were not taken
  const fields = asked.map(([symbol, i]) => el("label", {},
    `${symbol.name}${symbol.kind === "count" ? " (from data)" : ""} `,
    el("input", { type: "number", inputmode: "numeric", "data-symbol": i,
      value: given[i] ?? null, oninput: (event) => {
        const { value, validity } = event.target, number = Number(value);
        const signed = symbol.kind === "argument";
        const empty = value === "" && !validity.badInput;
        const fits = value !== "" && Number.isSafeInteger(number) && (signed || number >= 0);
        if (fits) given[i] = number;
        else delete given[i];
        if (fits || empty) delete refused[i];
        else refused[i] = `${symbol.name}: a whole number is asked for${signed ? "" : ", 0 or more"}`;
        tell();
        renewTypes();
      } })));
  const tell = () => out.replaceChildren(
    ...Object.values(refused).map((why) => el("p", {}, why)), ...whatIf());
  box.replaceChildren(el("h2", {}, "what if"),
    el("p", { class: "more" }, "A number replaces this size everywhere on this page."),
    el("div", { class: "fields" }, ...fields), out);
  tell();
}

function whatIf() {
  const sizes = new Sizes(program, given);
  const told = [];
  for (const [i, symbol] of program.symbols.entries()) {
    if (symbol.kind === "capacity" && symbol.of !== null) {
      told.push(`${symbol.name}: ${capacityText(i, sizes)}`);
    }
  }
  if (program.predicates.length) told.push(...servedBy());
  told.push(...earlier());
  for (const [i, step] of Object.entries(program.segments)) {
    if (program.compiled) told.push(`segment ${i}: ${compiles(step.data, sizes)}`);
  }
  return [list(told)];
}

function capacityText(place, sizes) {
  const symbol = program.symbols[place], capacity = sizes.symbol(place);
  if (capacity !== undefined) return capacity;
  const { name } = program.symbols[symbol.of], size = sizes.symbol(symbol.of);
  const full = symbol.capacity && size !== undefined;
  return full ? `no bucket has room for ${name} = ${size}: such a call is an error`
    : `a capacity for ${name}`;
}

/* The sizes that are given, for another program, whose symbols have the same names. */
function sizesOf(one) {
  const names = {}, own = {};
  for (const [i, n] of Object.entries(given)) names[program.symbols[i].name] = n;
  one.symbols.forEach((s, i) => { if (s.name in names) own[i] = names[s.name]; });
  return new Sizes(one, own);
}

/* Programs that were in use before still serve the sizes that they are compiled for. */
function earlier() {
  if (!Object.keys(given).length) return [];
  return picture.programs.flatMap((one) => {
    if (one.name === program.name || !one.serves.endsWith(EARLIER)) return [];
    const sizes = sizesOf(one), segments = new Set(one.compilations.map((c) => c.segment));
    const all = (fits) => segments.size && [...segments].every((i) =>
      one.compilations.some((c) => c.segment === i &&
        c.keys.every(([s, n]) => fits(sizes.symbol(s), n))));
    if (all((size, n) => size === n)) return [`▶ served by ${one.name}, which is compiled for it`];
    const may = all((size, n) => size === n || size === undefined);
    return may ? [`may be served by ${one.name}, depending on data`] : [];
  });
}

function servedBy() {
  return picture.programs.flatMap((one) => {
    if (!one.predicates.length) return [];
    const yes = serves(one, sizesOf(one));
    const verdict = yes === undefined ? "may be served by" : yes ? "▶ served by" : "not by";
    return [`${verdict} ${one.name}`];
  });
}

function compiles(step, sizes) {
  if (!step.keys.length) return "compiled once, for all sizes";
  const keys = step.keys.map((s) => [s, sizes.symbol(s)]);
  const unknown = keys.filter(([, n]) => n === undefined);
  const told = keys.map(([s, n]) => `${program.symbols[s].name} = ${n ?? "?"}`).join(", ");
  if (unknown.length) return `compiled for ${told}`;
  const done = compilationsOf(step.segment).find((c) =>
    keys.every(([s, n]) => c.keys.every(([k, m]) => k !== s || m === n)) &&
    c.keys.length > 0);
  return done ? `already compiled for ${told} (${seconds(done.seconds)})`
    : `compiles for ${told}`;
}

function renewTypes() {
  document.querySelectorAll(".chip[data-type] .type").forEach((e) => {
    e.textContent = typeText(Number(e.parentElement.dataset.type));
  });
  redraw();
}

/* ---- the whole page ---- */

function unpacked(one) {
  const values = valuesFrom(one.values);
  return { ...one, values, nodes: nodesFrom(one.nodes, values),
    lines: linesFrom(one.lines) };
}

function use(place_) {
  program = unpacked(picture.programs[place_]);
  given = {};
  chosen = null;
  Object.assign(program, { partOfNode: {}, partsOfLine: {}, takers: {}, segments: {} });
  program.code = codeOf(program.source);
  program.shapeTexts = program.types.map((t) => t.shape.map((ref) =>
    typeof ref === "number" ? String(ref) : program.sizes[ref].text));
  parts = rootPart();
  $("parts").replaceChildren(stack(parts));
  $("facts").textContent = [
    `${program.backend === "jax" ? "JAX" : "NumPy"} program`,
    program.serves, counted(program.count, "node"),
    program.calls === null ? "" : counted(program.calls, "call"),
    program.left_out ? `${program.left_out} nodes are not on this page` : "",
    program.source_left ? "emitted code is cut" : "",
  ].filter(Boolean).join(" · ");
  drawNotes([...picture.notes, ...program.notes]);
  drawSource();
  drawRewrites();
  drawWhatIf();
  const most = parts.children.filter((p) => p.kind === "step");
  if (most.length === 1 && most[0].children.length < 40) toggle(most[0], true);
  show("details", el("p", {}, "Choose a step, a line or a node. Press / to search, and arrows to move."));
  redraw();
}

function drawNotes(notes) {
  $("notes").replaceChildren(...notes.map((n) => el("li", {}, n)));
}

/* The head of the part around that of a head, or itself where it is outermost. */
const outer = (head) => head.parentElement.parentElement.closest(".part")
  ?.querySelector(":scope > .head") || head;

function heads() {
  return [...document.querySelectorAll("#parts .head")];
}

function onKey(event) {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    $("search").focus();
    return;
  }
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || !event.target.matches(".head")) return;
  const all = heads(), at = all.indexOf(event.target);
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (move && all[at + move]) {
    event.preventDefault();
    all[at + move].focus();
  }
  const open = { ArrowRight: "false", ArrowLeft: "true" }[event.key];
  if (!open) return;
  event.preventDefault();
  if (event.target.getAttribute("aria-expanded") === open) event.target.click();
  else if (event.key === "ArrowLeft") outer(event.target).focus();
  else if (event.target.hasAttribute("aria-expanded")) all[at + 1].focus();
}

async function start() {
  const packed = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  picture = JSON.parse(await new Response(stream).text());
  const menu = $("programs");
  picture.programs.forEach((p, i) => menu.append(el("option", { value: i }, p.name)));
  menu.hidden = picture.programs.length < 2;
  const last = picture.programs.length - 1;
  menu.value = String(last);
  menu.addEventListener("change", () => use(Number(menu.value)));
  $("search").addEventListener("change", (event) => search(event.target.value));
  document.addEventListener("keydown", onKey);
  addEventListener("resize", redraw);
  if (last >= 0) use(last);
  else drawNotes(picture.notes);
  document.body.dataset.ready = "yes";
}

start().catch((error) => {
  $("facts").textContent = `This page could not be drawn: ${error.message}. ` +
    "The table below tells the steps.";
  throw error;
});
