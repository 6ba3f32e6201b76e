// How a score is made up: one bar for the eye, one table whose numbers add up.

import { el, vary } from "./dom.js";
import { LEGS } from "./fusion.js";

const NAMES = { semantic: "Semantic", text: "Text", fuzzy: "Fuzzy", exact: "Exact" };

const legsOf = (breakdown) => LEGS.filter((leg) => breakdown[leg]);

/** A bar with the contribution of each leg, and their scores and ranks beside it. */
export function contributions(hit) {
  const legs = legsOf(hit.breakdown);
  const bar = el("span", { class: "bar", "aria-hidden": "true" }, legs.map((leg) =>
    vary(el("span", { class: leg }), "--share", hit.breakdown[leg].contribution)));
  const parts = legs.map((leg) => {
    const { score, rank, weight } = hit.breakdown[leg];
    const where = rank ? `#${rank}` : "not in its list";
    return el("li", { class: `${leg}${weight ? "" : " idle"}` }, el("i", { class: "dot", "aria-hidden": "true" }),
      `${NAMES[leg]} `, el("b", {}, score === null ? "–" : score.toFixed(score < 10 ? 3 : 1)), ` ${where}`);
  });
  return el("div", { class: "legs" }, bar, el("ul", { "aria-label": "Score and rank of each leg" }, parts));
}

/** Why this result: normalised score times weight, leg by leg, and their sum. `narrow` has score and rank below the leg. */
export function breakdownTable(hit, { narrow = false } = {}) {
  const { breakdown } = hit;
  const legs = legsOf(breakdown).filter((leg) => breakdown[leg].weight);
  const rows = legs.map((leg) => {
    const { score, rank, normalised, weight, contribution, damping } = breakdown[leg];
    const damped = damping < 1 ? el("small", {}, ` damped × ${damping.toFixed(2)}`) : null;
    const figures = el("small", {}, `${score === null ? "–" : score.toFixed(4)}${rank ? `, rank ${rank}` : ""}`);
    return el("tr", { class: leg }, el("th", { scope: "row" }, el("i", { class: "dot", "aria-hidden": "true" }), NAMES[leg], narrow ? figures : null),
      narrow ? null : [cell(score, 4), el("td", {}, rank ? String(rank) : "–")], cell(normalised, 4),
      el("td", {}, weight.toFixed(4), damped), cell(contribution, 4));
  });
  return el("div", { class: "explained", tabindex: "0", role: "region", "aria-label": "How the score is made up" },
    el("table", {},
      el("thead", {}, el("tr", {}, ["Leg", ...(narrow ? [] : ["Score", "Rank"]), "Normalised", "× Weight", "= Part"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows),
      el("tfoot", {}, el("tr", {}, el("th", { scope: "row", colspan: narrow ? "3" : "5" }, "Sum: fused score"), cell(breakdown.fused_score, 4)))),
    notes(hit).map((note) => el("p", { class: "hint" }, note)));
}

function notes(hit) {
  const { fused_ends: ends, fused, rerank_score: reranked, rerank, rerank_mapped: mapped, rerank_share: share, boosted, boost_scale: scale } = hit.breakdown;
  const lines = [];
  if (ends) lines.push(`The sum of reciprocal ranks is ${fused.toFixed(5)}, on a scale from ${ends[0].toFixed(5)} (0) to ${ends[1].toFixed(5)} (1).`);
  for (const [name, factor] of Object.entries(hit.breakdown.boosts ?? {})) lines.push(`Boost ${name}: × ${factor.toFixed(4)}.`);
  if (boosted !== null && boosted !== undefined) lines.push(`The boosted score is ${boosted.toFixed(4)}${scale > 1 ? `, divided by ${scale.toFixed(4)}` : ""}.`);
  if (reranked !== null && reranked !== undefined) {
    lines.push(`The reranker gave ${reranked.toFixed(4)} (${rerank.toFixed(4)} on its own scale)${share ? "." : ", which decides the order."}`);
  }
  if (share) lines.push(`The score is ${(1 - share).toFixed(2)} × the fused score + ${share.toFixed(2)} × ${mapped.toFixed(4)}, the reranker's among these passages.`);
  if (hit.child_id) lines.push("A part of this passage was found; it is shown with what is around it.");
  return lines;
}

function cell(number, digits) {
  return el("td", {}, number === null || number === undefined ? "–" : number.toFixed(digits));
}
