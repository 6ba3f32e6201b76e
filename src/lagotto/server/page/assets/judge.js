// Thumbs up and down: judgements, stored in the base, that evaluation reads.

import { ask } from "./api.js";
import { announce, el } from "./dom.js";
import { plainKey } from "./locations.js";

/** What this key said of passages for a query, by their citations without the hash of the text. */
export async function judgedFor(query) {
  const { judgements } = await ask(`/v1/judgements?${new URLSearchParams({ q: query, mine: true })}`);
  return new Map(judgements.map(({ citation, relevance }) => [citation.split("~")[0], relevance]));
}

const SVG = "http://www.w3.org/2000/svg";
const HAND = "M2 10h4v11H2zM8 21h9.500a2 2 0 0 0 2-1.600l1.400-7a2 2 0 0 0-2-2.400H14l.8-4.200A2 2 0 0 0 11.200 4.400L8 10z";

/** The picture on a button; the style sheet turns it. */
function thumb() {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", "0 0 24 24");
  picture.setAttribute("class", "icon");
  picture.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", HAND);
  picture.append(path);
  return picture;
}

/** Two buttons that judge a hit for a query; pressing one again takes the judgement back. */
export function judgeButtons(hit, query) {
  const buttons = [[1, "up", "Relevant"], [0, "down", "Not relevant"]].map(([relevance, way, name]) => {
    const button = el("button", { type: "button", class: `thumb ${way}`, "aria-pressed": "false", "aria-label": name, title: name,
      onclick: () => judge(relevance, button) }, thumb());
    button.relevance = relevance;
    return button;
  });
  press(hit.judged ?? null);
  const group = el("span", { class: "thumbs", role: "group", "aria-label": "Judge this result" }, buttons);
  group.press = press;
  return group;

  async function judge(relevance, button) {
    const again = button.getAttribute("aria-pressed") === "true";
    const judged = again ? null : relevance;
    try {
      await ask("/v1/judgements", { method: "POST", body: {
        query, citation: hit.key ?? plainKey(hit), relevance: judged,
      } });
      hit.judged = judged;
      press(judged);
      announce(again ? "Judgement removed" : `Judged ${button.title.toLowerCase()}`);
    } catch (error) {
      announce(error.message);
      button.title = error.message;
    }
  }

  function press(judged) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.relevance === judged));
  }
}
