"""The teleoperation over real DDS, each part a process: joystick -> teleop node -> this test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

rclpy = pytest.importorskip("rclpy")
pytest.importorskip("footlight_msgs")

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from footlight_msgs.msg import ControllerStatus  # noqa: E402
from footlight_msgs.srv import SetMotionState  # noqa: E402
from geometry_msgs.msg import TwistStamped  # noqa: E402
from lockstep_robot import own_context  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from sensor_msgs.msg import Joy  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

pytestmark = pytest.mark.ros

HERE = Path(__file__).parent
LAYOUT = HERE.parents[4] / "config" / "teleop" / "game_controller.yaml"
PATIENCE = 60.0  # s, for discovery on a busy machine
DEAD_MAN, STAND_UP, WALK, CLEAR_FAULT, STOP = 9, 0, 3, 6, 1
FORWARD = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
CENTRED = (0.0,) * 6


class Operator:
    """The controller's side of the topics and services, and the processes on the other side."""

    def __init__(self, context, node):
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(node)
        self.node = node
        self.twists: list[TwistStamped] = []
        self.joys: list[Joy] = []
        self.diagnostics: list[DiagnosticArray] = []
        self.calls: list[str] = []
        node.create_subscription(TwistStamped, "/policy_controller/cmd_vel", self.twists.append, 10)
        node.create_subscription(Joy, "joy", self.joys.append, 10)
        node.create_subscription(DiagnosticArray, "/diagnostics", self.diagnostics.append, 10)
        self.processes: list[subprocess.Popen] = []

    def serve(self) -> None:
        def answer_state(request, response):
            self.calls.append(f"state {request.motion_state}")
            response.success, response.message = True, "noted"
            return response

        self.node.create_service(
            SetMotionState, "/policy_controller/set_motion_state", answer_state
        )
        for name in ("clear_fault", "emergency_stop"):

            def answer(request, response, name=name):
                self.calls.append(name)
                return response

            self.node.create_service(Trigger, f"/policy_controller/{name}", answer)

    def start(self, *arguments: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"ROS_DOMAIN_ID": str(self.node.context.get_domain_id())},
        )
        self.processes.append(process)
        return process

    def start_joystick(self) -> None:
        self.joystick = self.start(str(HERE / "joy_publisher.py"))

    def start_teleop(self) -> subprocess.Popen:
        module = "policy_controller.teleop.node"
        return self.start("-m", module, "--ros-args", "--params-file", str(LAYOUT))

    def hold(self, axes, *held: int) -> None:
        """Let go of all else; returns when the joystick has said so three times."""
        buttons = [int(i in held) for i in range(21)]
        print(json.dumps({"axes": axes, "buttons": buttons}), file=self.joystick.stdin, flush=True)

        def said() -> bool:
            last = self.joys[-3:]
            return len(last) == 3 and all(
                list(joy.buttons) == buttons and joy.axes[1] == axes[1] for joy in last
            )

        self.joys.clear()
        self.wait(said, "the joystick")

    def wait(self, condition, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
            self._executor.spin_once(timeout_sec=0.05)

    def wait_for_phase(self, phase: str) -> None:
        def reached() -> bool:
            if not self.diagnostics:
                return False
            values = {v.key: v.value for v in self.diagnostics[-1].status[0].values}
            return values["phase"] == phase

        self.wait(reached, f"phase {phase}")

    def speeds(self) -> list[float]:
        return [message.twist.linear.x for message in self.twists]

    def drive(self) -> None:
        self.hold(CENTRED)
        self.wait_for_phase("ready")
        self.hold(FORWARD, DEAD_MAN)
        self.wait(lambda: 0.5 in self.speeds(), "motion")

    def wait_for_zeros_and_silence(self) -> None:
        self.wait(lambda: self.speeds()[-3:] == [0.0] * 3, "zeros")
        self.wait_for_phase("locked")
        count = len(self.diagnostics)
        self.wait(lambda: len(self.diagnostics) > count, "the burst's end")
        sent = len(self.twists)
        self.wait(lambda: len(self.diagnostics) > count + 2, "two seconds")
        assert len(self.twists) == sent and self.speeds()[-3:] == [0.0] * 3

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        self._executor.shutdown()
        self.node.destroy_node()


@pytest.fixture
def operator():
    """An Operator in a domain that no other test uses."""
    with own_context() as context:
        operator = Operator(context, rclpy.create_node("operator", context=context))
        yield operator
        operator.close()


def test_killed_joystick_stops_the_robot_and_must_be_armed_again(operator):
    operator.start_joystick()
    teleop = operator.start_teleop()
    operator.drive()
    message = operator.twists[-1]
    assert message.header.frame_id == "base" and message.header.stamp.sec > 0
    assert operator.speeds()[0] == 0.0
    operator.joystick.kill()
    operator.joystick.wait()
    operator.wait_for_zeros_and_silence()
    sent = len(operator.twists)
    operator.start_joystick()
    operator.hold(FORWARD, DEAD_MAN)  # comes back as it was
    before = len(operator.diagnostics)
    operator.wait(lambda: len(operator.diagnostics) > before + 3, "diagnostics")
    operator.wait_for_phase("locked")
    assert len(operator.twists) == sent
    operator.drive()
    teleop.send_signal(signal.SIGINT)
    teleop.wait(PATIENCE)
    assert teleop.returncode == 0, teleop.stderr.read()
    operator.wait(lambda: operator.speeds()[-3:] == [0.0] * 3, "zeros at the end")


def test_buttons_call_the_services_once(operator):
    operator.start_joystick()
    teleop = operator.start_teleop()
    operator.hold(CENTRED)
    operator.wait_for_phase("ready")
    operator.hold(CENTRED, WALK)  # nobody serves: it is not done later
    operator.hold(CENTRED, STOP)  # this is repeated until somebody answers
    operator.hold(CENTRED)
    operator.serve()
    operator.wait(lambda: operator.calls, "the emergency stop")
    expected = [("clear_fault", CLEAR_FAULT), (f"state {ControllerStatus.STAND_UP}", STAND_UP)]
    for call, button in expected:
        operator.hold(CENTRED, button)
        operator.wait(lambda call=call: call in operator.calls, call)
        operator.hold(CENTRED)
    calls = [call for call in operator.calls if call != "emergency_stop"]
    assert calls == [call for call, _ in expected]
    teleop.send_signal(signal.SIGINT)
    teleop.wait(PATIENCE)
    log = teleop.stderr.read()  # refusals and grants, one after the other
    assert teleop.returncode == 0 and "Traceback" not in log, log


def test_layout_that_is_refused_ends_the_process(operator):
    process = operator.start("-m", "policy_controller.teleop.node")
    process.wait(PATIENCE)
    assert process.returncode == 1
    assert "axis_linear.x: found ''" in process.stderr.read()
