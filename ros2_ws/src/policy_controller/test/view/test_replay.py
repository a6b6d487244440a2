"""A recording in the browser, without one: what is read of it, how it plays, what is served."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("viser")
pytest.importorskip("anymal_msgs")

from anymal_msgs.msg import AnymalState  # noqa: E402
from footlight_msgs.msg import ControllerStatus  # noqa: E402
from rclpy.serialization import serialize_message  # noqa: E402

from policy_controller.bag.reader import BagReader  # noqa: E402
from policy_controller.bag.writer import BagWriter  # noqa: E402
from policy_controller.view.replay import Player, main, read_frames  # noqa: E402
from policy_controller.view.shapes import load_links  # noqa: E402
from policy_controller.view.stage import Stage  # noqa: E402
from policy_controller.view.website import Website  # noqa: E402

pytestmark = pytest.mark.ros

ROBOT = Path(__file__).parents[5] / "config/robot/anymal_d.yaml"
STEP_NS = 2_500_000
STEPS = 800  # 2 s at 400 Hz


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A robot that goes forward at 0.5 m/s, and a controller that says WALK from 1 s on."""
    folder = tmp_path_factory.mktemp("recording")
    writer = BagWriter(folder, "run", split_size=10**9, max_files=1, min_free=0)
    writer.add_topic("/robot/state", "anymal_msgs/msg/AnymalState")
    writer.add_topic("/controller/status", "footlight_msgs/msg/ControllerStatus")
    state, status = AnymalState(), ControllerStatus()
    state.pose.pose.orientation.w = 1.0
    state.joints.name, state.joints.position = ["LF_HAA"], [0.3]
    for step in range(STEPS):
        now = 10**18 + step * STEP_NS
        if step == STEPS // 2:
            status.motion_state = ControllerStatus.WALK
            writer.write("/controller/status", serialize_message(status), now, now)
        state.header.stamp.sec, state.header.stamp.nanosec = divmod(step * STEP_NS, 10**9)
        state.pose.pose.position.x = 0.5 * step * STEP_NS * 1e-9
        writer.write("/robot/state", serialize_message(state), now, now)
    writer.close()
    return folder


def test_frames_are_those_of_the_recording_at_20_hz(recording):
    frames = read_frames(BagReader(recording))
    assert [moment for moment, _ in frames] == pytest.approx([0.05 * n for n in range(40)])
    for moment, frame in frames:
        assert frame.position[0] == pytest.approx(0.5 * moment)
        assert frame.joint_position == {"LF_HAA": 0.3}
        assert frame.motion == ("WALK" if moment > 0.999 else "")


def test_player_shows_the_moment_of_the_slider_and_stops_at_the_end(recording):
    website = Website("127.0.0.1", 0, "", "test")
    try:
        shown = []
        stage = Stage(website.server, load_links(ROBOT))
        draw = stage.draw
        stage.draw = lambda frame: (shown.append(frame.stamp), draw(frame))
        player = Player(website.server, stage, read_frames(BagReader(recording)))
        assert player.step(0.0) and shown == [0.0]
        assert not player.step(0.03)  # the next frame is not due
        assert player.step(0.53) and shown[-1] == pytest.approx(0.55)
        assert player.step(60.0) and shown[-1] == pytest.approx(1.95)
        player.plot()
        assert not player.step(60.0)  # it stopped at the end
    finally:
        website.close()


def test_process_serves_the_page_and_ends_with_status_0(recording):
    command = [sys.executable, "-m", "policy_controller.view.replay", str(recording)]
    process = subprocess.Popen(
        [*command, "--robot", str(ROBOT), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()  # the first: viser's own address is not for people
        assert line.startswith("view: http://127.0.0.1:"), line
        with urllib.request.urlopen(line.split()[1]) as answer:
            assert b"<!doctype html>" in answer.read().lower()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120.0)
        assert process.returncode == 0 and rest == ""
    finally:
        process.kill()


def test_what_cannot_be_shown_is_said(tmp_path, capsys):
    assert main([str(tmp_path / "nowhere"), "--robot", str(ROBOT)]) == 1
    assert "found no file" in capsys.readouterr().err
    writer = BagWriter(tmp_path, "run", split_size=10**9, max_files=1, min_free=0)
    writer.close()
    assert main([str(tmp_path), "--robot", str(ROBOT), "--port", "0"]) == 1
    assert "found no anymal_msgs/msg/AnymalState" in capsys.readouterr().err
