"""The ROS 1 process: packets on a socket from its parent, messages to and from ROS 1.

Started by ``link`` with the system's Python, never by hand. In role ``bridge`` it listens to a
robot and sends it commands; in role ``robot`` it is one. When the parent falls silent after a
command, this process itself sends damping, until the parent speaks again; when the parent is gone,
for ``LAST_WORDS_S``, then it ends. The robot's own time-out is the last line behind it.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import sys
import threading
import time
from pathlib import Path

import layout
import messages
import rospy
from convert import CommandsConverter, MessageError, ReadingsConverter, StateConverter
from graph import Graph, GraphState, Topic, master_answers, master_uri

LAST_WORDS_S = 0.3
DAMPING_PERIOD_S = 0.01
MODE_PID_GAINS = 13
POLL_S = 0.2


class Side:
    """Connection to the parent. Callbacks of rospy run in threads of its own."""

    def __init__(self, options: argparse.Namespace, connection: socket.socket) -> None:
        self._options, self._connection = options, connection
        self._problem, self._lock = "", threading.Lock()
        self._commanded: layout.Command | None = None  # last one, while the parent holds the robot
        self._heard = time.monotonic()
        definitions = {p: Path(folder) for p, folder in options.definitions}
        make = messages.Definitions(definitions).make
        make_old = messages.Definitions(definitions, camel_case=True).make
        self._state_types = [make(messages.STATE), make_old(messages.STATE)]
        self._readings_type, self._commands_type = make(messages.READINGS), make(messages.COMMANDS)
        self._states = StateConverter(options.joints, options.feet)
        self._readings = ReadingsConverter(options.joints)
        self._commands = CommandsConverter(options.joints)

    def connect(self) -> None:
        """Join the ROS 1 graph; there must be a roscore."""
        options = self._options
        rospy.init_node(options.name, argv=[], disable_signals=True, disable_rosout=True)
        state_type = self._state_types[options.camel_case]
        state = Topic(options.state, state_type._type)
        readings = Topic(options.readings, self._readings_type._type)
        commands = Topic(options.commands, self._commands_type._type)
        if options.role == "bridge":
            published, subscribed = [commands], [state, readings]
            self._command_publisher = self._publish(commands, self._commands_type)
            self._command_message = self._commands_type(
                commands=[_part(self._commands_type, "commands") for _ in options.joints]
            )
            self._subscribe(state, self._state_types, self._states)
            self._subscribe(readings, [self._readings_type], self._readings)
        else:
            published, subscribed = [state, readings], [commands]
            self._state_publisher = self._publish(state, state_type)
            self._readings_publisher = self._publish(readings, self._readings_type)
            self._state_message = state_type(
                contacts=[_part(state_type, "contacts") for _ in options.feet]
            )
            self._readings_message = self._readings_type(
                readings=[_part(self._readings_type, "readings") for _ in options.joints]
            )
            self._subscribe(commands, [self._commands_type], self._commands)
        any_type = [Topic(topic.name, "*") for topic in subscribed]
        self._graph = Graph(
            rospy.get_name(), rospy.get_node_uri(), published, any_type, options.commands,
            self._on_graph,
        )  # fmt: skip

    def run(self) -> None:
        """Pass packets on until the parent is gone."""
        while True:
            commanding = self._commanded is not None
            timeout = DAMPING_PERIOD_S if commanding else POLL_S
            if select.select([self._connection], [], [], timeout)[0]:
                packet = self._connection.recv(layout.MAX_PACKET)
                if not packet:
                    break
                self._on_packet(layout.read_packet(packet))
            elif commanding and time.monotonic() - self._heard > self._options.silence:
                self._damp()
        end = time.monotonic() + LAST_WORDS_S
        while self._commanded is not None and time.monotonic() < end:
            self._damp()
            time.sleep(DAMPING_PERIOD_S)

    def close(self) -> None:
        self._graph.stop()
        rospy.signal_shutdown("the parent process has ended")

    def _on_packet(self, packet: layout.Packet) -> None:
        self._heard = time.monotonic()
        if isinstance(packet, layout.State):
            self._states.write(self._state_message, packet)
            self._state_publisher.publish(self._state_message)
        elif isinstance(packet, layout.Readings):
            if self._readings_publisher.get_num_connections():
                self._readings.write(self._readings_message, packet)
                self._readings_publisher.publish(self._readings_message)
        elif isinstance(packet, layout.Command):
            self._commanded = packet
            self._send(packet)
        elif isinstance(packet, layout.Release):
            self._commanded = None

    def _damp(self) -> None:
        zero = [0.0] * layout.NUM_JOINTS
        damping = [self._options.damping] * layout.NUM_JOINTS
        values = zero + zero + zero + zero + damping
        self._send(layout.Command(self._commanded.stamp_ns, MODE_PID_GAINS, values))

    def _send(self, command: layout.Command) -> None:
        self._commands.write(self._command_message, command)
        self._command_publisher.publish(self._command_message)

    def _publish(self, topic: Topic, kind: type) -> rospy.Publisher:
        return rospy.Publisher(topic.name, kind, queue_size=1, tcp_nodelay=True)

    def _subscribe(self, topic: Topic, kinds: list[type], converter) -> None:
        """Take every version of the type in ``kinds``; the check sum tells which one comes."""
        by_sum = {kind._md5sum: kind for kind in kinds}

        def receive(message: rospy.AnyMsg) -> None:
            found = message._connection_header["md5sum"]
            if found not in by_sum:
                self._report(
                    f"{topic.name} has check sum {found}, known: {', '.join(by_sum)}; the robot's "
                    f"{topic.type} has other fields than this project's"
                )
                return
            try:
                packet = converter.read(by_sum[found]().deserialize(message._buff))
            except MessageError as error:
                self._report(str(error))
                return
            self._tell(packet)

        rospy.Subscriber(topic.name, rospy.AnyMsg, receive, queue_size=1, tcp_nodelay=True)

    def _report(self, problem: str) -> None:
        with self._lock:
            self._problem = problem

    def _on_graph(self, state: GraphState) -> None:
        with self._lock:
            problem, self._problem = self._problem, ""
        if not state.has_master:
            problem = f"no roscore at {master_uri()}"
        self._tell(layout.Health(state.has_master, state.drivers, problem))

    def _tell(self, packet: layout.Packet) -> None:
        """To the parent; a parent that does not keep up loses packets instead of delaying them."""
        try:
            self._connection.send(packet.pack(), socket.MSG_DONTWAIT)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass  # the main loop notices a parent that is gone


def _part(kind: type, field: str):
    """An empty element of the array ``field`` of a message class."""
    index = kind.__slots__.index(field)
    element = kind._slot_types[index].removesuffix("[]")
    module = sys.modules[kind.__module__]
    return getattr(module, "_" + element.replace("/", "__"))()


def wait_for_master(name: str, connection: socket.socket) -> bool:
    """Until a roscore is there, telling the parent that it is not; False: the parent is gone."""
    while not master_answers(name):
        text = f"no roscore at {master_uri()}"
        connection.send(layout.Health(False, 0, text).pack())
        readable = select.select([connection], [], [], POLL_S)[0]
        if readable and not connection.recv(layout.MAX_PACKET):
            return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--role", choices=["bridge", "robot"], required=True)
    parser.add_argument("--socket", type=int, required=True, help="inherited file descriptor")
    parser.add_argument("--name", required=True, help="of the ROS 1 node")
    for topic in ("state", "readings", "commands"):
        parser.add_argument(f"--{topic}", required=True, help="topic name")
    parser.add_argument("--joints", nargs=layout.NUM_JOINTS, required=True)
    parser.add_argument("--feet", nargs=layout.NUM_FEET, required=True)
    parser.add_argument("--definitions", nargs=2, action="append", metavar=("PACKAGE", "FOLDER"))
    parser.add_argument("--damping", type=float, required=True, help="N m s/rad")
    parser.add_argument("--silence", type=float, required=True, help="s without a command")
    parser.add_argument("--camel-case", action="store_true", help="old spelling of Contact")
    options = parser.parse_args()
    connection = socket.socket(fileno=options.socket)
    try:
        if not wait_for_master("/" + options.name, connection):
            return 0
        side = Side(options, connection)
        side.connect()
        side.run()
        side.close()
    except (BrokenPipeError, ConnectionResetError):
        return 0  # the parent is gone
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # rospy's threads need not end first
