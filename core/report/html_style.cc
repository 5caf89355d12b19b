#include "core/report/html_assets.h"

namespace dpipe::report {

const char kReportCss[] = R"css(
:root { --page: #f3f4f7; --muted: #5c6370; --line: #dfe2e8; --accent: #2f5fc4; --soft: #aebbd2;
  --shadow: 0 1px 2px rgb(20 25 40 / 8%); color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0c0e12; --muted: #9aa3b2; --line: #2c313b; --accent: #86abff; --soft: #4a566e;
    --shadow: none; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--fg);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -.01em; }
h2 { font-size: 18px; margin: 0 0 4px; }
h3 { font-size: 16px; margin: 0; }
p { margin: 4px 0 10px; }
h1, h2, h3, p, li, .tile span { overflow-wrap: anywhere; }
.sub, .note { color: var(--muted); }
.note { font-size: 13px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 18px 20px; margin: 18px 0; box-shadow: var(--shadow); }
.warning { border-left: 4px solid #d97706; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 18px 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 12px 16px;
  box-shadow: var(--shadow); }
.tile b { display: block; font-size: 25px; line-height: 1.2; letter-spacing: -.01em; }
.tile span { color: var(--muted); font-size: 13px; }
svg { display: block; }
svg text { fill: var(--fg); font-family: inherit; }
svg .mut { fill: var(--muted); }
.bar { fill: var(--soft); } .bar.best { fill: var(--accent); }
.sample { fill: var(--fg); stroke: var(--card); stroke-width: 1.5; paint-order: stroke; } .whisker { stroke: var(--fg); stroke-opacity: .65; stroke-width: 1.2; }
.sample.outlier { fill: var(--card); stroke: var(--fg); stroke-width: 1.5; } .sample.warm-up { opacity: .3; }
.rows { list-style: none; margin: 8px 0; padding: 0; font-size: 14px; }
.rows li { margin: 0 0 12px; } .rows svg { margin-top: 3px; overflow: visible; }
.rows div { display: flex; justify-content: space-between; align-items: end; gap: 0 12px; line-height: 1.3; }
.rows span { overflow-wrap: anywhere; min-width: 0; font-weight: 600; } .rows b { flex: none; font-weight: 400; }
.ref { stroke: var(--muted); stroke-dasharray: 3 3; }
.wide { overflow-x: auto; margin: 8px -4px 0; padding: 0 4px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; white-space: nowrap; }
.wide table { width: 100%; }
.wide th { white-space: normal; vertical-align: bottom; line-height: 1.25; }
.wide th, .wide td { padding: 7px 8px; }
th, td { padding: 7px 12px; text-align: left; border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-weight: 600; font-size: 12.5px; }
.n { text-align: right; }
tr:last-child td { border-bottom: 0; }
.wide tr > :first-child { position: sticky; left: 0; background: var(--card); font-weight: 600; padding-left: 4px; }
tr.best td { color: var(--accent); font-weight: 600; }
.strategy { border-top: 1px solid var(--line); margin-top: 20px; padding-top: 16px; }
.head-line { display: flex; flex-wrap: wrap; gap: 2px 14px; align-items: baseline; }
.facts { color: var(--muted); font-size: 14px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; list-style: none; margin: 8px 0; padding: 0;
  font-size: 12.5px; color: var(--muted); }
.legend li { display: flex; align-items: center; gap: 5px; } .legend svg { flex: none; }
.figure-head { display: flex; gap: 12px; align-items: flex-start; }
.tl { display: flex; margin-top: 6px; }
.tl .scroll { flex: 1; overflow-x: auto; min-width: 0; }
.tl .lanes { min-width: 640px; }
.tl.can-drag .scroll { cursor: grab; } .tl.dragging .scroll { cursor: grabbing; user-select: none; }
.tools { display: none; gap: 4px; align-items: center; margin: 4px 0 0 auto; flex: none; }
.js .tools { display: flex; }
.tools button { font: 600 13px/1 inherit; font-family: inherit; min-width: 30px; height: 28px; color: var(--fg);
  background: transparent; border: 1px solid var(--line); border-radius: 7px; cursor: pointer; }
.tools button[aria-pressed="false"] { color: var(--muted); text-decoration: line-through; }
.no-crit .crit { display: none; }
section > .tiles { margin: 12px 0; } section .tile { box-shadow: none; }
.tools button:hover { border-color: var(--muted); }
.info { min-height: 1.5em; font-size: 13px; color: var(--muted); display: none; }
.js .info { display: block; }
details { margin-top: 8px; } summary { cursor: pointer; color: var(--muted); font-size: 14px; }
details[open] > summary { margin-bottom: 6px; }
pre { overflow-x: auto; background: var(--page); border-radius: 8px; padding: 10px 12px; margin: 6px 0;
  font: 13px/1.5 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; }
.facts-table td:first-child { color: var(--muted); }
.facts-table td { white-space: normal; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 6px 16px; margin: 6px 0; }
dt { font-weight: 600; } dd { margin: 0; color: var(--muted); }
.curve { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
@media (max-width: 640px) {
  main { padding: 18px 10px 40px; } section { padding: 14px 12px; border-radius: 10px; }
  h1 { font-size: 21px; } .tile { padding: 10px 12px; } .tile b { font-size: 20px; }
  .figure-head { flex-direction: column-reverse; align-items: stretch; gap: 0; }
  .wide tr > :first-child { max-width: 11em; white-space: normal; overflow-wrap: break-word; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; } dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 8px; }
}
@media print { section { break-inside: avoid; } .tools, .info { display: none !important; } }
)css";

}  // namespace dpipe::report
