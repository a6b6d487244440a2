"""Who may come in: the rules, and over real sockets."""

import asyncio
import http.client
import threading
from http import HTTPStatus

import pytest

pytest.importorskip("viser")

from policy_controller.view.gate import (  # noqa: E402
    Gate,
    GateError,
    cookie_name,
    draw_loopback,
    is_loopback,
    judge,
    make_token,
)

HOST = "127.0.0.1:8080"
COOKIE = cookie_name(HOST)


def head(target="/", **headers: str) -> str:
    lines = [f"GET {target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    return "\r\n".join(lines)


@pytest.mark.parametrize(
    ("request_head", "token", "local", "status"),
    [
        (head(Host=HOST), "", True, HTTPStatus.OK),
        (head(Host="localhost:8080"), "", True, HTTPStatus.OK),
        (head(Host="[::1]:8080"), "", True, HTTPStatus.OK),
        (head(Host="evil.example:8080"), "", True, HTTPStatus.FORBIDDEN),  # DNS rebinding
        (head(), "", True, HTTPStatus.FORBIDDEN),
        (head(Host=HOST, Origin="http://evil.example"), "", True, HTTPStatus.FORBIDDEN),
        (head(Host=HOST, Origin="null"), "", True, HTTPStatus.FORBIDDEN),
        (head(Host=HOST, Origin=f"http://{HOST}"), "", True, HTTPStatus.OK),
        (head(Host="robot:8080"), "secret", False, HTTPStatus.FORBIDDEN),
        (head("/?token=wrong", Host=HOST), "secret", False, HTTPStatus.FORBIDDEN),
        (head("/?token=secret", Host=HOST), "secret", False, HTTPStatus.FOUND),
        (head(Host=HOST, Cookie=f"{COOKIE}=wrong"), "secret", False, HTTPStatus.FORBIDDEN),
        (head(Host=HOST, Cookie=f"a=b; {COOKIE}=secret"), "secret", False, HTTPStatus.OK),
        (
            head(Host=HOST, Cookie=f"{COOKIE}=secret", Origin="http://evil.example"),
            "secret",
            False,
            HTTPStatus.FORBIDDEN,
        ),
        ("rubbish", "", True, HTTPStatus.BAD_REQUEST),
    ],
)
def test_judgement(request_head, token, local, status):
    assert judge(request_head, token, local)[0] == status


def test_addresses():
    assert is_loopback("127.0.0.1") and is_loopback("localhost") and is_loopback("::1")
    assert not is_loopback("0.0.0.0") and not is_loopback("robot.local")
    assert is_loopback(draw_loopback()) and draw_loopback() != draw_loopback()
    assert len(make_token()) >= 24 and make_token() != make_token()


@pytest.fixture
def inner():
    """A server that answers every request, as viser does for a page; its address."""
    loop, ready, address = asyncio.new_event_loop(), threading.Event(), []

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npage!")
        await writer.drain()
        writer.close()

    async def listen():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        address.append(server.sockets[0].getsockname())
        ready.set()

    thread = threading.Thread(
        target=lambda: (loop.run_until_complete(listen()), loop.run_forever())
    )
    thread.start()
    ready.wait()
    yield address[0]
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def ask(port: int, target: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", target, headers=headers)
    return connection.getresponse()


def test_token_opens_the_page_by_a_cookie(inner):
    gate = Gate("127.0.0.1", 0, "secret", inner)
    assert ask(gate.port, "/").status == HTTPStatus.FORBIDDEN
    shown = ask(gate.port, "/?token=secret")
    assert shown.status == HTTPStatus.FOUND and shown.headers["Location"] == "/"
    cookie = shown.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    page = ask(gate.port, "/", Cookie=cookie.split(";")[0])
    assert page.status == HTTPStatus.OK and page.read() == b"page!"
    with pytest.raises(GateError, match="give another host or port"):
        Gate("127.0.0.1", gate.port, "", inner)
    gate.close()
    with pytest.raises(OSError):
        ask(gate.port, "/")
