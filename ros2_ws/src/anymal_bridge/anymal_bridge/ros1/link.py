"""Starts the ROS 1 side process, passes packets, and starts it again when it ends."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ament_index_python.packages import get_package_share_directory

from .layout import MAX_PACKET, Health, Packet, read_packet

PYTHON = "/usr/bin/python3"  # that of the ROS 1 packages of Debian and Ubuntu
MASTER_URI = "http://localhost:11311"
DEFINED_HERE = ("any_msgs", "anymal_msgs", "series_elastic_actuator_msgs")
PACKAGES = (
    "python3-rospy python3-netifaces python3-std-msgs python3-geometry-msgs python3-sensor-msgs"
)
RESTART_S = 0.5
END_S = 5.0
_PROGRAM = Path(__file__).with_name("side.py")
_IMPORTS = (
    "import genpy.dynamic, netifaces, rospy, std_msgs.msg, geometry_msgs.msg, sensor_msgs.msg"
)


@dataclass(frozen=True)
class SideOptions:
    """What the side process is told at its start."""

    role: str  # bridge or robot
    name: str  # of the ROS 1 node
    state: str  # topic names in ROS 1
    readings: str
    commands: str
    joint_names: Sequence[str]
    foot_names: Sequence[str]
    master_uri: str
    damping: float  # N m s/rad, of the damping that it sends when this process falls silent
    silence: float  # s, after a command
    camel_case: bool = False  # publish the state with the old spelling of Contact; both are read

    def arguments(self) -> list[str]:
        """For the command line of ``side``."""
        arguments = ["--role", self.role, "--name", self.name, "--state", self.state]
        arguments += ["--readings", self.readings, "--commands", self.commands]
        arguments += ["--joints", *self.joint_names, "--feet", *self.foot_names]
        arguments += ["--damping", str(self.damping), "--silence", str(self.silence)]
        for package in DEFINED_HERE:
            arguments += ["--definitions", package, f"{get_package_share_directory(package)}/msg"]
        return arguments + ["--camel-case"] * self.camel_case


def check_ros1(python: str = PYTHON) -> str | None:
    """Why the ROS 1 side cannot run with ``python``; None when it can."""
    try:
        check = subprocess.run([python, "-E", "-s", "-c", _IMPORTS], capture_output=True, text=True)
    except OSError as error:
        return f"{python} cannot be run: {error}"
    if check.returncode == 0:
        return None
    reason = (check.stderr.strip().splitlines() or ["no reason given"])[-1]
    return f"{python} has no ROS 1 ({reason}); Debian and Ubuntu 22.04: apt install {PACKAGES}"


class Ros1Link:
    """The running side process. ``receive`` is called in a thread of this class.

    Attributes:
        health: Health that it last told; without a side process one that says so.
        pid: of the side process that runs now, None between two.
        starts: how often it was started.
    """

    def __init__(self, options: SideOptions, receive: Callable[[Packet], None]) -> None:
        """
        Raises:
            RuntimeError: there is no ROS 1 here.
        """
        if reason := check_ros1():
            raise RuntimeError(reason)
        self._options, self._receive = options, receive
        self._connection: socket.socket | None = None
        self._stop = threading.Event()
        self.health = Health(False, 0, "the ROS 1 process is starting")
        self.pid: int | None = None
        self.starts = 0
        self._thread = threading.Thread(target=self._run, name="ros1_link")
        self._thread.start()

    def send(self, packet: Packet) -> None:
        """Give one packet to the side process; without one, or if it does not read, it is lost."""
        connection = self._connection
        if connection is None:
            return
        try:
            connection.send(packet.pack(), socket.MSG_DONTWAIT)
        except OSError:
            pass  # full or closed: the other thread notices the second

    def close(self) -> None:
        """End the side process; nothing is received after this returns."""
        self._stop.set()
        if connection := self._connection:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was closed meanwhile
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours:
                with theirs:
                    process = self._start(theirs)
                self._connection, self.pid = ours, process.pid
                self.starts += 1
                self._pass_on(ours)
                self._connection = self.pid = None
            try:
                status = process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            self.health = Health(False, 0, f"the ROS 1 process ended with status {status}")
            self._stop.wait(RESTART_S)

    def _pass_on(self, connection: socket.socket) -> None:
        """Until the side process is gone, or ``close`` is called."""
        while not self._stop.is_set():
            try:
                packet = connection.recv(MAX_PACKET)
            except OSError:
                return
            if not packet:
                return
            if isinstance(content := read_packet(packet), Health):
                self.health = content
            else:
                self._receive(content)

    def _start(self, connection: socket.socket) -> subprocess.Popen:
        # -E, -s: none of this process's packages, which hold ROS 2's std_msgs.
        command = [PYTHON, "-E", "-s", str(_PROGRAM), "--socket", str(connection.fileno())]
        return subprocess.Popen(
            command + self._options.arguments(),
            pass_fds=[connection.fileno()],
            env=os.environ | {"ROS_MASTER_URI": self._options.master_uri},
            start_new_session=True,  # Ctrl-C is for the parent, which then says goodbye
        )
