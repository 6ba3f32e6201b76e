from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from lagotto.errors import EmbeddingServiceError, RerankError
from lagotto.models.http import JsonService, RetryPolicy
from tests.servers.scripted import Reply, Request, ScriptedServer

PATH = "/echo"
QUICK = RetryPolicy(tries=3, timeout=5.0, pause=0.001, longest_pause=0.5)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    def echo(request: Request) -> Reply:
        return Reply({"sent": request.json})

    with ScriptedServer({PATH: echo}) as server:
        yield server


def make(address: str, *, api_key: str | None = None, retry: RetryPolicy = QUICK) -> JsonService:
    return JsonService(address, api_key=api_key, retry=retry, connections=2, failure=RerankError)


async def post(server: ScriptedServer, *, retry: RetryPolicy = QUICK, path: str = PATH) -> object:
    service = make(server.url + "/", api_key="sk-secret", retry=retry)
    try:
        return await service.post(path, {"a": "ü"})
    finally:
        await service.close()


async def test_it_posts_json_with_the_key(server: ScriptedServer) -> None:
    assert await post(server) == {"sent": {"a": "ü"}}
    assert server.requests[0].headers["authorization"] == "Bearer sk-secret"


async def test_without_a_key_none_is_sent(server: ScriptedServer) -> None:
    service = make(server.url)
    await service.post(PATH, {})
    await service.close()
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    "failure",
    [
        *(Reply(status=status) for status in (408, 409, 429, 500, 502, 503, 504)),
        Reply(drop=True),
        Reply(status=429, headers={"Retry-After": "soon"}),
    ],
)
async def test_a_passing_failure_is_tried_again(server: ScriptedServer, failure: Reply) -> None:
    server.script(PATH, failure, failure)
    assert await post(server) == {"sent": {"a": "ü"}}
    assert len(server.requests) == 3


async def test_a_slow_answer_is_tried_again(server: ScriptedServer) -> None:
    server.script(PATH, Reply(delay=30.0))
    assert await post(server, retry=QUICK.model_copy(update={"timeout": 0.5}))
    assert len(server.requests) == 2


async def test_it_gives_up_in_the_end(server: ScriptedServer) -> None:
    server.script(PATH, *[Reply({"error": {"message": "overloaded"}}, status=503)] * 3)
    with pytest.raises(RerankError, match=r"503: overloaded \(try 3 of 3\)") as caught:
        await post(server)
    assert caught.value.status == 503
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_lasting_failure_is_not_tried_again(server: ScriptedServer, status: int) -> None:
    server.script(PATH, Reply({"error": {"message": "no"}}, status=status))
    with pytest.raises(RerankError, match=f"answered {status}: no") as caught:
        await post(server)
    assert caught.value.status == status
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "in full"}}, "in full"),
        ({"error": "short"}, "short"),
        ({"message": "flat"}, "flat"),
        ({"detail": "fast"}, "fast"),
        (["odd"], "odd"),
        (b"plain text", "plain text"),
        (b"", "Bad Request"),
    ],
)
async def test_the_services_own_words(server: ScriptedServer, body: object, said: str) -> None:
    server.script(PATH, Reply(body, status=400))
    with pytest.raises(RerankError, match=said):
        await post(server)


@pytest.mark.parametrize("status", [200, 401, 503])
async def test_the_key_is_never_shown(server: ScriptedServer, status: int) -> None:
    server.script(PATH, *[Reply(b"your key sk-secret is bad", status=status)] * 3)
    with pytest.raises(RerankError, match=r"your key \*\*\* is bad") as caught:
        await post(server)
    assert "sk-secret" not in str(caught.value)


async def test_a_password_in_the_address_is_never_shown(server: ScriptedServer) -> None:
    service = make(server.url.replace("//", "//me:hunter2@"))
    assert service.address == server.url
    with pytest.raises(RerankError, match="404") as caught:
        await service.post("/other", {})
    await service.close()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("failure", [RerankError, EmbeddingServiceError])
async def test_failures_are_the_users_own(
    server: ScriptedServer, failure: type[RerankError | EmbeddingServiceError]
) -> None:
    service = JsonService(server.url, api_key=None, retry=QUICK, connections=1, failure=failure)
    with pytest.raises(failure, match="404: no route for /other"):
        await service.post("/other", {})
    await service.close()


async def test_something_else_than_json(server: ScriptedServer) -> None:
    server.script(PATH, Reply(b"<html>hello</html>"))
    with pytest.raises(RerankError, match="did not answer with JSON: '<html>hello"):
        await post(server)


async def test_the_service_may_say_how_long_to_wait(server: ScriptedServer) -> None:
    never = QUICK.model_copy(update={"pause": 3600.0, "longest_pause": 3600.0})
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=5))
    server.script(
        PATH,
        Reply(status=429, headers={"Retry-After": "0.01"}),
        Reply(status=503, headers={"Retry-After": past}),
    )
    assert await post(server, retry=never) == {"sent": {"a": "ü"}}


async def test_but_not_too_long(server: ScriptedServer) -> None:
    server.script(PATH, Reply(status=429, headers={"Retry-After": "1000"}))
    with pytest.raises(RerankError, match="asks to wait 1000 s"):
        await post(server)
    assert len(server.requests) == 1


async def test_nobody_there() -> None:
    with ScriptedServer({}) as server:
        pass
    with pytest.raises(RerankError, match=r"no answer from .*try 3 of 3"):
        await post(server)


@pytest.mark.parametrize("address", ["localhost:9", "ftp://127.0.0.1", "http://[::1"])
async def test_an_address_that_is_none(address: str) -> None:
    service = make(address)
    with pytest.raises(RerankError, match="not a valid URL"):
        await service.post(PATH, {})
    await service.close()


def test_pauses_double_up_to_a_limit() -> None:
    retry = RetryPolicy(pause=1.0, longest_pause=5.0)
    for failures, longest in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (50, 5.0)]:
        assert longest / 2 <= retry.wait(failures) <= longest


async def test_a_missing_key_is_found_before_the_first_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    service = JsonService.openai(
        None, api_key=None, retry=RetryPolicy(), connections=1, failure=EmbeddingServiceError
    )
    with pytest.raises(EmbeddingServiceError, match="needs a key; set OPENAI_API_KEY"):
        await service.post("/embeddings", {})
    assert service._client is None
