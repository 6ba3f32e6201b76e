from __future__ import annotations

import math
from copy import deepcopy
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lagotto.errors import ConfigError
from lagotto.filters import And, Eq, Gte
from lagotto.prefs import (
    ChunkingPrefs,
    FuzzyPrefs,
    QueryType,
    RerankPrefs,
    RetrievalPrefs,
    ScoringPrefs,
    VectorPrefs,
)
from lagotto.testing.strategies import FILTERS

PRESETS = ("aiblox", "contextpack", "kotlin-rag", "local-rag", "oasis")


DEFAULTS = {
    "mode": "hybrid",
    "top_k": 10,
    "candidates": None,
    "min_score": 0.0,
    "strict": False,
    "scoring.blend": "linear",
    "scoring.normalize": "absolute",
    "scoring.fill": True,
    "fts.mode": "any",
    "vector.distance": "cosine",
    "fuzzy.mode": "correct",
    "parents.mode": "replace",
    "rerank.reranker": None,
    "diversity.mmr": None,
    "diversity.per_document": None,
    "diversity.copies": "each",
    "expansion.answers": False,
    "expansion.feedback": False,
    "expansion.feedback_passages": 5,
    "expansion.feedback_terms": 10,
    "chunking.include_headers": True,
    "filters": And(),
}


class TestDefaults:
    @pytest.mark.parametrize(("name", "value"), DEFAULTS.items())
    def test_what_a_plain_search_does(self, name: str, value: object) -> None:
        assert attrgetter(name)(RetrievalPrefs()) == value

    def test_weights(self) -> None:
        expected = {"semantic": 1.0, "text": 0.5, "fuzzy": 0.5, "exact": 2.0}
        assert RetrievalPrefs().scoring.weights() == expected

    def test_settings_stay_as_they_are(self) -> None:
        with pytest.raises(ValidationError):
            RetrievalPrefs().top_k = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("query_type", "expected"),
    [
        (None, (0.7, 0.3, 0.0, 1.0)),  # exact wording weighs as much as all others
        ("question", (0.7, 0.3, 0.0, 1.0)),
        ("keywords", (0.7, 2.0, 0.0, 0.5)),
    ],
)
def test_weights_of_a_type_override_what_they_name(
    query_type: QueryType | None, expected: tuple[float, ...]
) -> None:
    special = {"keywords": {"w_text": 2.0, "w_exact": 0.5}}
    scoring = RetrievalPrefs(
        scoring={"w_vec": 0.7, "w_text": 0.3, "w_fuzzy": 0, "by_type": special}
    )
    assert tuple(scoring.scoring.weights(query_type).values()) == pytest.approx(expected)
    assert ScoringPrefs(w_exact=0.0).weights()["exact"] == 0.0


@pytest.mark.parametrize(
    ("changes", "count", "depth"),
    [
        ({}, 10, 100),
        ({}, 500, 500),
        ({"candidates": 20}, 10, 20),
        ({"candidates": 20}, 30, 20),
        ({"candidates": "needed"}, 30, 30),
        ({"overfetch": 3}, 10, 30),
        ({"overfetch": 3, "candidates": 1}, 40, 120),
        ({"overfetch": 1}, 1, 1),
    ],
)
def test_how_many_candidates(changes: dict[str, Any], count: int, depth: int) -> None:
    assert RetrievalPrefs(**changes).depth(count) == depth


class TestReplace:
    def test_of_a_group_only_what_is_named_changes(self) -> None:
        prefs = RetrievalPrefs.preset("local-rag")
        changed = prefs.replace(top_k=5, scoring={"rrf_k": 20}, fuzzy=FuzzyPrefs(threshold=0.5))
        assert changed.scoring == prefs.scoring.model_copy(update={"rrf_k": 20})
        assert (changed.fuzzy.mode, changed.fuzzy.threshold) == ("always", 0.5)
        assert changed.top_k == 5
        assert changed.min_score == prefs.min_score

    def test_nothing(self) -> None:
        prefs = RetrievalPrefs(filters=Eq("year", 2020), scoring=ScoringPrefs(w_vec=0.2), top_k=3)
        assert prefs.replace() == prefs

    def test_back_to_the_default(self) -> None:
        prefs = RetrievalPrefs(top_k=3, rerank=RerankPrefs(reranker="overlap"))
        assert prefs.replace(top_k=10, rerank={"reranker": None}) == RetrievalPrefs()

    def test_a_reranker_by_its_name_alone(self) -> None:
        prefs = RetrievalPrefs(rerank={"keep": 3, "reranker": "overlap"})
        assert RetrievalPrefs(rerank="overlap").rerank == RerankPrefs(reranker="overlap")
        assert prefs.replace(rerank="auto").rerank == RerankPrefs(keep=3, reranker="auto")
        named = RetrievalPrefs.preset("contextpack", rerank="auto")
        assert not named.is_from_preset("rerank.reranker")
        assert named.rerank.reranker == "auto"

    def test_reranker_is_not_a_setting_of_a_search(self) -> None:
        with pytest.raises(ConfigError, match="no such setting; write rerank='overlap'"):
            RetrievalPrefs(reranker="overlap")  # type: ignore[call-arg]

    def test_filters_are_replaced(self) -> None:
        prefs = RetrievalPrefs(filters={"year": 2020})
        assert prefs.replace(filters={"kind": "pdf"}).filters == Eq("kind", "pdf")
        assert prefs.replace(filters=None).filters == And()
        assert prefs.replace(top_k=3).filters == Eq("year", 2020)

    def test_types_are_added(self) -> None:
        prefs = RetrievalPrefs(scoring={"by_type": {"question": {"w_text": 1}}})
        changed = prefs.replace(scoring={"by_type": {"keywords": {"w_vec": 0}}})
        assert set(changed.scoring.by_type) == {"question", "keywords"}

    def test_what_comes_out_is_checked_as_well(self) -> None:
        prefs = RetrievalPrefs(mode="semantic")
        with pytest.raises(ConfigError, match="has a weight of 0"):
            prefs.replace(scoring={"w_vec": 0})


class TestPlainData:
    DATA: dict[str, Any] = {  # noqa: RUF012
        "top_k": 3,
        "filters": {"year": {"$gte": 2020}},
        "scoring": {"blend": "rrf", "by_type": {"exact": {"w_text": 1.0}}},
        "rerank": {"min_score": 0.5},
    }

    def test_from_a_dict(self) -> None:
        prefs = RetrievalPrefs.from_dict(self.DATA)
        assert prefs.filters == Gte("year", 2020)
        assert prefs.scoring == ScoringPrefs(blend="rrf", by_type={"exact": {"w_text": 1.0}})

    def test_from_a_dict_that_names_a_preset(self) -> None:
        given = {"preset": "oasis", "top_k": 3, "scoring": {"w_vec": 1}}
        expected = RetrievalPrefs.preset("oasis", top_k=3, scoring={"w_vec": 1})
        assert RetrievalPrefs.from_dict(given) == expected
        assert given == {"preset": "oasis", "top_k": 3, "scoring": {"w_vec": 1}}

    @pytest.mark.parametrize("name", [None, *PRESETS])
    def test_there_and_back(self, name: str | None) -> None:
        prefs = RetrievalPrefs.from_dict(self.DATA | ({"preset": name} if name else {}))
        assert RetrievalPrefs.model_validate_json(prefs.model_dump_json()) == prefs
        assert RetrievalPrefs.from_dict(prefs.model_dump(mode="json")) == prefs
        assert RetrievalPrefs.from_dict(prefs.model_dump()) == prefs

    @given(
        prefs=st.builds(
            RetrievalPrefs,
            top_k=st.integers(1, 1000),
            overfetch=st.none() | st.floats(1, 1000),
            filters=FILTERS,
            scoring=st.builds(
                ScoringPrefs,
                w_vec=st.floats(0.1, 5),
                w_text=st.floats(0, 5),
                w_exact=st.none() | st.floats(0, 5),
                min_score=st.none() | st.floats(0, 1),
            ),
        )
    )
    def test_any_there_and_back(self, prefs: RetrievalPrefs) -> None:
        assert RetrievalPrefs.model_validate_json(prefs.model_dump_json()) == prefs
        assert prefs.replace() == prefs


class TestToml:
    def write(self, folder: Path, text: str) -> Path:
        path = folder / "prefs.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def test_a_file_of_its_own(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, 'top_k = 3\n[scoring]\nblend = "rrf"\n')
        expected = RetrievalPrefs(top_k=3, scoring=ScoringPrefs(blend="rrf"))
        assert RetrievalPrefs.from_toml(path) == expected
        assert RetrievalPrefs.from_toml(str(path)) == expected

    def test_a_table_of_another_file(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path,
            '[server]\nport = 1\n[retrieval]\npreset = "oasis"\n[retrieval.scoring]\nrrf_k = 5\n'
            "[retrieval.filters]\nyear = {'$gte' = 2020}\n",
        )
        expected = RetrievalPrefs.preset("oasis", scoring={"rrf_k": 5}, filters=Gte("year", 2020))
        assert RetrievalPrefs.from_toml(path) == expected

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b"top_k: 3", r"prefs.toml can't be read as TOML: .*line 1"),
            (b"\xff\xfe", "can't be read as TOML"),
            (b"top_k = " + b"[" * 5000 + b"]" * 5000, "it is nested too deeply"),
            (b'retrieval = "oasis"', r"retrieval is 'oasis'; make it a table, \[retr"),
            (b"[server]\nport = 1\n", "server: there is no such setting"),
            (None, "No such file"),
        ],
        ids=["yaml", "bytes", "nested", "no table", "another table", "missing"],
    )
    def test_what_is_wrong(self, tmp_path: Path, text: bytes | None, message: str) -> None:
        if text is not None:
            (tmp_path / "prefs.toml").write_bytes(text)
        with pytest.raises(ConfigError, match=message):
            RetrievalPrefs.from_toml(tmp_path / "prefs.toml")
        with pytest.raises(ConfigError, match="directory"):
            RetrievalPrefs.from_toml(tmp_path)


class TestEnvironment:
    def test_values_are_read_as_their_types(self) -> None:
        prefs = RetrievalPrefs.from_env(
            {
                "LAGOTTO_RETRIEVAL_TOP_K": "3",
                "LAGOTTO_RETRIEVAL_STRICT": "true",
                "LAGOTTO_RETRIEVAL_SCORING__BLEND": "rrf",
                "LAGOTTO_RETRIEVAL_SCORING__W_VEC": "0.7",
                "LAGOTTO_RETRIEVAL_SCORING__BY_TYPE__KEYWORDS__W_TEXT": "2",
                "LAGOTTO_RETRIEVAL_FILTERS": '{"year": 2020}',
                "LAGOTTO_MODELS": "elsewhere",
            }
        )
        assert prefs == RetrievalPrefs(
            top_k=3,
            strict=True,
            scoring=ScoringPrefs(blend="rrf", w_vec=0.7, by_type={"keywords": {"w_text": 2.0}}),
            filters=Eq("year", 2020),
        )

    def test_a_preset_to_start_from(self) -> None:
        variables = {"LAGOTTO_RETRIEVAL_PRESET": "oasis", "LAGOTTO_RETRIEVAL_TOP_K": "3"}
        assert RetrievalPrefs.from_env(variables) == RetrievalPrefs.preset("oasis", top_k=3)

    def test_whose_variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LAGOTTO_RETRIEVAL_TOP_K", "4")
        assert RetrievalPrefs.from_env().top_k == 4
        assert RetrievalPrefs.from_env({"MY_TOP_K": "3"}, prefix="MY_").top_k == 3
        assert RetrievalPrefs.from_env({"PATH": "/bin"}) == RetrievalPrefs()

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("TOPK", "3", "topk: there is no such setting; did you mean top_k?"),
            ("TOP_K", "many", r"top_k: .*integer.* \(it is 'many'\)"),
            (
                "SCORING__BLENDER",
                "rrf",
                "scoring.blender: there is no such setting; did you mean blend?",
            ),
            ("SCORING", "rrf", r"scoring: .*dictionary.*\(it is 'rrf'\)"),
            ("PRESET", "nope", 'unknown preset "nope"'),
            ("FILTERS", "year", "filters: the filter 'year' is not JSON"),
        ],
    )
    def test_what_is_wrong(self, name: str, value: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            RetrievalPrefs.from_env({f"LAGOTTO_RETRIEVAL_{name}": value})

    @pytest.mark.parametrize("turn", [1, -1])
    def test_a_group_that_is_set_itself(self, turn: int) -> None:
        names = ["LAGOTTO_RETRIEVAL_SCORING", "LAGOTTO_RETRIEVAL_SCORING__BLEND"][::turn]
        with pytest.raises(
            ConfigError, match="RETRIEVAL_SCORING__BLEND: scoring is set to 'x'; unset one of both"
        ):
            RetrievalPrefs.from_env(dict.fromkeys(names, "x"))


NO_WEIGHT = "all weights are 0, so no passage could have a score; raise one"

# the settings, and what they have to be
BOUNDS: list[tuple[dict[str, Any], str]] = [
    ({"top_k": 0}, "greater than or equal to 1"),
    ({"top_k": 10**9 + 1}, "less than or equal to 1000000000"),  # greater ones could overflow
    ({"top_k_items": 0}, "greater than or equal to 1"),
    ({"candidates": -1}, "greater than or equal to 1"),
    ({"overfetch": 0.5}, "greater than or equal to 1"),
    ({"overfetch": math.inf}, "less than or equal to 1000"),
    ({"min_score": 1.5}, "less than or equal to 1"),
    ({"min_score": math.nan}, "less than or equal to 1"),
    ({"fts": {"min_rank": -1}}, "greater than or equal to 0"),
    ({"fts": {"min_rank": math.inf}}, "a finite number"),
    ({"fuzzy": {"threshold": 2}}, "less than or equal to 1"),
    ({"scoring": {"rrf_k": 0}}, "greater than or equal to 1"),
    ({"scoring": {"w_vec": -0.1}}, "greater than or equal to 0"),
    ({"scoring": {"w_text": math.inf}}, "a finite number"),
    ({"scoring": {"w_text": 1_000_001}}, "less than or equal to 1000000"),
    ({"cache": {"ttl_seconds": 0}}, "greater than 0"),
    ({"cache": {"ttl_seconds": math.inf}}, "a finite number"),
    ({"snippet": {"max_chars": 2}}, "greater than or equal to 3"),
    ({"diversity": {"mmr": 1.1}}, "less than or equal to 1"),
    ({"mode": "vector"}, "'hybrid', 'semantic' or 'keyword'"),
]
NO_WEIGHTS = {"w_vec": 0, "w_text": 0, "w_fuzzy": 0}
NO_LEG = (
    "preferences: mode is {} and fuzzy.mode is {}, but what is left ({}) has a weight of 0{}; "
    "raise it in scoring, or change the mode"
)
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"nope": 1}, "nope: there is no such setting"),
    ({"scoring": {"w_fts": 1}}, "scoring.w_fts: there is no such setting"),
    ({"collection": ""}, "collection: String should have at least 1 character (it is '')"),
    ({"vector": {"min_score": 1.2}}, "vector: min_score is 1.2, but no cosine score is above 1"),
    (
        {"vector": {"min_score": 2, "distance": "l2"}},
        "vector: min_score is 2.0, but no l2 score is above 1",
    ),
    ({"scoring": NO_WEIGHTS}, f"scoring: {NO_WEIGHT}"),
    ({"scoring": {"by_type": {"exact": NO_WEIGHTS}}}, f"scoring: {NO_WEIGHT}"),
    (
        {"scoring": {"by_type": {"odd": {}}}},
        "scoring.by_type.odd.[key]: Input should be 'question', 'keywords', 'exact' or "
        "'description' (it is 'odd')",
    ),
    ({"rerank": {"candidates": "some"}}, "rerank.candidates: give a number, or all (it is 'some')"),
    (
        {"chunking": {"max_chunk_tokens": 10, "overlap_tokens": 6}},
        "chunking: overlap_tokens is 6; give at most half of max_chunk_tokens, 10",
    ),
    ({"filters": {"$x": 1}}, "filters: unknown operator $x; available here: $and, $or, $not"),
    (
        {"mode": "semantic", "scoring": {"w_vec": 0}},
        NO_LEG.format("semantic", "correct", "semantic", ""),
    ),
    (
        {"mode": "keyword", "scoring": {"w_text": 0}, "fuzzy": {"mode": "off"}},
        NO_LEG.format("keyword", "off", "text", ""),
    ),
    (
        {"scoring": {"w_vec": 0, "w_text": 0}, "fuzzy": {"mode": "off"}},
        NO_LEG.format("hybrid", "off", "semantic, text", ""),
    ),
    (
        {"mode": "semantic", "scoring": {"by_type": {"keywords": {"w_vec": 0}}}},
        NO_LEG.format("semantic", "correct", "semantic", " for queries of the type keywords"),
    ),
]


def bounded(fields: dict[str, Any], bound: str) -> tuple[dict[str, Any], str]:
    """Settings outside a bound, and the message about them."""
    ((name, value),) = fields.items()
    if isinstance(value, dict):
        ((inner, value),) = value.items()
        name = f"{name}.{inner}"
    return fields, f"{name}: Input should be {bound} (it is {value!r})"


WRONG += [bounded(*case) for case in BOUNDS]


class TestRejected:
    @pytest.mark.parametrize(("fields", "message"), WRONG, ids=[str(case[0]) for case in WRONG])
    def test_says_what_is_wrong_where(self, fields: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            RetrievalPrefs(**fields)
        assert str(caught.value) == message

    @pytest.mark.parametrize(
        "fields",
        [
            {"top_k": 10**9, "scoring": {"w_text": 1e6}},
            {"mode": "keyword", "scoring": {"w_vec": 0}},
            {"mode": "keyword", "scoring": {"w_vec": 0, "w_text": 0}},
            {"mode": "semantic", "scoring": {"w_text": 0, "w_fuzzy": 0}, "fuzzy": {"mode": "off"}},
            {"vector": {"min_score": 3, "distance": "ip"}},
            {"chunking": {"max_chunk_tokens": 10, "overlap_tokens": 5}},
        ],
    )
    def test_unusual_but_possible(self, fields: dict[str, Any]) -> None:
        RetrievalPrefs(**fields)

    def test_several_things_at_once(self) -> None:
        with pytest.raises(ConfigError) as caught:
            RetrievalPrefs.from_dict({"top_k": 0, "scoring": {"rrf_k": 0, "x": 1}, "nope": 1})
        assert str(caught.value).split("; ") == [
            "top_k: Input should be greater than or equal to 1 (it is 0)",
            "scoring.rrf_k: Input should be greater than or equal to 1 (it is 0)",
            "scoring.x: there is no such setting",
            "nope: there is no such setting",
        ]

    def test_groups_say_it_themselves(self) -> None:
        with pytest.raises(ConfigError, match=r"^rrf_k: Input should be .* \(it is 0\)$"):
            ScoringPrefs(rrf_k=0)
        with pytest.raises(ConfigError, match="no cosine score is above 1"):
            VectorPrefs(min_score=7)
        with pytest.raises(ConfigError, match="overlap_tokens is 90"):
            ChunkingPrefs(max_chunk_tokens=100, overlap_tokens=90)


@pytest.mark.parametrize("weight", [1e308, float("inf"), float("nan"), -1.0, 1e7])
def test_a_weight_that_could_overflow_is_refused(weight: float) -> None:
    for name in ("w_vec", "w_text", "w_fuzzy", "w_exact"):
        with pytest.raises(ConfigError, match=f"scoring.{name}"):
            RetrievalPrefs.from_dict({"scoring": {name: weight}})
        with pytest.raises(ConfigError, match="by_type"):
            RetrievalPrefs.from_dict({"scoring": {"by_type": {"question": {name: weight}}}})


def test_what_is_given_for_a_verb() -> None:
    """What differs from the defaults and has a meaning for the verb, and nothing else."""
    prefs = RetrievalPrefs(
        query_text="oak",
        filters=Eq("year", 2024),
        top_k=3,
        top_k_items=2,
        parents={"section_chars": 99},
        snippet={"max_chars": 80},
    )
    filters = {"filters": Eq("year", 2024).to_json()}
    assert prefs.given_for("retrieve") == filters | {"top_k": 3, "parents": {"section_chars": 99}}
    assert prefs.given_for("context") == filters | {"top_k": 3, "parents": {}}
    assert prefs.given_for("search") == filters | {
        "top_k_items": 2,
        "parents": {"section_chars": 99},
        "snippet": {"max_chars": 80},
    }
    late = prefs.replace(chunking={"strategy": "late"})
    assert late.given_for("retrieve")["top_k_items"] == 2
    assert RetrievalPrefs(query_text="oak", filters=And()).given_for("retrieve") == {}


def test_the_same_settings_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preferences are those that `replace` makes, and equal to others that were never asked."""
    own = RetrievalPrefs(top_k=7)
    for settings in ({"mode": "semantic"}, {"filters": Eq("year", 1)}, {"fts": {"mode": "web"}}):
        assert own.changed(settings) == own.replace(**settings)
        is_known = own.changed(settings) is own.changed(settings)
        assert is_known == ("fts" not in settings)  # a dict has no hash
        for deep in (True, False):
            other = own.model_copy(update={"top_k": 8}, deep=deep)
            assert other.changed(settings) == other.replace(**settings)
    assert own.changed({"filters": Eq("year", True)}).filters == Eq("year", True)
    with pytest.raises(ConfigError):
        own.changed({"top_k": 0})
    assert own == RetrievalPrefs(top_k=7)
    assert own._changed
    assert deepcopy(own) == own
    monkeypatch.setattr("lagotto.prefs.MOST_CHANGED", 3)
    made = [own.changed({"top_k": number}) for number in range(1, 9)]
    assert [prefs.top_k for prefs in made] == list(range(1, 9))
    assert len(own._changed) <= 3
