"""Read a page or a file from the web, within limits, and not from private networks.

A name is resolved once for each request, all its addresses are checked, and the connection goes to
one that was checked: a name that resolves to something else a moment later gains nothing. Each
redirect is a request of its own.

httpx limits the time of each read, not of all: a server that sends a byte now and then, in its
headers, before them or as empty blocks of compressed data, could go on for ever. So a timer shuts
the connections down when the time is over.
"""

from __future__ import annotations

import codecs
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Any

from pydantic import Field

from lagotto.documents import Record
from lagotto.errors import ReadError, SourceTooLargeError
from lagotto.models.http import without_credentials
from lagotto.readers.base import Source
from lagotto.readers.formats import MEDIA_TYPES

if TYPE_CHECKING:
    import httpx


NAT64 = IPv6Network("64:ff9b::/96")
GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All public addresses of IPv6; others lead to IPv4 addresses in disguise, or into a local site."""
HEADERS = {"User-Agent": "lagotto", "Accept": "text/html, */*;q=0.8"}


class FetchLimits(Record):
    """Limits for reading from the web.

    `timeout` is the time in seconds for all of an address, redirects included. `allow_private`
    allows addresses that are not public: this machine, the local network, cloud metadata services.
    """

    max_redirects: int = Field(default=5, ge=0)
    timeout: float = Field(default=60.0, gt=0)
    allow_private: bool = False


def fetch(
    address: str,
    *,
    max_bytes: int,
    limits: FetchLimits | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Source:
    """The content of an `http://` or `https://` address, with the address as its name."""
    import httpx

    limits = limits or FetchLimits()
    label = without_credentials(address)
    try:
        with (
            httpx.Client(trust_env=False, headers=HEADERS) as client,
            _Request(client, label, max_bytes, limits, interrupted) as request,
        ):
            return request.source(httpx.URL(address))
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as exc:
        raise ReadError(label, f"can't fetch it ({exc or type(exc).__name__})") from exc


@dataclass(eq=False)
class _Request(AbstractContextManager["_Request"]):
    """The requests for one address; when its time is over, their connections are shut down."""

    client: httpx.Client
    label: str
    max_bytes: int
    limits: FetchLimits
    interrupted: Callable[[], bool]

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.limits.timeout
        self._connections: list[socket.socket] = []
        self._timer = threading.Timer(self.limits.timeout, self._shut_down)
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._timer.cancel()
        self._timer.join()
        for connection in self._connections:
            connection.close()
        if error is not None and not isinstance(error, ReadError):
            self._remaining()  # which it failed for, if it is over

    def source(self, url: httpx.URL) -> Source:
        """Follow redirects to the content of an address."""
        for _ in range(self.limits.max_redirects + 1):
            with closing(self._sent(url)) as response:
                if not response.has_redirect_location:
                    return self._read(response)
                url = url.join(response.headers["Location"])
        raise ReadError(self.label, f"more than {self.limits.max_redirects} redirects")

    def _sent(self, url: httpx.URL) -> httpx.Response:
        """The response of the first address of the host that can be reached."""
        import httpx

        if url.scheme not in ("http", "https") or not url.host:
            raise ReadError(self.label, "only http:// and https:// addresses are read")
        if url.userinfo:
            reason = "addresses with a user name or password are not read; download it"
            raise ReadError(self.label, reason)
        port = url.port or (443 if url.scheme == "https" else 80)
        problem: httpx.TransportError | None = None
        for address in self._addresses(url.host, port):
            sni = url.raw_host.decode("ascii")
            request = self.client.build_request(
                "GET",
                url.copy_with(host=address, fragment=None),
                headers={"Host": url.netloc.decode("ascii")},
                extensions={"sni_hostname": sni, "trace": self._watch},
                timeout=self._remaining(),
            )
            try:
                return self.client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
                problem = exc
        raise problem or ReadError(self.label, f"no address for the host {url.host!r}")

    def _addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host; ReadError if one of them is not public, unless it is allowed."""
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            raise ReadError(self.label, f"can't find the host {host!r} ({exc})") from exc
        addresses = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in entries))
        private = [address for address in addresses if not is_public(address)]
        if private and not self.limits.allow_private:
            named = host if host == private[0] else f"{host} is {private[0]}, which"
            remedy = "allow private addresses (--allow-private) if you trust it"
            raise ReadError(self.label, f"{named} is not a public address; {remedy}")
        return addresses

    def _read(self, response: httpx.Response) -> Source:
        if response.status_code != 200:
            status = f"{response.status_code} {response.reason_phrase}".strip()
            raise ReadError(self.label, f"the server answered {status}")
        data = bytearray()
        for block in response.iter_bytes():
            data += block
            if len(data) > self.max_bytes:
                reason = f"larger than {self.max_bytes:,} bytes; raise max_bytes"
                raise SourceTooLargeError(self.label, reason)
            if self.interrupted():
                raise ReadError(self.label, "reading was interrupted")
            self._remaining()
        self._remaining()  # a connection that was shut down may look ended
        media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Source(
            name=self.label.partition("#")[0],
            data=_unicode(bytes(data), response) if media_type.startswith("text/") else bytes(data),
            format=MEDIA_TYPES.get(media_type),
        )

    def _remaining(self) -> float:
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            raise ReadError(self.label, f"took more than {self.limits.timeout:g} s")
        return remaining

    def _watch(self, event: str, details: Mapping[str, Any]) -> None:
        """Keep a duplicate of each new connection: the original may change hands, as by TLS."""
        if event == "connection.connect_tcp.complete":
            stream = details["return_value"].get_extra_info("socket")
            self._connections.append(stream.dup())
            self._remaining()

    def _shut_down(self) -> None:
        for connection in self._connections:
            with suppress(OSError):  # closed by the other side
                connection.shutdown(socket.SHUT_RDWR)


def _unicode(data: bytes, response: httpx.Response) -> bytes:
    """A text in UTF-8 with a mark: the encoding that the server declares is not in the content."""
    try:
        encoding = codecs.lookup(response.charset_encoding or "").name
        if encoding == "utf-8" or not data:
            return data
        return data.decode(encoding, errors="replace").encode("utf-8-sig", errors="replace")
    except (LookupError, ValueError, TypeError, AttributeError):  # unknown, or none of texts
        return data


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, also inside of IPv6 notations."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour
        if parsed in NAT64:
            inner = IPv4Address(int(parsed) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if parsed not in GLOBAL_UNICAST:
            return False
    return parsed.is_global and not parsed.is_multicast and not parsed.is_unspecified
