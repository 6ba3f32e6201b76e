// The fusion of a search, repeated in the browser: lagotto/retrieval/fusion.py in JavaScript.
// Pure functions. A test compares them with the answers of the server, method by method.

export const LEGS = ["semantic", "text", "fuzzy", "exact"];
const WEIGHT_OF = { semantic: "w_vec", text: "w_text", fuzzy: "w_fuzzy", exact: "w_exact" };
const FARTHEST = 3; // standard deviations beyond which zscore tells no difference
const AHEAD = 1e-6; // how far the score of what is boosted to the first rank is above the others

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const clip = (number) => Math.min(1, Math.max(0, number));

/** Whether other weights can be tried without the server: the legs that run stay the same. */
export function canFuse(answer, scoring) {
  const { stats, settings } = answer;
  if (!stats.fusion || !stats.candidates.length) return false;
  const weights = stats.fusion.weights;
  const samePattern = LEGS.every(
    (leg) => scoring[WEIGHT_OF[leg]] === null || weights[leg] > 0 === scoring[WEIGHT_OF[leg]] > 0,
  );
  const sameMethod = ["blend", "normalize", "rrf_weighted", "fill", "adapt"].every(
    (name) => scoring[name] === settings.scoring[name],
  );
  const laterStages =
    (settings.rerank.reranker && settings.rerank.enabled) ||
    settings.boost?.length ||
    settings.diversity.mmr !== null ||
    settings.diversity.per_document !== null ||
    settings.diversity.copies === "once" ||
    answer.hits.some((hit) => hit.child_id || hit.parent_id);
  return samePattern && sameMethod && !laterStages;
}

/** The hits that the server would answer with for these weights: candidates, scored and ranked. */
export function refuse(answer, scoring) {
  const { stats, settings } = answer;
  const least = Math.max(settings.min_score, scoring.min_score ?? 0);
  const fused = fuse(stats.candidates, stats.fusion, scoring);
  return stats.candidates
    .map((candidate, row) => ({ candidate, row, bestRank: fused.bestRanks[row], score: fused.scores[row] }))
    .filter((item) => item.score >= least)
    .sort(totalOrder)
    .slice(0, settings.top_k)
    .map((item, index) => asHit(item, index + 1, fused));
}

/** One score per candidate, in their order, with the parts that add up to it. */
export function fuse(candidates, inputs, scoring) {
  const columns = columnsOf(candidates);
  const weights = weightsOf(inputs, scoring);
  const damped = Object.fromEntries(
    Object.entries(weights).map(([leg, weight]) => [leg, weight * (inputs.damping[leg] ?? 1)]),
  );
  if (inputs.exact === "boosted" && columns.exact && damped.exact) {
    boost(candidates, columns, damped, inputs, scoring);
  }
  const fused = blend(columns, damped, candidates.length, inputs, scoring);
  return { ...fused, columns, bestRanks: bestRanks(columns, candidates.length) };
}

function columnsOf(candidates) {
  const columns = {};
  for (const leg of LEGS) {
    if (candidates.some(({ breakdown }) => breakdown[leg])) {
      columns[leg] = {
        scores: candidates.map(({ breakdown }) => breakdown[leg]?.score ?? null),
        ranks: candidates.map(({ breakdown }) => breakdown[leg]?.rank ?? 0),
      };
    }
  }
  return columns;
}

/** The weights of the request, times what this query makes of them. */
function weightsOf(inputs, scoring) {
  const weights = {};
  const alike = scoring.blend === "rrf" && !scoring.rrf_weighted;
  const weightOf = (weight) => (alike ? Number(weight > 0) : weight);
  for (const [leg, factor] of Object.entries(inputs.factors)) {
    weights[leg] = weightOf(scoring[WEIGHT_OF[leg]]) * factor;
  }
  if (inputs.exact) {
    const weight = scoring.w_exact;
    weights.exact = weight === null ? sum(Object.values(weights)) || 1 : weightOf(weight);
  }
  return weights;
}

/** Give the best holder of a mentioned wording just the weight that boosts it to that rank. */
function boost(candidates, columns, weights, inputs, scoring) {
  const rest = blend(columns, { ...weights, exact: 0 }, candidates.length, inputs, scoring).scores;
  const holds = candidates.map(({ chunk_id: id }) => id in inputs.holders);
  const best = Math.max(...rest.filter((_, row) => holds[row]));
  const rank = inputs.boosted_rank;
  const wanted =
    rank === 1
      ? Math.max(0, ...rest.filter((_, row) => !holds[row])) + AHEAD
      : [...rest].sort((a, b) => b - a)[Math.min(rank, rest.length) - 1];
  const others = sum(LEGS.filter((leg) => leg !== "exact" && columns[leg]).map((leg) => weights[leg] ?? 0));
  const chosen = rest.map((score, row) => holds[row] && score === best);
  columns.exact = {
    scores: chosen.map(Number),
    ranks: chosen.map((is, row) => (is ? inputs.holders[candidates[row].chunk_id] : 0)),
  };
  weights.exact = Math.max(0, wanted - best) * others;
}

function blend(columns, weights, count, inputs, scoring) {
  const legs = LEGS.filter((leg) => columns[leg] && weights[leg] > 0);
  const total = sum(legs.map((leg) => weights[leg]));
  const normalised = Object.fromEntries(
    legs.map((leg) => [leg, normalise(leg, columns[leg], scoring, inputs.floor)]),
  );
  const rows = [...Array(count).keys()];
  const raw = rows.map((row) => sum(legs.map((leg) => weights[leg] * normalised[leg][row])));
  if (scoring.blend === "rrf") return reciprocal(raw, normalised, weights, legs, inputs.depth, scoring.rrf_k);
  const full = scoring.normalize === "none" ? Math.max(1, ...raw) : total;
  const parts = {};
  for (const leg of legs) {
    parts[leg] = {
      normalised: normalised[leg],
      weight: weights[leg] / total,
      damping: inputs.damping[leg] ?? 1,
      contribution: rows.map((row) => (raw[row] > 0 ? (weights[leg] * normalised[leg][row]) / full : 0)),
    };
  }
  return { raw, parts, scores: raw.map((value) => clip(legs.length ? value / full : value)), ends: null };
}

function reciprocal(raw, normalised, weights, legs, depth, k) {
  const total = sum(legs.map((leg) => weights[leg]));
  const listed = legs.filter((leg) => leg !== "exact").map((leg) => weights[leg]);
  const lowest = depth === null || !listed.length ? 0 : (Math.min(...listed) * (k + 1)) / (k + depth);
  const scores = raw.map((value) =>
    total > lowest ? clip((value - lowest) / (total - lowest)) : Number(value > 0),
  );
  const stretch = raw.map((value, row) => (value > 0 ? (scores[row] * total) / value : 0));
  const parts = {};
  for (const leg of legs) {
    const stretched = normalised[leg].map((value, row) => value * stretch[row]);
    const weight = weights[leg] / total;
    parts[leg] = { normalised: stretched, weight, damping: 1, contribution: stretched.map((value) => value * weight) };
  }
  const ends = [lowest / (k + 1), total / (k + 1)];
  return { raw: raw.map((value) => value / (k + 1)), parts, scores, ends };
}

/** A leg's scores in [0, 1] (raw for `none`), 0 where it has none. */
function normalise(leg, { scores, ranks }, scoring, floor) {
  const known = scores.map((score, row) => score !== null && (scoring.fill || ranks[row] > 0));
  if (scoring.blend === "rrf") {
    const k = scoring.rrf_k;
    const counted = leg === "exact" ? scores.map((score, row) => Number(known[row] && score > 0)) : ranks;
    return counted.map((rank) => (rank > 0 ? (k + 1) / (k + rank) : 0));
  }
  const scaled = onOneScale(leg, scores.filter((_, row) => known[row]), scoring.normalize, floor);
  let next = 0;
  return known.map((is) => (is ? scaled[next++] : 0));
}

function onOneScale(leg, scores, method, floor) {
  if (!scores.length || method === "none") return scores;
  if (leg === "exact") return scores.map(clip);
  if (method === "absolute" && leg === "semantic") {
    const highest = Math.max(1, ...scores);
    return scores.map((score) => Math.max((score - floor) / (highest - floor), 0));
  }
  if (method === "absolute" || method === "theoretical") {
    return shareOfBest(scores.map((score) => score - (leg === "semantic" ? -1 : 0)));
  }
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  if (low === high) {
    const same = method === "minmax" ? 1 : 0.5;
    return scores.map((score) => (leg === "semantic" || score > 0 ? same : 0));
  }
  const scaled = scores.map((score) => (score - low) / (high - low));
  if (method === "minmax") return scaled;
  const mean = sum(scaled) / scaled.length;
  const deviation = Math.sqrt(sum(scaled.map((value) => (value - mean) ** 2)) / scaled.length);
  const distances = scaled.map((value) => (value - mean) / deviation);
  if (method === "sigmoid") return distances.map((value) => 1 / (1 + Math.exp(-value)));
  return distances.map((value) => (Math.min(FARTHEST, Math.max(-FARTHEST, value)) + FARTHEST) / (2 * FARTHEST));
}

function shareOfBest(scores) {
  const positive = scores.map((score) => Math.max(score, 0));
  const best = Math.max(...positive);
  return best > 0 ? positive.map((score) => score / best) : positive;
}

function bestRanks(columns, count) {
  const ranks = Object.values(columns).map((column) => column.ranks);
  return [...Array(count).keys()].map((row) =>
    Math.min(...ranks.map((column) => column[row] || Infinity)),
  );
}

/** Score, best rank in a leg, document by its source, offset: as the server orders hits. */
function totalOrder(a, b) {
  return (
    b.score - a.score ||
    (a.bestRank === b.bestRank ? 0 : a.bestRank - b.bestRank) ||
    byCodePoints(a.candidate.collection, b.candidate.collection) ||
    byCodePoints(a.candidate.document_source, b.candidate.document_source) ||
    byCodePoints(a.candidate.document_source_ref ?? "", b.candidate.document_source_ref ?? "") ||
    byCodePoints(a.candidate.document_id, b.candidate.document_id) ||
    a.candidate.start - b.candidate.start ||
    byCodePoints(a.candidate.chunk_id, b.candidate.chunk_id)
  );
}

function byCodePoints(a, b) {
  if (a === b) return 0;
  const [left, right] = [[...a], [...b]];
  const at = left.findIndex((char, index) => char !== right[index]);
  if (at < 0) return -1;
  return at >= right.length ? 1 : left[at].codePointAt(0) - right[at].codePointAt(0);
}

function asHit({ candidate, row, score }, rank, fused) {
  const breakdown = { fused: fused.raw[row], fused_score: score, fused_ends: fused.ends };
  for (const [leg, column] of Object.entries(fused.columns)) {
    const part = fused.parts[leg];
    if (column.scores[row] === null) continue; // the leg has no score for it
    breakdown[leg] = {
      score: column.scores[row],
      rank: column.ranks[row] || null,
      normalised: part ? part.normalised[row] : 0,
      weight: part ? part.weight : 0,
      contribution: part ? part.contribution[row] : 0,
      damping: part ? part.damping : 1,
    };
  }
  return { ...candidate, content: candidate.text, rank, score, breakdown };
}
