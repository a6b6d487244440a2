"""A recording in the browser: the robot in 3D, what the controller said, and the curves.

    python -m policy_controller.view.replay RECORDING

Nothing is sent anywhere; no controller and no robot is needed.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import viser

from policy_controller.bag.reader import BagReader
from policy_controller.process import catch_signals
from policy_controller.view.dashboard import WINDOW, Dashboard
from policy_controller.view.frame import Frame, read_frame
from policy_controller.view.gate import GateError
from policy_controller.view.shapes import ShapeError, load_links
from policy_controller.view.stage import Stage
from policy_controller.view.website import Website

_STATE = "anymal_msgs/msg/AnymalState"
_STATUS = "footlight_msgs/msg/ControllerStatus"
_COMMANDS = "series_elastic_actuator_msgs/msg/SeActuatorCommands"
_PERIOD_NS = 50_000_000  # between two frames
_TICK = 0.05  # s
_PLOT_EVERY = 5  # ticks
_SPEEDS = ("0.1", "0.5", "1", "2")


def read_frames(reader: BagReader) -> list[tuple[float, Frame]]:
    """Time since the first state [s, of reception] and frame, at 20 Hz.

    Topics are known by their types, whatever their names. Raises ValueError if no state of a robot
    was recorded, or if a file is damaged.
    """
    newest: dict[str, object] = {}
    frames: list[tuple[float, Frame]] = []
    first_ns = next_ns = None
    for message in reader.read():
        if message.kind in (_STATUS, _COMMANDS):
            newest[message.kind] = message.decode()
        elif message.kind == _STATE and (next_ns is None or message.log_ns >= next_ns):
            first_ns = message.log_ns if first_ns is None else first_ns
            next_ns = message.log_ns + _PERIOD_NS
            frame = read_frame(message.decode(), newest.get(_STATUS), newest.get(_COMMANDS))
            frames.append(((message.log_ns - first_ns) * 1e-9, frame))
    if not frames:
        raise ValueError(f"found no {_STATE} in the recording, allowed: one with the robot's state")
    return frames


class Player:
    """Time slider, play and pause, speed. The plots show the WINDOW before the shown moment."""

    def __init__(self, server: viser.ViserServer, stage: Stage, frames: list[tuple[float, Frame]]):
        """frames: from read_frames."""
        self._stage, self._frames = stage, frames
        self._times = [moment for moment, _ in frames]
        gui, end = server.gui, max(self._times[-1], _TICK)
        self._slider = gui.add_slider("time [s]", 0.0, round(end, 2), 0.01, 0.0, order=0)
        self._playing = gui.add_checkbox("play", True, order=1)
        self._speed = gui.add_dropdown("speed", _SPEEDS, initial_value="1", order=2)
        self._dashboard = Dashboard(server)
        self._shown = -1

    def step(self, elapsed: float) -> bool:
        """Go on by this wall time [s] if it plays; returns whether another frame is shown now."""
        if self._playing.value:
            moment = self._slider.value + elapsed * float(self._speed.value)
            self._slider.value = min(moment, self._slider.max)
            self._playing.value = moment < self._slider.max
        index = bisect_right(self._times, self._slider.value + 1e-6) - 1
        if index == self._shown:
            return False
        begin = index
        if index != self._shown + 1:  # jumped: the curves are those before this moment
            begin = bisect_right(self._times, self._times[index] - WINDOW)
            self._dashboard.clear()
        for _, frame in self._frames[begin : index + 1]:
            self._dashboard.show(frame)
        self._stage.draw(self._frames[index][1])
        self._shown = index
        return True

    def plot(self) -> None:
        """Draw the curves."""
        self._dashboard.plot()


def play(player: Player, stop: threading.Event) -> None:
    """Until `stop`."""
    before, ticks = time.monotonic(), 0
    while not stop.wait(_TICK):
        now = time.monotonic()
        player.step(now - before)
        before, ticks = now, ticks + 1
        if ticks % _PLOT_EVERY == 0:
            player.plot()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 after Ctrl-C, 1 if the recording cannot be shown, 2 for a wrong option."""
    parser = argparse.ArgumentParser(
        prog="python -m policy_controller.view.replay",
        description=__doc__.splitlines()[0],
        epilog=main.__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("recording", type=Path, help="MCAP file, or a folder of one recording")
    parser.add_argument(
        "--robot",
        type=Path,
        default=Path("config/robot/anymal_d.yaml"),
        metavar="FILE",
        help="robot file (YAML) whose URDF is drawn",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; any but this machine's own asks for a token",
    )
    parser.add_argument("--port", type=int, default=8080, help="0: any free one")
    options = parser.parse_args(arguments)
    stop = catch_signals()
    try:
        links = load_links(options.robot)
        frames = read_frames(BagReader(options.recording))
        website = Website(options.host, options.port, "", f"Footlight: {options.recording.name}")
    except (OSError, ValueError, GateError, ShapeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    player = Player(website.server, Stage(website.server, links), frames)
    print(f"view: {website.address}", flush=True)
    play(player, stop)
    website.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
