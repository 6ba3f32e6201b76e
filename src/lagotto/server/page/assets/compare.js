// Two lists side by side: how far each hit of one moved against the other.

/** Mark the hits of both lists with their change of rank. */
export function arrows(first, second) {
  const before = ranks(first.hits);
  const after = ranks(second.hits);
  first.showMoves(moves(before, after, "B"));
  second.showMoves(moves(after, before, "A"));
}

const ranks = (hits) => new Map(hits.map((hit) => [hit.chunk_id, hit.rank]));

function moves(own, other, name) {
  const byChunk = new Map();
  for (const [chunk, rank] of own) byChunk.set(chunk, move(rank, other.get(chunk), name));
  return byChunk;
}

function move(rank, there, name) {
  if (there === undefined) return { kind: "only", text: "＋", title: `not in ${name}` };
  if (there === rank) return { kind: "same", text: "=", title: `same rank as in ${name}` };
  const steps = Math.abs(there - rank);
  return there > rank
    ? { kind: "up", text: `▲${steps}`, title: `${steps} higher than in ${name}` }
    : { kind: "down", text: `▼${steps}`, title: `${steps} lower than in ${name}` };
}
