from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from lagotto.errors import ConfigError, RerankError
from lagotto.rerankers import LOGIT, Candidate, create_reranker
from lagotto.rerankers.cross_encoder import LONGEST, CrossEncoderFiles, CrossEncoderReranker
from lagotto.testing.rerankers import CANDIDATES, QUERY, RerankerContract

from .doubles import scores
from .tiny_cross_encoder import make_cross_encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_cross_encoder(tmp_path / "tiny")


@pytest.fixture
async def reranker(folder: Path) -> AsyncIterator[CrossEncoderReranker]:
    reranker = CrossEncoderReranker(folder, threads=2)
    yield reranker
    await reranker.close()


class TestContract(RerankerContract):
    @pytest.fixture
    async def reranker(self, folder: Path) -> AsyncIterator[CrossEncoderReranker]:
        reranker = CrossEncoderReranker(folder, threads=2)
        yield reranker
        await reranker.close()


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
    reranker = CrossEncoderReranker(folder)
    with pytest.raises(RerankError, match="the tokenizer of the cross-encoder failed"):
        await reranker.rerank("dog", passages("red"))
    await reranker.close()


async def test_the_title_is_read_with_it(reranker: CrossEncoderReranker) -> None:
    judgement = await reranker.rerank("dog", passages("dog", title="red red"))
    assert scores(judgement) == [0]


async def test_of_two_outputs_the_difference_counts(tmp_path: Path) -> None:
    reranker = CrossEncoderReranker(make_cross_encoder(tmp_path / "two", labels=2))
    assert scores(await reranker.rerank("dog", passages("red red", "dog"))) == [3, -1]
    await reranker.close()


async def test_three_outputs_are_no_verdict(tmp_path: Path) -> None:
    reranker = CrossEncoderReranker(make_cross_encoder(tmp_path / "three", labels=3))
    with pytest.raises(RerankError, match="returned 3 values per pair"):
        await reranker.rerank("dog", passages("red"))
    await reranker.close()


async def test_the_longer_text_is_cut_first(reranker: CrossEncoderReranker) -> None:
    # 16 tokens, 3 of them special, leave 13: 2 for the query and 11 for the passage.
    judgement = await reranker.rerank("dog dog", passages("red " * 40))
    assert scores(judgement) == [11]
    judgement = await reranker.rerank("dog " * 40, passages("red red"))
    assert scores(judgement) == [2]


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


def test_the_id_changes_with_the_files(folder: Path) -> None:
    before = CrossEncoderReranker(folder).id
    assert CrossEncoderReranker(folder).id == before
    make_cross_encoder(folder, labels=2)
    assert CrossEncoderReranker(folder).id != before


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
    assert CrossEncoderFiles.found_in(folder).max_tokens == expected


class TestWhatIsWrong:
    @pytest.mark.parametrize("missing", ["onnx/model.onnx", "tokenizer.json"])
    def test_missing_files(self, folder: Path, missing: str) -> None:
        (folder / missing).unlink()
        with pytest.raises(ConfigError, match="not the folder of a cross-encoder"):
            create_reranker(f"cross-encoder:{folder}")

    async def test_a_broken_model(self, folder: Path) -> None:
        (folder / "onnx/model.onnx").write_bytes(b"nonsense")
        with pytest.raises(RerankError, match=r"can't load .* as an ONNX model"):
            await CrossEncoderReranker(folder).rerank(QUERY, CANDIDATES)

    async def test_a_broken_tokenizer(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text("{}")
        with pytest.raises(RerankError, match="can't load the tokenizer"):
            await CrossEncoderReranker(folder).rerank(QUERY, CANDIDATES)

    def test_a_broken_configuration(self, folder: Path) -> None:
        (folder / "config.json").write_text("{")
        with pytest.raises(ConfigError, match=r"can't read .* as JSON"):
            CrossEncoderReranker(folder)

    def test_no_threads(self, folder: Path) -> None:
        with pytest.raises(ConfigError, match="threads is 0"):
            CrossEncoderReranker(folder, threads=0)

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
