// The page's script: lays out what is open, draws it as SVG, and answers clicks. Data comes from the page itself; nothing is fetched.
"use strict";
(() => {
const DATA = JSON.parse(document.getElementById("data").textContent);
const OPEN_AT_START = 70;     // leaves that are shown before the reader opens anything
const MOST_EDGES = 8;         // of one value; more readers name it instead
const LARGEST = 1500;         // leaves that "open all" goes up to
const SEVERITY = ["blocker", "removed", "added", "changed", "warning"];
const SVG = "http://www.w3.org/2000/svg";

const FAMILIES = {
  "#2f5d9b": "Conv ConvTranspose ConvInteger QLinearConv Gemm MatMul MatMulInteger QLinearMatMul Einsum LSTM GRU RNN DeformConv Attention",
  "#7a3b2e": "Relu LeakyRelu PRelu Sigmoid Tanh Softmax LogSoftmax Elu Selu Celu Gelu Clip HardSigmoid HardSwish Mish Softplus Softsign Erf ThresholdedRelu Swish",
  "#2d6b4a": "MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool MaxRoiPool RoiAlign Resize Upsample GridSample",
  "#6b3f86": "If Loop Scan SequenceMap",
  "#7b6a1d": "Reshape Transpose Flatten Squeeze Unsqueeze Expand Tile Slice Gather GatherND GatherElements ScatterND ScatterElements Concat Split Pad Shape Size DepthToSpace SpaceToDepth Identity Cast CastLike NonZero TopK Range ConstantOfShape Where",
  "#24676b": "BatchNormalization InstanceNormalization LayerNormalization GroupNormalization RMSNormalization LpNormalization LRN Dropout",
  "#8a4566": "QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
};
const COLOR = {};
for (const [color, ops] of Object.entries(FAMILIES)) for (const op of ops.split(" ")) COLOR[op] = color;
const colorOf = (node) => node.d ? "#8c2f4f" : COLOR[node.o] || "#4a5568";

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) key === "onclick" ? (made.onclick = value) : made.setAttribute(key, value);
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}
function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
}
const shorten = (text, length) => text.length <= length ? text : text.slice(0, Math.ceil(length / 2) - 1) + "…" + text.slice(text.length - Math.floor(length / 2));
const worst = (marks) => SEVERITY.find((kind) => marks.some((m) => m[0] === kind));

// What the data says, with the links that the script needs.
class Model {
  constructor(data) {
    Object.assign(this, data);
    this.makers = new Map();   // tensor -> node
    this.readers = new Map();  // tensor -> nodes
    this.nodes.forEach((node, k) => {
      node.k = node.k || [];
      for (const t of node.u) if (t >= 0) this.makers.set(t, k);
      for (const t of node.i) if (t >= 0) { if (!this.readers.has(t)) this.readers.set(t, []); this.readers.get(t).push(k); }
    });
    this.graphs.forEach((graph, g) => {
      graph.children = new Map([[-1, []]]);
      graph.groups.forEach((_, k) => graph.children.set(k, []));
    });
    // What only hands a stored value on is drawn as a weight of its readers, and its marks at them.
    this.nodes.forEach((node) => {
      if (node.q) return;
      node.all = [...node.k];
      for (const t of node.i) for (let at = this.makers.get(t); at !== undefined && this.nodes[at].q; at = this.makers.get(this.nodes[at].i[0])) node.all.push(...this.nodes[at].k);
    });
    this.nodes.forEach((node, k) => { if (!node.q) this.graphs[node.g].children.get(node.s).push({node: k}); });
    this.graphs.forEach((graph) => {
      for (let k = graph.groups.length - 1; k >= 0; k--) if (graph.children.get(k).length) graph.children.get(graph.groups[k][2]).push({group: k});
      const first = new Map();
      for (let k = graph.groups.length - 1; k >= 0; k--) {
        const own = graph.children.get(k).map((c) => c.node !== undefined ? c.node : first.get(c.group));
        first.set(k, own.reduce((a, b) => Math.min(a, b), Infinity));
      }
      const place = (c) => c.node !== undefined ? c.node : first.get(c.group);
      for (const children of graph.children.values()) children.sort((a, b) => place(a) - place(b));
    });
  }
  // The node that is drawn for one: itself, or the first that reads what it hands on.
  drawn(k) { for (let step = 0; this.nodes[k].q && step < 99; step++) k = this.readers.get(this.nodes[k].u[0])[0]; return k; }
  // The nodes of a group, those inside bodies included.
  *within(g, group) {
    const pending = [...this.graphs[g].children.get(group)].map((c) => [g, c]);
    while (pending.length) {
      const [at, child] = pending.pop();
      if (child.node === undefined) { for (const c of this.graphs[at].children.get(child.group)) pending.push([at, c]); continue; }
      yield child.node;
      for (const [, body] of this.nodes[child.node].b || []) for (const c of this.graphs[body].children.get(-1)) pending.push([body, c]);
    }
  }
  count(g, group) { let n = 0; for (const _ of this.within(g, group)) n++; return n; }
  label(k) { const node = this.nodes[k]; return node.n ? `${node.o} ${node.n}` : `${node.o} #${k}`; }
}

class Pane {
  constructor(model, side, holder) {
    this.model = model; this.side = side;
    this.root = 0; this.open = new Set(); this.selected = null; this.twin = null;
    this.svg = svg("svg", {role: "img", "aria-label": model.title});
    this.svg.append(this._arrow());
    this.view = this.svg.appendChild(svg("g", {}));
    this.note = el("div", {class: "note"});
    holder.append(el("div", {class: "pane"}, this.svg, el("div", {class: "title"}, model.title), this.note));
    this._gestures();
    this.show(0);
  }
  _arrow() {
    const defs = svg("defs", {}), marker = svg("marker", {id: `arrow${this.side}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse"});
    marker.append(svg("path", {d: "M0,0.5 L8,4 L0,7.5 z", fill: "var(--edge)"}));
    defs.append(marker);
    return defs;
  }
  // -- what is open
  show(g) {
    this.root = g; this.open = new Set();
    this.openSome(OPEN_AT_START);
    this.layout(); this.fit();
  }
  openSome(limit) {
    const graph = this.model.graphs[this.root];
    let shown = graph.children.get(-1).length + graph.inputs.length + graph.outputs.length;
    const queue = [...graph.children.get(-1)].map((c) => [this.root, c]);
    let at = 0;
    while (at < queue.length) {
      const [g, child] = queue[at++];
      if (child.group !== undefined) {
        const inner = this.model.graphs[g].children.get(child.group);
        if (shown - 1 + inner.length > limit) continue;
        shown += inner.length - 1;
        this.open.add(`g${g}:${child.group}`);
        for (const c of inner) queue.push([g, c]);
      } else {
        for (const [, body] of this.model.nodes[child.node].b || []) {
          const graph = this.model.graphs[body], inner = graph.children.get(-1);
          const extra = inner.length + graph.inputs.length + graph.outputs.length + 1;
          if (shown + extra > limit) continue;
          shown += extra;
          this.open.add(`n${child.node}`);
          for (const c of inner) queue.push([body, c]);
        }
      }
    }
  }
  toggle(key) { this.open.has(key) ? this.open.delete(key) : this.open.add(key); this.keeping(key, () => this.layout()); }
  // Open everything around a node.
  reveal(k) {
    k = this.model.drawn(k);
    const steps = [];
    let g = this.model.nodes[k].g;
    for (let node = this.model.nodes[k]; ;) {
      for (let group = node.s; group >= 0; group = this.model.graphs[node.g].groups[group][2]) steps.push(`g${node.g}:${group}`);
      const owner = this.model.graphs[node.g].owner;
      if (owner < 0 || node.g === this.root) { g = node.g; break; }
      steps.push(`n${owner}`);
      node = this.model.nodes[owner];
    }
    let changed = false;
    if (this.root !== g) { this.root = g; this.open = new Set(); changed = true; pickers(); }
    for (const step of steps) if (!this.open.has(step)) { this.open.add(step); changed = true; }
    if (changed) this.layout();
  }
  // -- layout
  layout() {
    const started = performance.now();
    this.leaves = new Map(); this.clusters = new Map(); this.rep = new Map(); this.tail = new Map();
    this.valueRep = new Map(); this.frames = [];
    this._place(this.root, -1, null);
    const graph = this.model.graphs[this.root];
    graph.inputs.forEach((t, k) => this._value(`i${this.root}:${k}`, t, null, "input"));
    const edges = this._edges();
    graph.outputs.forEach((t, k) => {
      const id = `o${this.root}:${k}`;
      this._value(id, t, null, "output", true);
      this._join(edges, this._source(t), id, t);
    });
    const labels = edges.size <= 140;
    const g = new dagre.graphlib.Graph({compound: true}), nested = this.clusters.size > 0;
    g.setGraph({rankdir: "TB", nodesep: 22, edgesep: 10, ranksep: labels ? 26 : 34, marginx: 20, marginy: 20, ranker: this.leaves.size > 400 ? "longest-path" : "network-simplex"});
    g.setDefaultEdgeLabel(() => ({}));
    for (const [id, cluster] of this.clusters) g.setNode(id, {label: cluster.label, paddingTop: 18});
    for (const [id, leaf] of this.leaves) g.setNode(id, {width: leaf.width, height: leaf.height});
    if (nested) {
      for (const [id, cluster] of this.clusters) if (cluster.parent) g.setParent(id, cluster.parent);
      for (const [id, leaf] of this.leaves) if (leaf.parent) g.setParent(id, leaf.parent);
    }
    for (const edge of edges.values()) {
      const text = labels && edge.tensors.size === 1 ? this.model.tensors[[...edge.tensors][0]]?.[1] : "";
      edge.text = text ? shorten(text, 34) : "";
      g.setEdge(edge.from, edge.to, edge.text ? {width: Math.min(180, edge.text.length * 5.2), height: 12, labelpos: "c"} : {});
    }
    for (const [from, to] of this.frames) if (!g.hasEdge(from, to)) g.setEdge(from, to, {weight: 0});
    dagre.layout(g);
    this.laid = g; this.edges = edges;
    this._draw();
    this.layoutMs = performance.now() - started;
    const hidden = this._hidden();
    this.note.textContent = `${this.leaves.size} boxes` + (hidden ? `, ${hidden.toLocaleString("en")} nodes in closed groups: click one to see inside` : "") + (this.far ? `, ${this.far} edges of values that many read are named (⇠)` : "") + ` · laid out in ${Math.round(this.layoutMs)} ms`;
    document.documentElement.dataset[`leaves${this.side}`] = this.leaves.size;
    document.documentElement.dataset[`layout${this.side}`] = Math.round(this.layoutMs);
  }
  _hidden() { let n = 0; for (const leaf of this.leaves.values()) if (leaf.kind === "group") n += leaf.count; return n; }
  _place(g, group, parent) {
    for (const child of this.model.graphs[g].children.get(group)) {
      if (child.group !== undefined) this._placeGroup(g, child.group, parent);
      else this._placeNode(child.node, parent);
    }
  }
  _placeGroup(g, group, parent) {
    const id = `g${g}:${group}`, [label, kind] = this.model.graphs[g].groups[group];
    if (this.open.has(id)) {
      this.clusters.set(id, {label: shorten(label, 60), parent, key: id, kind});
      this._place(g, group, id);
      return;
    }
    let count = 0; const marks = [];
    for (const k of this.model.within(g, group)) { this.rep.set(k, id); count++; marks.push(...this.model.nodes[k].all); }
    const text = shorten(label, 44), sub = `${count.toLocaleString("en")} nodes`;
    this.leaves.set(id, {kind: "group", text, sub, count, parent, marks, key: id, g, group, width: Math.max(90, text.length * 7.7 + 34), height: 42});
  }
  _placeNode(k, parent) {
    const node = this.model.nodes[k], id = `n${k}`;
    if (!(node.b && this.open.has(id))) {
      this._leaf(id, k, parent);
      for (const [, body] of node.b || []) for (const inner of this._inside(body)) this.rep.set(inner, id);
      return;
    }
    const frame = `c${k}`, foot = `f${k}`;
    this.clusters.set(frame, {label: shorten(this.model.label(k), 50), parent, key: id, kind: "node"});
    this._leaf(id, k, frame);
    this.leaves.set(foot, {kind: "foot", parent: frame, node: k, width: 26, height: 8, marks: []});
    this.tail.set(k, foot);
    for (const [name, body] of node.b) {
      const graph = this.model.graphs[body], inner = `b${body}`;
      this.clusters.set(inner, {label: name, parent: frame, key: id, kind: "body"});
      this._place(body, -1, inner);
      graph.inputs.forEach((t, at) => { this._value(`i${body}:${at}`, t, inner, "input"); this.frames.push([id, `i${body}:${at}`]); });
      graph.outputs.forEach((t, at) => { this._value(`o${body}:${at}`, t, inner, "output", true); this.frames.push([`o${body}:${at}`, foot]); });
      this.bodies = this.bodies || []; this.bodies.push([body, id, foot]);
    }
  }
  *_inside(body) { yield* this.model.within(body, -1); }
  _leaf(id, k, parent) {
    const node = this.model.nodes[k], scoped = node.n.split("/");
    const text = shorten(node.d ? `${node.d}::${node.o}` : node.o, 40), sub = shorten(scoped[scoped.length - 1] || node.n, 34);
    const weights = node.i.filter((t) => t >= 0 && this.model.tensors[t][2]).slice(0, 2).map((t) => shorten(this.model.values[t] !== undefined && this.model.values[t].length < 20
      ? `${this.model.values[t]}` : this.model.tensors[t][1], 34));
    const inner = (node.b || []).length ? `▸ ${node.b.map((b) => b[0]).join(", ")}` : node.f !== undefined ? "▸ function" : "";
    const lines = [sub, ...weights.map((w) => `= ${w}`), inner].filter((x) => x);
    const width = Math.max(text.length * 8 + 20, ...lines.map((x) => x.length * 6 + 18), 60);
    this.leaves.set(id, {kind: "node", node: k, text, lines, parent, marks: node.all, width, height: 22 + (lines.length ? lines.length * 14 + 5 : 0), color: colorOf(node)});
    this.rep.set(k, id);
  }
  _value(id, t, parent, kind, output) {
    const [name, type] = t >= 0 ? this.model.tensors[t] : ["", ""], text = shorten(name, 36);
    this.leaves.set(id, {kind: "value", text, lines: type ? [shorten(type, 40)] : [], tensor: t, parent, marks: [], width: Math.max(50, text.length * 7 + 24, type.length * 6 + 20), height: type ? 36 : 24});
    if (!output) this.valueRep.set(t, id);
  }
  _source(t) {
    const maker = this.model.makers.get(t);
    if (maker === undefined) return this.valueRep.get(t);
    return this.tail.get(maker) || this.rep.get(maker);
  }
  _join(edges, from, to, t, capture) {
    if (!from || !to || from === to) return;
    const key = `${from}|${to}`;
    if (!edges.has(key)) edges.set(key, {from, to, tensors: new Set(), capture: true});
    const edge = edges.get(key);
    edge.tensors.add(t);
    if (!capture) edge.capture = false;
  }
  _reads(id, t) {
    const leaf = this.leaves.get(id), name = `⇠ ${shorten(this.model.tensors[t][0], 26)}`;
    this.far++;
    if (leaf.kind === "group") {
      if (leaf.reads) { if (!leaf.reads.includes(name)) leaf.reads.push(name); } else { leaf.reads = [name]; leaf.height += 14; }
      leaf.width = Math.max(leaf.width, this._readsText(leaf).length * 6 + 18);
    } else if (!leaf.lines.includes(name) && leaf.lines.length < 5) {
      leaf.height += leaf.lines.length ? 14 : 19; leaf.lines.push(name); leaf.width = Math.max(leaf.width, name.length * 6 + 18);
    }
  }
  _readsText(leaf) { return leaf.reads.length > 2 ? `${leaf.reads[0]} and ${leaf.reads.length - 1} more` : leaf.reads.join(", "); }
  _edges() {
    const edges = new Map(), targets = new Map();
    for (const [k, to] of this.rep) for (const t of this.model.nodes[k].i) if (t >= 0) { if (!targets.has(t)) targets.set(t, new Set()); targets.get(t).add(to); }
    this.far = 0;
    const far = new Map();  // what many boxes read is drawn to the nearest; the others name it
    for (const [t, read] of targets) if (read.size > MOST_EDGES && this._source(t)) far.set(t, new Set([...read].slice(0, 3)));
    for (const [k, to] of this.rep) {
      const node = this.model.nodes[k];
      for (const t of node.i) {
        if (t < 0) continue;
        const maker = this.model.makers.get(t);
        const outer = maker !== undefined && this.model.nodes[maker].g !== node.g;
        if (far.has(t) && !far.get(t).has(to) && this._source(t) !== to) { this._reads(to, t); continue; }
        this._join(edges, this._source(t), to, t, outer);
      }
    }
    for (const [body] of this.bodies || []) {
      this.model.graphs[body].outputs.forEach((t, at) => this._join(edges, this._source(t), `o${body}:${at}`, t));
    }
    const fed = new Set([...edges.values()].map((e) => e.to)), feeding = new Set([...edges.values()].map((e) => e.from));
    for (const [body, head, foot] of this.bodies || []) {  // a body stands between its node's head and foot
      for (const [id, leaf] of this.leaves) {
        if (leaf.parent !== `b${body}`) continue;
        if (!fed.has(id) && id[0] !== "i") this.frames.push([head, id]);
        if (!feeding.has(id) && id[0] !== "o") this.frames.push([id, foot]);
      }
      if (!this.model.graphs[body].inputs.length && !this.model.graphs[body].outputs.length) this.frames.push([head, foot]);
    }
    this.bodies = [];
    return edges;
  }
  // -- drawing
  _draw() {
    const g = this.laid, view = svg("g", {});
    const depth = (id) => { let d = 0; for (let p = this.clusters.get(id).parent; p; p = this.clusters.get(p).parent) d++; return d; };
    for (const id of [...this.clusters.keys()].sort((a, b) => depth(a) - depth(b))) {
      const box = g.node(id), cluster = this.clusters.get(id), made = svg("g", {class: `cluster ${cluster.kind}`});
      made.append(svg("rect", {x: box.x - box.width / 2, y: box.y - box.height / 2 - 8, width: box.width, height: box.height + 12, rx: 8}));
      const text = svg("text", {x: box.x - box.width / 2 + 8, y: box.y - box.height / 2 + 6}, `▾ ${cluster.label}`);
      text.addEventListener("click", () => this.toggle(cluster.key));
      made.append(text); view.append(made);
    }
    this.drawnEdges = [];
    for (const edge of this.edges.values()) {
      const laid = g.edge(edge.from, edge.to);
      const path = svg("path", {class: `edge${edge.capture ? " capture" : ""}`, d: curve(laid.points), "marker-end": `url(#arrow${this.side})`});
      path.append(svg("title", {}, [...edge.tensors].slice(0, 8).map((t) => this.model.tensors[t] ? `${this.model.tensors[t][0]} ${this.model.tensors[t][1]}` : "").join("\n")));
      view.append(path); this.drawnEdges.push([edge, path]);
      if (edge.text && laid.x !== undefined) view.append(svg("text", {class: "edgelabel", x: laid.x, y: laid.y + 3}, edge.text));
    }
    for (const [from, to] of this.frames) {
      const laid = g.edge(from, to);
      if (laid && !this.edges.has(`${from}|${to}`)) view.append(svg("path", {class: "edge frame", d: curve(laid.points)}));
    }
    this.drawn = new Map();
    for (const [id, leaf] of this.leaves) { const made = this._drawLeaf(id, leaf, g.node(id)); this.drawn.set(id, made); view.append(made); }
    this.view.replaceWith(view); this.view = view;
    this._transform(); this._highlight();
  }
  _drawLeaf(id, leaf, at) {
    const x = at.x - leaf.width / 2, y = at.y - leaf.height / 2, made = svg("g", {class: `leaf ${leaf.kind}`, "data-id": id});
    made.append(svg("rect", {class: "frame", x, y, width: leaf.width, height: leaf.height, rx: leaf.kind === "value" ? 12 : 5}));
    if (leaf.kind === "node") {
      made.append(svg("path", {class: "head", fill: leaf.color, d: leaf.lines.length ? `M${x},${y + 5} q0,-5 5,-5 h${leaf.width - 10} q5,0 5,5 v17 h${-leaf.width} z`
        : `M${x},${y + 5} q0,-5 5,-5 h${leaf.width - 10} q5,0 5,5 v12 q0,5 -5,5 h${10 - leaf.width} q-5,0 -5,-5 z`}));
      made.append(svg("text", {class: "op", x: at.x, y: y + 15, "text-anchor": "middle", "font-size": 12}, leaf.text));
      leaf.lines.forEach((line, k) => made.append(svg("text", {class: line[0] === "=" ? "weight" : "sub", x: x + 8, y: y + 34 + k * 14}, line)));
    } else if (leaf.kind === "group") {
      made.append(svg("text", {class: "op", x: at.x, y: y + 17, "text-anchor": "middle", "font-size": 12}, `▸ ${leaf.text}`));
      made.append(svg("text", {class: "sub", x: at.x, y: y + 33, "text-anchor": "middle"}, leaf.sub));
      if (leaf.reads) made.append(svg("text", {class: "sub", x: at.x, y: y + 47, "text-anchor": "middle"}, this._readsText(leaf)));
    } else if (leaf.kind === "value") {
      made.append(svg("text", {x: at.x, y: y + 15, "text-anchor": "middle"}, leaf.text));
      leaf.lines.forEach((line) => made.append(svg("text", {class: "sub", x: at.x, y: y + 29, "text-anchor": "middle"}, line)));
    }
    const kind = worst(leaf.marks);
    if (kind) made.append(svg("rect", {class: `ring ${kind}`, x: x - 4, y: y - 4, width: leaf.width + 8, height: leaf.height + 8, rx: 8}));
    return made;
  }
  // -- moving
  _transform() { const t = this.at; if (t) this.view.setAttribute("transform", `translate(${t.x},${t.y}) scale(${t.k})`); }
  size() { const box = this.svg.getBoundingClientRect(); return [box.width || 800, box.height || 600]; }
  fit() {
    const [w, h] = this.size(), g = this.laid.graph();
    const width = isFinite(g.width) ? Math.max(g.width, 1) : 1, height = isFinite(g.height) ? Math.max(g.height, 1) : 1;
    const k = Math.max(Math.min(w / width, h / height, 1.1), Math.min(1, Math.max(w / width, 0.55)));  // small enough to see much, never too small to read
    this.at = {k, x: (w - width * k) / 2, y: height * k <= h ? (h - height * k) / 2 : 8};
    if (width * k > w) {  // begin at the first input
      const first = this.laid.node(`i${this.root}:0`) || this.laid.node(this.leaves.keys().next().value);
      if (first) this.at.x = Math.min(8, Math.max(w - width * k - 8, w / 2 - first.x * k));
    }
    this._transform();
  }
  whole() {
    const [w, h] = this.size(), g = this.laid.graph(), k = Math.min(w / g.width, h / g.height, 1.2);
    this.at = {k, x: (w - g.width * k) / 2, y: (h - g.height * k) / 2}; this._transform();
  }
  zoom(factor, x, y) {
    const [w, h] = this.size(); x = x ?? w / 2; y = y ?? h / 2;
    const k = Math.min(8, Math.max(0.005, this.at.k * factor)), f = k / this.at.k;
    this.at = {k, x: x - (x - this.at.x) * f, y: y - (y - this.at.y) * f}; this._transform();
  }
  center(id) {
    const box = this.laid.node(id); if (!box) return;
    const [w, h] = this.size(); this.at.k = Math.max(this.at.k, 0.7);
    this.at.x = w / 2 - box.x * this.at.k; this.at.y = h / 2 - box.y * this.at.k; this._transform();
  }
  // Lay out again with something staying where the reader's eyes are.
  keeping(key, work) {
    const before = this._spot(key); work(); const after = this._spot(key);
    if (before && after) { this.at.x += (before.x - after.x) * this.at.k; this.at.y += (before.y - after.y) * this.at.k; this._transform(); }
  }
  _spot(key) {
    const box = this.laid.node(key) || this.laid.node(key.replace("n", "c"));
    return box ? {x: box.x, y: box.y - box.height / 2} : null;
  }
  _gestures() {
    let from = null, moved = false;
    this.svg.addEventListener("wheel", (e) => {
      e.preventDefault(); const box = this.svg.getBoundingClientRect();
      this.zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0016)), e.clientX - box.left, e.clientY - box.top);
    }, {passive: false});
    this.svg.addEventListener("pointerdown", (e) => { from = [e.clientX, e.clientY, this.at.x, this.at.y]; moved = false; });
    window.addEventListener("pointermove", (e) => {
      if (!from) return;
      if (Math.abs(e.clientX - from[0]) + Math.abs(e.clientY - from[1]) > 4) { moved = true; this.svg.classList.add("moving"); }
      if (moved) { this.at.x = from[2] + e.clientX - from[0]; this.at.y = from[3] + e.clientY - from[1]; this._transform(); }
    });
    window.addEventListener("pointerup", () => { from = null; this.svg.classList.remove("moving"); });
    this.svg.addEventListener("click", (e) => {
      if (moved) return;
      const hit = e.target.closest(".leaf");
      if (!hit) { if (!e.target.closest(".cluster text")) select(this, null); return; }
      const leaf = this.leaves.get(hit.dataset.id);
      if (leaf.kind === "group") this.toggle(leaf.key);
      else if (leaf.kind === "value") showTensor(this, leaf.tensor);
      else select(this, leaf.node);
    });
    this.svg.addEventListener("dblclick", (e) => {
      const hit = e.target.closest(".leaf"), leaf = hit && this.leaves.get(hit.dataset.id);
      if (leaf && leaf.kind === "node") { const node = this.model.nodes[leaf.node]; if (node.b) this.toggle(`n${leaf.node}`); else if (node.f !== undefined) { this.show(node.f); pickers(); } }
    });
  }
  _highlight() {
    const spot = (k) => k === null || k === undefined ? undefined : this.rep.get(this.model.drawn(k)), at = spot(this.selected), twin = spot(this.twin);
    for (const [id, made] of this.drawn) { made.classList.toggle("on", id === at); made.classList.toggle("twin", twin !== undefined && id === twin); }
    const id = at, tail = this.tail.get(this.selected);
    for (const [edge, path] of this.drawnEdges) path.classList.toggle("on", id !== undefined && (edge.from === id || edge.to === id || edge.from === tail));
  }
}

function curve(points) {
  if (points.length < 3) return "M" + points.map((p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`).join(" L");
  let d = `M${points[0].x.toFixed(1)},${points[0].y.toFixed(1)}`;
  for (let k = 1; k < points.length - 1; k++) {
    const p = points[k], q = points[k + 1], last = k === points.length - 2;
    const x = last ? q.x : (p.x + q.x) / 2, y = last ? q.y : (p.y + q.y) / 2;
    d += ` Q${p.x.toFixed(1)},${p.y.toFixed(1)} ${x.toFixed(1)},${y.toFixed(1)}`;
  }
  return d;
}

// -- the page around the panes
const header = document.body.appendChild(el("header", {}));
const main = document.body.appendChild(el("main", {}));
const aside = el("aside", {"aria-label": "details"});
const models = DATA.models.map((data) => new Model(data));
header.append(el("h1", {}, models.map((m) => m.title).join(" → ")));
const panes = models.map((model, side) => new Pane(model, side, main));
main.append(aside);
for (const pane of panes) pane.fit();
const forth = new Map(DATA.pairs || []), back = new Map((DATA.pairs || []).map(([a, b]) => [b, a]));

function pickers() {
  document.querySelectorAll("select.graphs").forEach((made, side) => { made.value = panes[side].root; });
}
for (const pane of panes) {
  const roots = pane.model.graphs.map((g, k) => [g, k]).filter(([g]) => g.owner < 0);
  if (roots.length > 1) {
    const made = el("select", {class: "graphs", title: "graph or function"});
    for (const [graph, k] of roots) made.append(el("option", {value: k}, shorten(graph.path, 50)));
    made.onchange = () => pane.show(Number(made.value));
    header.append(made);
  }
}
const each = (work) => () => panes.forEach(work);
const button = (text, title, work) => header.appendChild(el("button", {title, onclick: work}, text));
header.append(el("span", {class: "space"}));
button("−", "zoom out (-)", each((p) => p.zoom(1 / 1.3)));
button("+", "zoom in (+)", each((p) => p.zoom(1.3)));
button("fit", "show the whole graph (f)", each((p) => p.whole()));
button("open more", "open groups and bodies", each((p) => { p.openSome(Math.min(LARGEST, Math.max(OPEN_AT_START, p.leaves.size) * 2.5)); p.layout(); p.fit(); }));
button("close all", "close all groups and bodies", each((p) => { p.open = new Set(); p.layout(); p.fit(); }));

const results = el("div", {class: "results"}), box = el("input", {type: "search", placeholder: "search nodes, operators, tensors (/)", "aria-label": "search"});
header.append(el("div", {class: "search"}, box, results));
let chosen = 0, hits = [];
function search(text) {
  const wanted = text.trim().toLowerCase(); hits = []; chosen = 0;
  results.replaceChildren();
  if (!wanted) return;
  panes.forEach((pane) => {
    const ranked = [];
    pane.model.nodes.forEach((node, k) => {
      const name = node.n.toLowerCase(), op = node.o.toLowerCase();
      const score = name === wanted ? 0 : op === wanted ? 1 : name.startsWith(wanted) || op.startsWith(wanted) ? 2 : name.includes(wanted) || op.includes(wanted) ? 3 : -1;
      if (score >= 0) ranked.push([score, {pane, node: k, what: node.o, name: node.n || `#${k}`}]);
    });
    pane.model.tensors.forEach(([name], t) => {
      const low = name.toLowerCase(), score = low === wanted ? 0.5 : low.includes(wanted) ? 4 : -1;
      if (score >= 0) ranked.push([score, {pane, tensor: t, what: pane.model.tensors[t][2] ? "weight" : "tensor", name}]);
    });
    ranked.sort((a, b) => a[0] - b[0]);
    hits.push(...ranked.slice(0, panes.length > 1 ? 30 : 60).map((r) => r[1]));
  });
  hits.forEach((hit, k) => results.append(el("div", {class: k ? "" : "on", onclick: () => go(hit)}, el("span", {class: "what"}, (panes.length > 1 ? `${hit.pane.model.title}: ` : "") + hit.what), el("span", {class: "name"}, hit.name))));
  if (!hits.length) results.append(el("div", {}, "nothing found"));
}
function go(hit) {
  results.replaceChildren(); box.blur();
  if (hit.node !== undefined) return goTo(hit.pane, hit.node);
  const maker = hit.pane.model.makers.get(hit.tensor), reader = (hit.pane.model.readers.get(hit.tensor) || [])[0];
  const node = maker !== undefined ? maker : reader;
  if (node !== undefined) { hit.pane.reveal(node); hit.pane.center(hit.pane.rep.get(hit.pane.model.drawn(node))); }
  showTensor(hit.pane, hit.tensor);
}
function goTo(pane, k) { pane.reveal(k); select(pane, k); pane.center(pane.rep.get(pane.model.drawn(k))); }
box.oninput = () => search(box.value);
box.onkeydown = (e) => {
  if (e.key === "Enter" && hits[chosen]) go(hits[chosen]);
  if (e.key === "Escape") { box.value = ""; search(""); box.blur(); }
  if (e.key === "ArrowDown" || e.key === "ArrowUp") {
    e.preventDefault(); chosen = Math.min(hits.length - 1, Math.max(0, chosen + (e.key === "ArrowDown" ? 1 : -1)));
    [...results.children].forEach((made, k) => made.classList.toggle("on", k === chosen)); results.children[chosen]?.scrollIntoView({block: "nearest"});
  }
  e.stopPropagation();
};
window.addEventListener("keydown", (e) => {
  if (e.target.tagName === "INPUT" || e.target.tagName === "SELECT" || e.ctrlKey || e.metaKey) return;
  if (e.key === "/") { e.preventDefault(); box.focus(); box.select(); }
  if (e.key === "f") panes.forEach((p) => p.whole());
  if (e.key === "+" || e.key === "=") panes.forEach((p) => p.zoom(1.3));
  if (e.key === "-") panes.forEach((p) => p.zoom(1 / 1.3));
  if (e.key === "Escape") select(panes[0], null);
});

// -- details
function select(pane, k) {
  for (const p of panes) { p.selected = null; p.twin = null; }
  pane.selected = k;
  if (k !== null && panes.length > 1) {
    const twin = (pane.side ? back : forth).get(k), other = panes[1 - pane.side];
    if (twin !== undefined) { other.twin = twin; other.reveal(twin); other.center(other.rep.get(other.model.drawn(twin))); }
  }
  for (const p of panes) p._highlight();
  k === null ? showModel() : showNode(pane, k);
}
const rows = (pairs) => el("table", {}, ...pairs.map(([a, b]) => el("tr", {}, el("td", {}, a), el("td", {}, el("div", {class: "long"}, b)))));
const section = (title, ...content) => content.length ? [el("h3", {}, title), ...content] : [];
const markBox = (mark, work) => el("div", {class: `mark ${mark[0]}${work ? " go" : ""}`, onclick: work || null}, mark[1]);
function nodeLink(pane, k) { return el("a", {onclick: () => goTo(pane, k)}, pane.model.label(k)); }
function tensorLine(pane, t, from) {
  if (t < 0) return el("div", {class: "tensor"}, el("span", {class: "type"}, "left out"));
  const [name, type, weight] = pane.model.tensors[t], made = el("div", {class: "tensor"}, el("a", {onclick: () => showTensor(pane, t)}, name), el("div", {class: `type${weight ? " weight" : ""}`}, (weight ? "weight " : "") + type));
  if (from === "in") { const maker = pane.model.makers.get(t); if (maker !== undefined) made.append("from ", nodeLink(pane, maker)); }
  else for (const k of (pane.model.readers.get(t) || []).slice(0, 12)) made.append(el("div", {}, "to ", nodeLink(pane, k)));
  if (pane.model.values[t] !== undefined) made.append(el("pre", {}, pane.model.values[t]));
  if (pane.model.statistics[t]) made.append(...statistics(pane.model.statistics[t]));
  return made;
}
function statistics(found) {
  const figure = (x) => Number.isInteger(x) ? x.toLocaleString("en") : Number(x).toPrecision(5);
  const order = ["min", "max", "mean", "std", "zeros", "NaN", "infinite"].filter((key) => found[key] !== undefined && !(["NaN", "infinite"].includes(key) && !found[key]));
  const parts = [el("div", {class: "type"}, order.map((key) => `${key} ${figure(found[key])}`).join(" · "))];
  if (found.histogram) {
    const most = Math.max(...found.histogram), made = svg("svg", {class: "histogram", viewBox: `0 0 ${found.histogram.length} 10`, preserveAspectRatio: "none"});
    found.histogram.forEach((n, k) => { const h = n ? Math.max(0.3, 10 * n / most) : 0; made.append(svg("rect", {x: k + 0.05, y: 10 - h, width: 0.9, height: h})); });
    parts.push(made);
  }
  return parts;
}
function showNode(pane, k) {
  const node = pane.model.nodes[k], graph = pane.model.graphs[node.g];
  const inside = (node.b || []).map(([name]) => el("button", {onclick: () => pane.toggle(`n${k}`)}, `${pane.open.has(`n${k}`) ? "close" : "open"} ${name}`));
  if (node.f !== undefined) inside.push(el("button", {onclick: () => { pane.show(node.f); pickers(); }}, "open function"));
  aside.replaceChildren(
    el("h2", {}, node.d ? `${node.d}::${node.o}` : node.o), el("div", {class: "path"}, `${node.n || "(no name)"} — ${graph.path}`), ...inside,
    ...section("marks", ...node.k.map((m) => markBox(m))),
    ...(node.a ? section("attributes", rows(Object.entries(node.a))) : []),
    ...section("inputs", ...node.i.map((t) => tensorLine(pane, t, "in"))), ...section("outputs", ...node.u.map((t) => tensorLine(pane, t, "out"))),
    ...(node.m ? section("metadata", rows(Object.entries(node.m))) : []), ...(node.doc ? section("doc string", el("pre", {}, node.doc)) : []));
  aside.scrollTop = 0;
}
function showTensor(pane, t) {
  if (t === undefined || t < 0) return;
  const [name, type, weight] = pane.model.tensors[t], maker = pane.model.makers.get(t), readers = pane.model.readers.get(t) || [];
  aside.replaceChildren(el("h2", {}, name), el("div", {class: "type"}, `${weight ? "weight" : "tensor"} ${type}`),
    ...(maker !== undefined ? section("made by", el("div", {}, nodeLink(pane, maker))) : []),
    ...section("read by", ...readers.slice(0, 60).map((k) => el("div", {}, nodeLink(pane, k)))),
    ...(pane.model.values[t] !== undefined ? section("values", el("pre", {}, pane.model.values[t])) : []),
    ...(pane.model.statistics[t] ? section("statistics", ...statistics(pane.model.statistics[t])) : []));
}
function showModel() {
  const parts = [];
  panes.forEach((pane) => {
    const model = pane.model, counts = {};
    for (const node of model.nodes) counts[node.d ? `${node.d}::${node.o}` : node.o] = (counts[node.d ? `${node.d}::${node.o}` : node.o] || 0) + 1;
    parts.push(el("h2", {}, model.title), rows(Object.entries(model.facts)));
    const marked = model.nodes.flatMap((node, k) => node.k.map((m) => [m, k])), all = [...model.marks.map((m) => [m, null]), ...marked];
    all.sort((a, b) => SEVERITY.indexOf(a[0][0]) - SEVERITY.indexOf(b[0][0]));
    parts.push(...section(`marks (${all.length})`, ...all.slice(0, 200).map(([m, k]) => markBox(k === null ? m : [m[0], `${model.label(k)}: ${m[1]}`], k === null ? null : () => goTo(pane, k)))));
    parts.push(...section("inputs", ...model.graphs[0].inputs.map((t) => tensorLine(pane, t, "in"))), ...section("outputs", ...model.graphs[0].outputs.map((t) => tensorLine(pane, t, "in"))));
    parts.push(...section("operators", el("div", {class: "ops"}, ...Object.entries(counts).sort((a, b) => b[1] - a[1]).slice(0, 60).map(([op, n]) => el("span", {onclick: () => { box.value = op.split("::").pop(); search(box.value); box.focus(); }}, `${op} ${n.toLocaleString("en")}`)))));
  });
  if (panes.length > 1) parts.unshift(el("div", {class: "path"}, DATA.differences ? `${DATA.differences} differences, marked in both graphs` : "no differences"));
  aside.replaceChildren(...parts);
}
showModel();

// A link such as page.html#node=name leads to a node.
function follow() {
  const wanted = new URLSearchParams(location.hash.slice(1)).get("node");
  if (!wanted) return;
  for (const pane of panes) { const k = pane.model.nodes.findIndex((n) => n.n === wanted); if (k >= 0) return goTo(pane, k); }
}
window.addEventListener("hashchange", follow);
follow();
window.onnxView = {panes, search, go, goTo, select};
document.documentElement.dataset.ready = "yes";
})();
