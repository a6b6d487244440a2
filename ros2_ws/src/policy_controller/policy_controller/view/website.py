"""Viser behind its gate."""

from __future__ import annotations

import contextlib
import io

import viser

from policy_controller.view.gate import Gate, draw_loopback, is_loopback, make_token


class Website:
    """A viser server that is reached through the gate only."""

    def __init__(self, host: str, port: int, token: str, title: str):
        """token: empty asks for none on this machine, and draws one where others reach `host`.

        Raises GateError if host and port cannot be listened on.
        """
        self._token = token or ("" if is_loopback(host) else make_token())
        inner = draw_loopback()
        with _hush():
            self.server = viser.ViserServer(host=inner, port=0, label=title, verbose=False)
        self.server.gui.configure_theme(
            control_layout="fixed",
            control_width="large",
            show_logo=False,
            show_share_button=False,
            brand_color=(60, 80, 110),  # red is for the emergency stop alone
        )
        try:
            self._gate = Gate(host, port, self._token, (inner, self.server.get_port()))
        except BaseException:
            with _hush():
                self.server.stop()
            raise
        self._host = host

    @property
    def address(self) -> str:
        """What to open in a browser, the token included."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        query = f"?token={self._token}" if self._token else ""
        return f"http://{host}:{self._gate.port}/{query}"

    def close(self) -> None:
        """End all connections."""
        self._gate.close()
        with _hush():
            self.server.stop()


def _hush() -> contextlib.AbstractContextManager:
    """Viser prints the address behind the gate, which is not the one to open."""
    return contextlib.redirect_stdout(io.StringIO())
