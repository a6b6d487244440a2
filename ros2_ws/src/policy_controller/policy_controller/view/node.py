"""ROS 2 node of the browser view: shows robot and controller, and drives as a joystick does.

    python -m policy_controller.view.node --ros-args --params-file config/view.yaml \
        -p robot:=config/robot/anymal_d.yaml

One thread executes all ROS callbacks; the browsers' events reach it through the stick's queue.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import rclpy
from anymal_msgs.msg import AnymalState
from footlight_msgs.msg import ControllerStatus
from rclpy.clock import Clock, ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions
from series_elastic_actuator_msgs.msg import SeActuatorCommands

from policy_controller.declaration import declare_groups, read_values
from policy_controller.fields import RefusedError, build_groups, spec
from policy_controller.process import catch_signals
from policy_controller.teleop.core import Phase, Teleop
from policy_controller.teleop.link import ControllerLink
from policy_controller.view.dashboard import Dashboard
from policy_controller.view.drive import DrivePanel
from policy_controller.view.frame import read_frame
from policy_controller.view.gate import GateError
from policy_controller.view.shapes import ShapeError, load_links
from policy_controller.view.stage import Stage
from policy_controller.view.stick import BrowserStick, make_layout
from policy_controller.view.website import Website

_NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
_EXAMPLE = "config/view.yaml"
_STICK_PERIOD = 0.02  # s
_FRAME_PERIOD = 0.05
_PLOT_PERIOD = 0.25
_SILENCE = 0.5  # s without a state, after which the page says so


@dataclass(frozen=True)
class ViewSettings:
    """Where to serve, what to show, how fast the sliders drive."""

    robot: str = spec("text", "robot file (YAML) whose URDF is drawn")
    host: str = spec("text", "address to listen on; 127.0.0.1 = this machine only", "127.0.0.1")
    port: int = spec("integer", "port to listen on; 0 = any free one", 8080, low=0, high=65535)
    token: str = spec(
        "text", "asked of browsers; auto = drawn at the start where others reach `host`", "auto"
    )
    state_topic: str = spec("text", "anymal_msgs/AnymalState", "state_estimator/anymal_state")
    command_topic: str = spec(
        "text",
        "series_elastic_actuator_msgs/SeActuatorCommands",
        "motion_control_manager/actuator_commands",
    )
    controller: str = spec("text", "name of the controller's node", "policy_controller")
    max_forward: float = spec("number", "end of the slider", 0.5, unit="m/s", low=0.05, high=3.0)
    max_left: float = spec("number", "end of the slider", 0.3, unit="m/s", low=0.05, high=3.0)
    max_turn: float = spec("number", "end of the slider", 0.6, unit="rad/s", low=0.05, high=3.0)
    silence_timeout: float = spec(
        "number",
        "without a word of the browser while it holds the dead-man, then the robot stops",
        0.25,
        unit="s",
        low=0.1,
        high=1.0,
    )
    no_change_warning: float = spec(
        "number", "driving with still sliders until a warning", 20.0, unit="s", low=0.5, high=60.0
    )
    no_change_timeout: float = spec(
        "number", "driving with still sliders until a stop", 30.0, unit="s", low=1.0, high=60.0
    )


class ViewNode(Node):
    """Serves the page until `close`."""

    def __init__(self, **options: Any):
        """options: of rclpy's Node. Raises RefusedError, ShapeError or GateError."""
        super().__init__("view", automatically_declare_parameters_from_overrides=True, **options)
        groups = (("", ViewSettings),)
        declare_groups(self, groups)
        cure = "correct the parameter"
        (settings,) = build_groups(read_values(self), groups, cure, _EXAMPLE)
        links = load_links(settings.robot)
        speeds = (settings.max_forward, settings.max_left, settings.max_turn)
        layout = make_layout(
            speeds,
            settings.silence_timeout,
            settings.no_change_warning,
            settings.no_change_timeout,
            settings.controller,
        )
        token = "" if settings.token == "auto" else settings.token
        self._website = Website(settings.host, settings.port, token, "Footlight")
        server = self._website.server
        self._stage = Stage(server, links)
        self._stick, self._teleop = BrowserStick(), Teleop(layout)
        self._dashboard = Dashboard(server)
        self._drive = DrivePanel(server, self._stick, speeds)
        self._link = ControllerLink(self, layout.settings, self._report)
        self._state, self._status, self._commands = b"", None, None
        self._heard: float | None = None
        self._phase = Phase.LOCKED
        self._subscribe(settings)

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return self._website.address

    def _subscribe(self, settings: ViewSettings) -> None:
        def keep(name: str) -> Any:
            return lambda message: setattr(self, name, message)

        listen = self.create_subscription
        # At 400 Hz only the newest is worth reading, and that only when it is drawn.
        listen(AnymalState, settings.state_topic, self._on_state, _NEWEST, raw=True)
        status = f"{settings.controller}/status"
        listen(ControllerStatus, status, keep("_status"), _NEWEST)
        listen(SeActuatorCommands, settings.command_topic, keep("_commands"), _NEWEST)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_STICK_PERIOD, self._on_stick, clock=steady)
        self.create_timer(_FRAME_PERIOD, self._on_frame, clock=steady)
        self.create_timer(_PLOT_PERIOD, self._dashboard.plot, clock=steady)

    def _on_state(self, content: bytes) -> None:
        self._state, self._heard = content, time.monotonic()

    def _on_stick(self) -> None:
        now = time.monotonic()
        for sample in self._stick.take_samples(now):
            output = self._teleop.take(sample.time, sample.axes, sample.buttons)
            self._link.send(output.velocity)
            for name in output.requests:
                self._link.request(name)
        self._link.send(self._teleop.tick(now))
        self._link.poll(now)
        phase = self._teleop.phase
        if phase == Phase.LOCKED and self._phase == Phase.DRIVING:
            self.get_logger().warning(self._teleop.reason)
            self._drive.centre()
        self._phase = phase

    def _on_frame(self) -> None:
        now = time.monotonic()
        self._drive.say("dead-man", self._teleop.describe(now)[1])
        if self._heard is None:
            return
        if now - self._heard > _SILENCE:
            self._dashboard.show_silence(now - self._heard)
        elif self._state:
            state, self._state = deserialize_message(self._state, AnymalState), b""
            frame = read_frame(state, self._status, self._commands)
            self._stage.draw(frame)
            self._dashboard.show(frame)

    def _report(self, name: str, granted: bool, text: str) -> None:
        if granted:  # two calls: rclpy refuses one place that logs at two levels
            self.get_logger().info(f"{name}: {text}")
        else:
            self.get_logger().error(f"{name}: {text}")
        self._drive.say(name, text if granted else f"refused: {text}")

    def close(self) -> None:
        """Stop the robot if it was driven from here, and end the page; when no callback runs any
        more."""
        for velocity in self._teleop.stop("the view ends"):
            self._link.send(velocity)
        self._website.close()


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM. Exit status 1, with words, if it cannot start."""
    stop = catch_signals()
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = ViewNode()
        print(f"view: {node.address}", flush=True)
        _spin(node, stop)
        node.close()
        node.destroy_node()
    except (RefusedError, ShapeError, GateError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        rclpy.shutdown()
    return 0


def _spin(node: Node, stop: threading.Event) -> None:
    """Execute callbacks until `stop`. Not with the other nodes' EventsExecutor: in rclpy 9.1.2
    a callback of an answer that raised was followed by a segmentation fault."""
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    while not stop.is_set():
        try:
            executor.spin_once(timeout_sec=0.1)
        except Exception:  # the next press may be the emergency stop: it must be heard
            node.get_logger().error(f"a callback raised, it goes on\n{traceback.format_exc()}")
    executor.shutdown()


if __name__ == "__main__":
    sys.exit(main())
