#pragma once
// Defines the HTML of a history, without its data. It needs no network.

namespace ikebana::detail {

inline constexpr const char* page_begin = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Memory</title>
<style>
body { font: 14px system-ui, sans-serif; margin: 24px; color: #1b1f24; background: #fff; }
h1 { font-size: 18px; margin: 0 0 4px; } p { margin: 4px 0 12px; color: #57606a; }
.row { display: flex; gap: 24px; align-items: flex-start; flex-wrap: wrap; }
fieldset { border: 0; padding: 0; margin: 0 24px 8px 0; display: inline-block; }
label { margin-right: 10px; } canvas { display: block; cursor: crosshair; }
table { border-collapse: collapse; } caption { text-align: left; font-weight: 600; padding: 8px 0; }
td, th { padding: 3px 12px 3px 0; text-align: left; font-weight: 400; vertical-align: top; }
th { color: #57606a; border-bottom: 1px solid #d0d7de; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
i { display: inline-block; width: 11px; height: 11px; margin-right: 7px; border-radius: 2px; }
</style></head><body>
<h1>Memory in use over time</h1><p id="facts"></p>
<div><fieldset id="by">Colour by </fieldset><fieldset id="axis">Horizontal </fieldset></div>
<canvas id="plot"></canvas>
<p id="hint">Move over the plot to see an instant, click to keep it. Dashed: the peak.</p>
<div class="row"><table id="groups"></table><table id="blocks"></table></div>
<script type="application/json" id="data">)html";

inline constexpr const char* page_end = R"html(</script>
<script>
"use strict";
const $ = id => document.getElementById(id), d = JSON.parse($("data").textContent);
const BYTES = 0, FIRST = 1, LAST = 2, FIELD = {kind: 3, unit: 4, phase: 5, label: 6};
const names = {kind: d.kinds, unit: d.units, phase: d.phases, label: d.labels};
const colours = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2",
                 "#97bbf5", "#9c6b4e"], grey = "#9498a0";
const n = d.times.length, view = {by: "kind", axis: "event", at: 0, kept: false};
const size = b => { let u = 0; const all = ["B", "KiB", "MiB", "GiB", "TiB"];
  for (; Math.abs(b) >= 1024 && u < 4; ++u) b /= 1024;
  return (u ? b.toFixed(1) : b) + " " + all[u]; };
// An instant i is the one after i events. A span is in use at the instants FIRST < i <= LAST.
const begins = Array.from({length: n + 1}, () => []), ends = begins.map(() => []);
for (const s of d.spans) {
  begins[s[FIRST] + 1].push(s);
  if (s[LAST] >= 0) ends[s[LAST] + 1].push(s);
}
function walk(field, visit) {
  const sums = new Array(field === null ? 1 : names[field].length).fill(0);
  for (let i = 0, total = 0; i <= n; ++i) {
    for (const s of begins[i]) sums[field ? s[FIELD[field]] : 0] += s[BYTES], total += s[BYTES];
    for (const s of ends[i]) sums[field ? s[FIELD[field]] : 0] -= s[BYTES], total -= s[BYTES];
    visit(i, total, sums);
  }
}
const totals = new Array(n + 1);
walk(null, (i, total) => { totals[i] = total; });
let peak = 0;
totals.forEach((t, i) => { if (t > totals[peak]) peak = i; });
const time = i => n === 0 ? 0 : i === 0 ? d.times[0] : d.times[i - 1];
const left = 70, top_ = 14, bottom = 28;
const position = (i, width) => n === 0 ? 0 : view.axis === "event" ? i / n * width
  : (time(i) - d.times[0]) / Math.max(1, d.times[n - 1] - d.times[0]) * width;
let columns = [], order = [], colour = [];
function prepare(width) {
  columns = [];
  const most = new Array(names[view.by].length).fill(0);
  walk(view.by, (i, total, sums) => {
    const x = Math.floor(position(i, width - 1));
    sums.forEach((b, g) => { most[g] = Math.max(most[g], b); });
    if (!columns[x] || total > columns[x].total) columns[x] = {i, total, sums: sums.slice()};
  });
  for (let x = 1; x < width; ++x) columns[x] = columns[x] || columns[x - 1];
  order = most.map((b, g) => g).filter(g => most[g] > 0).sort((a, b) => most[b] - most[a]);
  colour = most.map(() => grey);
  order.slice(0, colours.length).forEach((g, k) => { colour[g] = colours[k]; });
}
const plot = $("plot"), pen = plot.getContext("2d");
function draw() {
  const scale = window.devicePixelRatio || 1;
  const wide = Math.max(400, Math.min(1400, document.body.clientWidth)), high = 380;
  plot.width = wide * scale, plot.height = high * scale;
  plot.style.width = wide + "px", plot.style.height = high + "px";
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  const width = wide - left, height = high - top_ - bottom, max = Math.max(1, totals[peak]) * 1.04;
  prepare(width);
  const y = b => top_ + height * (1 - b / max);
  pen.font = "12px system-ui, sans-serif", pen.textAlign = "right", pen.textBaseline = "middle";
  for (let k = 0; k <= 4; ++k) {
    const b = totals[peak] * k / 4;
    pen.fillStyle = "#57606a", pen.fillText(size(Math.round(b)), left - 8, y(b));
    pen.fillStyle = "#d0d7de", pen.fillRect(left, y(b), width, 1);
  }
  const base = new Array(width).fill(0);
  for (const g of order) {
    pen.fillStyle = colour[g], pen.beginPath();
    for (let x = 0; x < width; ++x) pen.lineTo(left + x, y(base[x] + columns[x].sums[g]));
    for (let x = width - 1; x >= 0; --x) pen.lineTo(left + x, y(base[x]));
    pen.fill();
    for (let x = 0; x < width; ++x) base[x] += columns[x].sums[g];
  }
  pen.textAlign = "left", pen.textBaseline = "top", pen.fillStyle = "#57606a";
  pen.fillText(view.axis === "event" ? "0 allocations and frees" : "0 ms", left, high - bottom + 8);
  pen.textAlign = "right";
  pen.fillText(view.axis === "event" ? String(n) : ((time(n) - time(0)) / 1000).toFixed(1) + " ms",
               wide - 2, high - bottom + 8);
  line(peak, "#1b1f24", [5, 4]);
  if (view.at !== peak) line(view.at, "#cf222e", []);
  for (const [i] of d.oom) line(i + 1, "#cf222e", [2, 2]);
  function line(i, style, dash) {
    const x = left + position(i, width - 1);
    pen.strokeStyle = style, pen.setLineDash(dash), pen.beginPath();
    pen.moveTo(x, top_), pen.lineTo(x, top_ + height), pen.stroke(), pen.setLineDash([]);
  }
}
function row(cells, tag) {
  const tr = document.createElement("tr");
  cells.forEach(([text, style, mark]) => {
    const cell = document.createElement(tag || "td");
    if (style) cell.className = style;
    if (mark) { const i = document.createElement("i"); i.style.background = mark; cell.append(i); }
    cell.append(text), tr.append(cell);
  });
  return tr;
}
function table(id, title, rows) {
  const caption = document.createElement("caption");
  caption.append(title), $(id).replaceChildren(caption, ...rows);
}
function tables() {
  const i = view.at, there = d.spans.filter(s => s[FIRST] < i && (s[LAST] < 0 || s[LAST] >= i));
  const sums = names[view.by].map(() => 0);
  for (const s of there) sums[s[FIELD[view.by]]] += s[BYTES];
  const shown = sums.map((b, g) => g).filter(g => sums[g] > 0).sort((a, b) => sums[b] - sums[a]);
  table("groups", (i === peak ? "At the peak: " : "After " + i + " events: ") + size(totals[i]),
    [row([[view.by], ["in use", "n"], ["share", "n"]], "th"), ...shown.map(g => row([
      [names[view.by][g], "", colour[g]], [size(sums[g]), "n"],
      [(100 * sums[g] / Math.max(1, totals[i])).toFixed(1) + " %", "n"]]))]);
  const largest = there.sort((a, b) => b[BYTES] - a[BYTES]).slice(0, 15);
  table("blocks", "Largest of " + there.length + " blocks there",
    [row([["bytes", "n"], ["kind"], ["unit"], ["made in"]], "th"), ...largest.map(s => row([
      [size(s[BYTES]), "n"], [d.kinds[s[3]]], [d.units[s[4]]],
      [d.phases[s[5]] + (s[6] > 0 ? ", " + d.labels[s[6]] : "")]]))]);
}
function choices(id, key, all) {
  for (const one of all) {
    const label = document.createElement("label"), input = document.createElement("input");
    input.type = "radio", input.name = key, input.checked = view[key] === one;
    input.onchange = () => { view[key] = one; draw(), tables(); };
    label.append(input, " " + one), $(id).append(label);
  }
}
function instant(event) {
  const x = Math.round(event.clientX - plot.getBoundingClientRect().left - left);
  return columns[Math.max(0, Math.min(columns.length - 1, x))].i;
}
plot.onmousemove = e => { if (!view.kept) view.at = instant(e), draw(), tables(); };
plot.onclick = e => { view.kept = !view.kept; view.at = instant(e); draw(), tables(); };
plot.onmouseleave = () => { if (!view.kept) view.at = peak, draw(), tables(); };
window.onresize = draw;
const dropped = d.dropped ? "; " + d.dropped + " earlier events were dropped" : "";
$("facts").append(`${d.device}: peak ${size(totals[peak])}, at the end ${size(totals[n])} in use.` +
                  ` ${n} events${dropped}` + (d.oom.length ? `; ${d.oom.length} allocations did ` +
                  "not fit (red)" : "") + ".");
view.at = peak;
for (const [key, one] of new URLSearchParams(location.hash.slice(1)))  // as page.html#by=unit
  if (key === "by" && one in FIELD || key === "axis" && ["event", "time"].includes(one))
    view[key] = one;
choices("by", "by", ["kind", "unit", "phase", "label"]);
choices("axis", "axis", ["event", "time"]);
draw(), tables();
</script></body></html>
)html";

}  // namespace ikebana::detail
