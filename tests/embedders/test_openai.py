from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lagotto.embedders import create_embedder
from lagotto.embedders.openai import OpenAIConfig, OpenAIEmbedder
from lagotto.errors import ConfigError, EmbeddingServiceError
from lagotto.models.http import RetryPolicy
from lagotto.testing.embedders import TEXTS, EmbedderContract
from lagotto.testing.hash_embedder import HashEmbedder
from tests.servers.scripted import Reply, Request, ScriptedServer, embeddings_route

PATH = "/v1/embeddings"
SOURCE = HashEmbedder(dimension=16)
ROUTE = embeddings_route(SOURCE)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer({PATH: ROUTE}) as server:
        yield server


def make(server: ScriptedServer, **settings: object) -> OpenAIEmbedder:
    config = OpenAIConfig.model_validate(
        {"model": "m", "dimension": 16, "base_url": f"{server.url}/v1", **settings}
    )
    return OpenAIEmbedder(config, retry=RetryPolicy(tries=3, timeout=10.0, pause=0.001))


@pytest.fixture
async def embedder(server: ScriptedServer) -> AsyncIterator[OpenAIEmbedder]:
    embedder = make(server)
    yield embedder
    await embedder.close()


class TestOpenAIEmbedder(EmbedderContract):
    @pytest.fixture
    async def embedder(self, server: ScriptedServer) -> AsyncIterator[OpenAIEmbedder]:
        embedder = make(server, batch_size=3)
        yield embedder
        await embedder.close()


async def test_vectors_are_the_services(embedder: OpenAIEmbedder) -> None:
    found = await embedder.embed(TEXTS, role="query")
    np.testing.assert_allclose(found, await SOURCE.embed(TEXTS, role="query"), atol=1e-6)


async def test_the_request(server: ScriptedServer, embedder: OpenAIEmbedder) -> None:
    await embedder.embed(["a", "", "b\ud800"], role="query")
    (request,) = server.requests
    assert request.json == {
        "model": "m",
        "input": ["a", " ", "b\ufffd"],
        "encoding_format": "float",
    }


async def test_batches_by_number(server: ScriptedServer) -> None:
    embedder = make(server, batch_size=4)
    texts = [f"text {number}" for number in range(10)]
    found = await embedder.embed(texts, role="document")
    await embedder.close()
    assert sorted(len(request.json["input"]) for request in server.requests) == [2, 4, 4]
    np.testing.assert_allclose(found, await SOURCE.embed(texts, role="document"), atol=1e-6)


async def test_batches_by_tokens(server: ScriptedServer, embedder: OpenAIEmbedder) -> None:
    await embedder.embed(["word " * 30_000] * 3 + ["short"] * 2, role="document")
    assert sorted(len(request.json["input"]) for request in server.requests) == [1, 1, 3]


async def test_a_text_is_cut_at_max_tokens(server: ScriptedServer) -> None:
    embedder = make(server, max_tokens=3)
    await embedder.embed(["one two three four five", "one two three"], role="document")
    await embedder.close()
    assert server.requests[0].json["input"] == ["one two three ", "one two three"]


async def test_shortened_vectors_have_a_model_id_of_their_own(server: ScriptedServer) -> None:
    embedder = make(server, dimension=None, dimensions=16)
    await embedder.embed(["a"], role="document")
    await embedder.close()
    assert server.requests[0].json["dimensions"] == 16
    assert embedder.info.model_id == "m@16"


Tamper = Callable[[list[dict[str, Any]]], object]

NONSENSE: dict[str, tuple[Tamper, str]] = {
    "one too few": (lambda data: {"data": data[1:]}, "got 4 texts and answered with 3"),
    "one too many": (lambda data: {"data": [*data, data[0]]}, "answered with 5"),
    "twice the same index": (
        lambda data: {"data": [{**item, "index": 0} for item in data]},
        r"indexes \[0, 0, 0, 0\]",
    ),
    "indexes from 1": (
        lambda data: {"data": [{**item, "index": item["index"] + 1} for item in data]},
        r"indexes \[1, 2, 3, 4\]",
    ),
    "no index": (lambda data: {"data": [{"embedding": data[0]["embedding"]}]}, "data.0.index"),
    "not a number": (
        lambda data: {"data": [{**data[0], "embedding": [float("nan")] * 16}, *data[1:]]},
        "finite number",
    ),
    "words": (lambda data: {"data": [{"index": 0, "embedding": "AAAA"}]}, "valid list"),
    "a shorter vector": (
        lambda data: {"data": [{**data[0], "embedding": [1.0] * 8}, *data[1:]]},
        "dimension 16, but returned vectors of dimension 8, 16",
    ),
    "all shorter": (
        lambda data: {"data": [{**item, "embedding": [1.0] * 8} for item in data]},
        "dimension 16, but returned vectors of dimension 8; set",
    ),
    "an error with status 200": (lambda data: {"error": "model not loaded"}, "model not loaded"),
    "a list": (lambda data: data, "not a list of embeddings"),
}


@pytest.mark.parametrize("case", NONSENSE)
async def test_nonsense_is_refused(
    server: ScriptedServer, embedder: OpenAIEmbedder, case: str
) -> None:
    tamper, message = NONSENSE[case]

    def answer(request: Request) -> Reply:
        return Reply(tamper(ROUTE(request).body["data"]))

    server.script(PATH, answer)
    with pytest.raises(EmbeddingServiceError, match=message):
        await embedder.embed(TEXTS, role="document")


def test_known_models() -> None:
    embedder = create_embedder("openai:text-embedding-3-small")
    assert (embedder.info.dimension, embedder.info.max_tokens) == (1536, 8191)
    short = create_embedder("openai:text-embedding-3-small?dimensions=256").info
    assert (short.model_id, short.dimension) == ("text-embedding-3-small@256", 256)


def test_an_unknown_model_needs_its_dimension() -> None:
    with pytest.raises(ConfigError, match=r'for "bge-m3"; write openai:bge-m3\?dimension=768'):
        create_embedder("openai:bge-m3")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("m?dimension=many", "dimension: .*valid integer"),
        ("m?dimension=0", "dimension: .*greater than or equal to 1"),
        ("m?colour=red", "colour: Extra inputs.*base_url, batch_size"),
        ("?dimension=3", "missing model; write openai:MODEL"),
    ],
)
def test_wrong_settings_are_named(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create_embedder(f"openai:{spec}")


async def test_settings_from_the_environment(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    embedder = create_embedder("openai:m?dimension=16")
    await embedder.embed(["a"], role="query")
    await embedder.close()
    assert server.requests[0].headers["authorization"] == "Bearer sk-env"
