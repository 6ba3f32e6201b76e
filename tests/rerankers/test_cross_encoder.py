from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from lagotto.errors import ConfigError, RerankError, WeightsError
from lagotto.models.fetch import fetch_model
from lagotto.rerankers import LOGIT, RERANKERS, Candidate, Judgement, Verdict, create_reranker
from lagotto.rerankers.base import BLENDED, CROSS_ENCODERS, time_limit
from lagotto.rerankers.cross_encoder import LONGEST, MODELS, CrossEncoderReranker, from_folder
from lagotto.testing.rerankers import CANDIDATES, QUERY, RerankerContract

from .doubles import scores
from .tiny_cross_encoder import make_cross_encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_cross_encoder(tmp_path / "tiny")


@pytest.fixture
async def reranker(folder: Path) -> AsyncIterator[CrossEncoderReranker]:
    reranker = from_folder(folder, threads=2)
    yield reranker
    await reranker.close()


class TestContract(RerankerContract):
    pass


def passages(*texts: str, title: str | None = None) -> list[Candidate]:
    return [Candidate(id=text, text=text, title=title, score=0.5) for text in texts]


async def test_reads_the_passage_beside_the_query(reranker: CrossEncoderReranker) -> None:
    some = passages("red", "red red dog", "dog", "", "red red red red red red red")
    assert scores(await reranker.rerank("dog red", some)) == [1, 0, -2, 0, 7]
    assert reranker.scale == LOGIT


async def test_a_panic_of_its_tokenizer_is_an_error(folder: Path) -> None:
    path = folder / "tokenizer.json"
    odd = {"pre_tokenizer": {"type": "FixedLength", "length": 0}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **odd}))
    reranker = from_folder(folder)
    with pytest.raises(RerankError, match="the tokenizer of the cross-encoder failed"):
        await reranker.rerank("dog", passages("red"))
    await reranker.close()


async def test_the_title_is_read_with_it(reranker: CrossEncoderReranker) -> None:
    judgement = await reranker.rerank("dog", passages("dog", title="red red"))
    assert scores(judgement) == [0]


async def test_of_two_outputs_the_difference_counts(tmp_path: Path) -> None:
    reranker = from_folder(make_cross_encoder(tmp_path / "two", labels=2))
    assert scores(await reranker.rerank("dog", passages("red red", "dog"))) == [3, -1]
    await reranker.close()


async def test_three_outputs_are_no_verdict(tmp_path: Path) -> None:
    reranker = from_folder(make_cross_encoder(tmp_path / "three", labels=3))
    with pytest.raises(RerankError, match="returned 3 values per pair"):
        await reranker.rerank("dog", passages("red"))
    await reranker.close()


async def test_the_longer_text_is_cut_first(reranker: CrossEncoderReranker) -> None:
    # 16 tokens, 3 of them special, leave 13: 2 for the query and 11 for the passage.
    judgement = await reranker.rerank("dog dog", passages("red " * 40))
    assert scores(judgement) == [11]
    judgement = await reranker.rerank("dog " * 40, passages("red red"))
    assert scores(judgement) == [2]


async def test_of_a_long_passage_the_best_window_counts(reranker: CrossEncoderReranker) -> None:
    """Of 16 tokens, the query takes 2 and special ones 3: windows have 11."""
    first, last = "dog " * 30 + "red " * 11, "red " * 11 + "dog " * 30
    judgement = await reranker.rerank("red dog", passages(first, last, "dog " * 41))
    assert scores(judgement) == [11, 11, -22]


async def test_every_window_is_under_the_title(reranker: CrossEncoderReranker) -> None:
    judgement = await reranker.rerank("dog dog", passages("red " * 30, title="dog dog"))
    assert scores(judgement) == [9 - 4]


async def test_a_window_with_words_of_the_query_is_read_wherever_it_is(
    reranker: CrossEncoderReranker,
) -> None:
    """Three windows are read, of eighteen."""
    text = "dog " * 70 + "red red " + "dog " * 70
    judgement = await reranker.rerank("red", passages(text))
    assert scores(judgement) == [2 - 2 * 10]


async def test_no_score_depends_on_threads_or_neighbours(folder: Path) -> None:
    some = passages(*(f"{'red ' * count}dog" for count in range(30)))
    expected = None
    for threads in (1, 4):
        reranker = from_folder(folder, threads=threads)
        together = await reranker.rerank("dog red", some)
        alone = [await reranker.rerank("dog red", [one]) for one in some]
        assert [scores(one)[0] for one in alone] == scores(together)
        assert expected in (None, together)
        expected = together
        await reranker.close()


async def test_it_stops_when_its_time_is_over(reranker: CrossEncoderReranker) -> None:
    some = passages("red", "dog")
    with time_limit(0.0):
        judgement = await reranker.rerank("dog", some)
    assert judgement == Judgement([None, None], unjudged=frozenset({0, 1}))
    with time_limit(60.0):
        assert scores(await reranker.rerank("dog", some)) == [1, -2]


async def test_verdicts_of_a_cut_call_are_cached_and_the_others_read_later(folder: Path) -> None:
    cached = create_reranker(f"cached:cross-encoder:{folder}")
    red, dog = passages("red", "dog")
    assert scores(await cached.rerank("dog", [red])) == [1]
    with time_limit(0.0):
        judgement = await cached.rerank("dog", [red, dog])
    assert judgement == Judgement([Verdict(1), None], unjudged=frozenset({1}))
    assert scores(await cached.rerank("dog", [red, dog])) == [1, -2]
    await cached.close()


class TestKnown:
    """The catalog has the tiny model under the name of a real one."""

    NAME = "ms-marco-minilm-l12"

    @pytest.fixture(autouse=True)
    def fetched(self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LAGOTTO_MODELS", str(tmp_path / "models"))
        hashes = dict.fromkeys(MODELS[self.NAME].hashes, frozenset[str]())
        tiny = MODELS[self.NAME].model_copy(update={"hashes": hashes})
        monkeypatch.setitem(MODELS, self.NAME, tiny)
        fetch_model(self.NAME, source=str(folder))

    async def test_by_its_name(self) -> None:
        reranker = create_reranker(self.NAME)
        assert reranker.scale == BLENDED
        assert reranker.id.startswith(f"{self.NAME}#")
        assert scores(await reranker.rerank("dog", passages("red"))) == [1]
        await reranker.close()

    def test_settings(self) -> None:
        assert create_reranker(f"{self.NAME}?blend=false").scale == LOGIT
        assert create_reranker(f"{self.NAME}?max_tokens=64").id.endswith("?max_tokens=64")
        with pytest.raises(ConfigError, match=r"colour.*available settings: blend, max_tokens"):
            create_reranker(f"{self.NAME}?colour=red")
        with pytest.raises(ConfigError, match="write cross-encoder:/x"):
            create_reranker(f"{self.NAME}:/x")

    def test_one_that_is_missing_names_the_command(self) -> None:
        with pytest.raises(WeightsError, match="run `lagotto models fetch mmarco-minilm`"):
            create_reranker("mmarco-minilm")

    async def test_other_alphabets_keep_the_fused_order(self) -> None:
        reranker = create_reranker(self.NAME)
        judgement = await reranker.rerank("красная собака", passages("red"))
        note = f"{self.NAME} was trained on en only, the fused order stands"
        assert judgement == Judgement(None, (note,))
        await reranker.close()

    async def test_auto_takes_the_one_that_is_here(self) -> None:
        reranker = create_reranker("auto")
        english = [Candidate(id="a", text="red", language="en", score=0.5)]
        assert scores(await reranker.rerank("dog", english)) == [1]
        assert self.NAME in reranker.id
        await reranker.close()

    @pytest.mark.parametrize(
        ("query", "language"), [("собака", "ru"), ("собака", "en"), ("Hund", "de")]
    )
    async def test_auto_without_one_for_the_language(self, query: str, language: str) -> None:
        reranker = create_reranker("auto")
        other = [Candidate(id="a", text="red", language=language, score=0.5)]
        judgement = await reranker.rerank(query, other)
        assert judgement.verdicts is None
        (note,) = judgement.notes
        assert "the fused order stands; `lagotto models fetch mmarco-minilm` gets one" in note
        await reranker.close()

    async def test_auto_with_a_language_of_no_known_model(self) -> None:
        reranker = create_reranker("auto")
        swedish = [Candidate(id="a", text="röd", language="sv", score=0.5)]
        judgement = await reranker.rerank("hund", swedish)
        note = "no cross-encoder for this language is on this machine, the fused order stands"
        assert judgement == Judgement(None, (note,))
        await reranker.close()

    async def test_auto_without_any(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LAGOTTO_MODELS", "nowhere")
        reranker = create_reranker("auto")
        judgement = await reranker.rerank("dog", passages("red"))
        assert f"`lagotto models fetch {self.NAME}` gets one" in judgement.notes[0]
        assert reranker.id == "auto()"
        await reranker.close()


def test_every_known_cross_encoder_is_a_reranker() -> None:
    assert tuple(MODELS) == CROSS_ENCODERS
    for name, model in MODELS.items():
        assert model.name == model.config.name == name
        assert callable(RERANKERS.get(name))
        assert model.good_for
        assert model.repository or model.archive


async def test_goes_on_after_closing(reranker: CrossEncoderReranker) -> None:
    before = await reranker.rerank(QUERY, CANDIDATES)
    await reranker.close()
    assert await reranker.rerank(QUERY, CANDIDATES) == before


async def test_by_name_in_either_layout(tmp_path: Path) -> None:
    for at in ("onnx/model.onnx", "model.onnx"):
        folder = make_cross_encoder(tmp_path / at.replace("/", "-"), at=at)
        reranker = create_reranker(f"cross-encoder:{folder}")
        assert scores(await reranker.rerank("dog", passages("red"))) == [1]
        await reranker.close()


def test_by_name_with_settings(folder: Path) -> None:
    assert create_reranker(f"cross-encoder:{folder}").scale == LOGIT
    assert create_reranker(f"cross-encoder:{folder}?blend=true").scale == BLENDED


def test_the_id_changes_with_the_files(folder: Path) -> None:
    before = from_folder(folder).id
    assert from_folder(folder).id == before
    make_cross_encoder(folder, labels=2)
    assert from_folder(folder).id != before


@pytest.mark.parametrize(
    ("config", "tokenizer", "expected"),
    [
        (None, None, LONGEST),
        (514, 1e30, LONGEST),
        (128, None, 128),
        (514, 64, 64),
    ],
)
def test_limits(folder: Path, config: int | None, tokenizer: float | None, expected: int) -> None:
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": config}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": tokenizer}))
    assert from_folder(folder).config.max_tokens == expected


class TestWhatIsWrong:
    @pytest.mark.parametrize("missing", ["onnx/model.onnx", "tokenizer.json"])
    def test_missing_files(self, folder: Path, missing: str) -> None:
        (folder / missing).unlink()
        with pytest.raises(ConfigError, match="not the folder of a cross-encoder"):
            create_reranker(f"cross-encoder:{folder}")

    async def test_a_broken_model(self, folder: Path) -> None:
        (folder / "onnx/model.onnx").write_bytes(b"nonsense")
        with pytest.raises(RerankError, match=r"can't load .* as an ONNX model"):
            await from_folder(folder).rerank(QUERY, CANDIDATES)

    async def test_a_broken_tokenizer(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text("{}")
        with pytest.raises(RerankError, match="can't load the tokenizer"):
            await from_folder(folder).rerank(QUERY, CANDIDATES)

    def test_a_broken_configuration(self, folder: Path) -> None:
        (folder / "config.json").write_text("{")
        with pytest.raises(ConfigError, match=r"can't read .* as JSON"):
            from_folder(folder)

    def test_no_threads(self, folder: Path) -> None:
        with pytest.raises(ConfigError, match="threads is 0"):
            from_folder(folder, threads=0)

    @pytest.mark.parametrize(
        "name", ["cross-encoder", "cross-encoder:", "cross-encoder:no/such/one"]
    )
    def test_no_folder(self, name: str) -> None:
        with pytest.raises(ConfigError, match="cross-encoder"):
            create_reranker(name)


class TestHub:
    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.delenv("LAGOTTO_DOWNLOAD", raising=False)
        return tmp_path / "hub" / "models--org--tiny"

    async def test_what_was_fetched_before_is_found(self, cache: Path) -> None:
        commit = "0" * 40
        make_cross_encoder(cache / "snapshots" / commit)
        (cache / "refs").mkdir()
        (cache / "refs" / "main").write_text(commit)
        reranker = create_reranker("cross-encoder:org/tiny")
        assert scores(await reranker.rerank("dog", passages("red"))) == [1]
        await reranker.close()

    def test_nothing_is_fetched_unasked(self) -> None:
        with pytest.raises(ConfigError, match="LAGOTTO_DOWNLOAD is not 1; give the folder"):
            create_reranker("cross-encoder:org/absent")

    def test_a_hub_that_cannot_be_reached(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LAGOTTO_DOWNLOAD", "1")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(ConfigError, match="not on this machine"):
            create_reranker("cross-encoder:org/absent")

    def test_without_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        with pytest.raises(ConfigError, match="pip install huggingface_hub"):
            create_reranker("cross-encoder:org/absent")
