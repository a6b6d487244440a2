"""`ros2 launch policy_controller anymal_real.launch.py`, in a namespace, by the real `launch`,
against the simulated robot on either ROS. What its text says is in test_launch.py."""

from __future__ import annotations

import socket
import subprocess
import threading
from importlib.util import find_spec
from shutil import which

import pytest
from packages import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("anymal_msgs")
pytest.importorskip("warp")

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from footlight_msgs.msg import ControllerStatus  # noqa: E402

from anymal_bridge.ros1.link import check_ros1  # noqa: E402

pytestmark = [
    pytest.mark.ros,
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("launch_ros") is None, reason="launch_ros is not on PyPI; it comes with a ROS 2"
    ),
]

NAMESPACE = "alpha"
MASTER_PORT = 11311  # of the bridge's default; the launch file has no argument for it
COMMON = {
    "bundle": ROOT / "config" / "bundles" / "anymal_d",
    "robot": ROOT / "config" / "robot" / "anymal_d.yaml",
    "namespace": NAMESPACE,
    "certificate_override": "a test with the simulated robot",
}


@pytest.fixture
def roscore(tmp_path, monkeypatch):
    if reason := check_ros1() or ("" if which("rosmaster") else "no rosmaster"):
        pytest.skip(reason)
    with socket.socket() as port:
        if port.connect_ex(("localhost", MASTER_PORT)) == 0:
            pytest.skip(f"somebody listens on port {MASTER_PORT}")
    monkeypatch.setenv("ROS_HOSTNAME", "localhost")
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path))
    process = subprocess.Popen(["rosmaster", "--core", "-p", str(MASTER_PORT)])
    yield
    process.kill()
    process.wait()


def launch_until(observe, arguments: dict[str, object]) -> list[int]:
    """Run the launch file while `observe` runs in a thread; the exit codes of its processes."""
    from launch import LaunchDescription, LaunchService
    from launch.actions import IncludeLaunchDescription, RegisterEventHandler
    from launch.event_handlers import OnProcessExit
    from launch.launch_description_sources import PythonLaunchDescriptionSource

    source = PythonLaunchDescriptionSource(str(ROOT / "launch" / "anymal_real.launch.py"))
    given = [(name, str(value)) for name, value in (COMMON | arguments).items()]
    codes, failures = [], []
    exits = OnProcessExit(on_exit=lambda event, _: codes.append(event.returncode))
    service = LaunchService(noninteractive=True)
    service.include_launch_description(
        LaunchDescription(
            [
                RegisterEventHandler(exits),
                IncludeLaunchDescription(source, launch_arguments=given),
            ]
        )
    )

    def watch() -> None:
        try:
            observe()
        except BaseException as failure:  # told by the test's own thread
            failures.append(failure)
        finally:
            service.shutdown()

    watcher = threading.Thread(target=watch)
    watcher.start()
    service.run()
    watcher.join()
    if failures:
        raise failures[0]
    return codes


@pytest.mark.parametrize(
    ("transport", "arguments", "processes"),
    [
        ("ros2", {"record": "false"}, 2),
        ("ros1", {"record": "false"}, 2),
        ("ros2", {"record": "true", "joystick": "true", "dry_run": "false"}, 5),
    ],
    ids=["ros2", "ros1", "recorded, by joystick, not dry"],
)
def test_bridge_and_controller_come_up_in_the_namespace_and_end(
    transport, arguments, processes, start, observer, request, tmp_path, monkeypatch
):
    if transport == "ros1":
        request.getfixturevalue("roscore")
    monkeypatch.chdir(tmp_path)  # of the recording
    robot = {"robot": COMMON["robot"], "transport": transport}
    start("anymal_bridge.sim_node", robot, "-r", f"__ns:=/{NAMESPACE}/robot")
    values: dict[str, str] = {}

    def note(message) -> None:
        for status in message.status:
            if status.name == f"{NAMESPACE}/anymal_bridge: guard":
                values.update({item.key: item.value for item in status.values})

    observer.node.create_subscription(DiagnosticArray, "/diagnostics", note, 10)
    status = observer.watch(ControllerStatus, f"/{NAMESPACE}/policy_controller/status")

    def observe() -> None:
        observer.until(lambda: values.get("transport") == "", what="a robot that the bridge hears")
        observer.until(lambda: float(values["states_hz"]) > 0.0, what="states of the robot")
        observer.until(lambda: status() and status().state_age < 1.0, what="the controller")

    codes = launch_until(observe, {"transport": transport} | arguments)
    assert codes == [0] * processes
    assert values["dry_run"] == str(arguments.get("dry_run") != "false")
    assert values["guard"] == "disarmed" and float(values["sent_hz"]) == 0.0
    recorded = list(tmp_path.glob("recordings/*/*.mcap"))
    assert bool(recorded) == (arguments["record"] == "true")
