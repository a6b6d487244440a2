"""Who may come in. Viser serves everybody who finds its port, web pages of other sites included;
this stands before it.

    browser ──► gate, host:port ──► viser, on a loopback address drawn at random

A request passes if
- it names this server (header Host), so that no other name was made to lead here,
- its Origin, if it has one, is this server, so that no page of another site uses it, and
- where a token is asked for, it has it: first as `?token=...`, then in the cookie set for that.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import hmac
import ipaddress
import secrets
import threading
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

_HEAD_LIMIT = 64 * 1024  # bytes
_HEAD_TIMEOUT = 10.0  # s
_CHUNK = 64 * 1024
_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class GateError(RuntimeError):
    """The address cannot be used; says what to do."""


def is_loopback(host: str) -> bool:
    """Whether a server bound to `host` is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def draw_loopback() -> str:
    """An address of this machine that a web page cannot guess."""
    return ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])


def make_token() -> str:
    """A new token."""
    return secrets.token_urlsafe(18)


def judge(head: str, token: str, local: bool) -> tuple[HTTPStatus, str]:
    """Whether a request may pass.

    head: request line and header lines. token: asked for unless empty. local: only names of this
    machine lead here. Returns the status and words for it; with FOUND the request showed the token
    and is to come again with the cookie.
    """
    lines = head.split("\r\n")
    try:
        _, target, _ = lines[0].split(" ")
    except ValueError:
        return HTTPStatus.BAD_REQUEST, "no HTTP request"
    headers = dict(
        (name.strip().lower(), value.strip())
        for name, colon, value in (line.partition(":") for line in lines[1:])
        if colon
    )
    host = headers.get("host", "")
    if local and host.rpartition(":")[0] not in _LOCAL_NAMES:
        return HTTPStatus.FORBIDDEN, f"found the name {host!r}, allowed: localhost"
    origin = headers.get("origin", "")
    if origin and urlsplit(origin).netloc != host:
        return HTTPStatus.FORBIDDEN, f"found a request of the site {origin!r}, allowed: this one"
    if not token:
        return HTTPStatus.OK, ""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(cookie_name(host))
    except CookieError:
        cookie = None
    if cookie is not None and hmac.compare_digest(cookie.value.encode(), token.encode()):
        return HTTPStatus.OK, ""
    shown = parse_qs(urlsplit(target).query).get("token", [""])[0]
    if hmac.compare_digest(shown.encode(), token.encode()):
        return HTTPStatus.FOUND, ""
    return HTTPStatus.FORBIDDEN, "a token is needed; use the address that the view's log shows"


def cookie_name(host: str) -> str:
    """Cookies do not tell ports apart; their names do."""
    return f"footlight_{host.rpartition(':')[2]}"


class Gate:
    """Listens in a thread of its own and passes on what `judge` lets in."""

    def __init__(self, host: str, port: int, token: str, inner: tuple[str, int]):
        """inner: address of viser. port 0: any free one. Raises GateError if it is in use."""
        self._host, self._port, self._token, self._inner = host, port, token, inner
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gate", daemon=True)
        self._thread.start()
        try:
            self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        except OSError as error:
            self._end_loop()
            raise GateError(
                f"{host}:{port}: {error.strerror or error}; give another host or port"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        """The port that is listened on."""

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, self._host, self._port, limit=_HEAD_LIMIT)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            data = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_TIMEOUT)
            status, text = judge(data.decode("latin-1"), self._token, is_loopback(self._host))
            if status == HTTPStatus.OK:
                await self._pass_on(data, reader, writer)
            else:
                writer.write(self._answer(status, text, data.decode("latin-1")))
                await writer.drain()
        except (
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            OSError,
            asyncio.TimeoutError,
        ):
            pass  # the other side is gone, or speaks no HTTP
        except asyncio.CancelledError:
            pass  # the gate is closed
        finally:
            writer.close()

    def _answer(self, status: HTTPStatus, text: str, head: str) -> bytes:
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Connection: close"]
        if status == HTTPStatus.FOUND:
            host = next(v.strip() for v in head.split("\r\n") if v.lower().startswith("host:"))[5:]
            cookie = f"{cookie_name(host.strip())}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            lines += ["Location: /", f"Set-Cookie: {cookie}"]
        body = text.encode()
        lines += ["Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode() + body

    async def _pass_on(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Viser answers one request on a connection, or keeps it as a WebSocket."""
        inner_reader, inner_writer = await asyncio.open_connection(*self._inner)
        inner_writer.write(head)
        ways = [
            asyncio.create_task(_copy(reader, inner_writer)),
            asyncio.create_task(_copy(inner_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            inner_writer.close()

    def close(self) -> None:
        """Listen no more and end all connections."""

        async def end() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        with contextlib.suppress(concurrent.futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(timeout=5.0)
        self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
