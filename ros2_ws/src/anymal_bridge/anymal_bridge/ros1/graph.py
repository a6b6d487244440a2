"""The ROS 1 graph as this node needs it: registered also after a roscore came back, and who else
sends commands. Runs in the ROS 1 process only.

rospy registers once. A roscore that is started anew knows nobody, so this looks twice a second and
registers again through the master's own interface, without touching connections that still work.
"""

from __future__ import annotations

import http.client
import os
import threading
import xmlrpc.client
from collections.abc import Callable, Sequence
from typing import NamedTuple

PERIOD_S = 0.5
TIMEOUT_S = 1.0


class MasterError(RuntimeError):
    """The roscore is not there, or refuses."""


class Topic(NamedTuple):
    name: str
    type: str  # "*" where any version is taken


class GraphState(NamedTuple):
    has_master: bool
    drivers: int  # publishers of commands besides this node


class _Transport(xmlrpc.client.Transport):
    """With a timeout: a master that hangs is no master."""

    def make_connection(self, host) -> http.client.HTTPConnection:
        connection = super().make_connection(host)
        connection.timeout = TIMEOUT_S
        return connection


def call(uri: str, method: str, *arguments):
    """One call of the ROS 1 master or slave interface; returns its value.

    Raises:
        MasterError: nobody answers at ``uri``, or the answer is a refusal.
    """
    try:
        with xmlrpc.client.ServerProxy(uri, transport=_Transport()) as proxy:
            code, text, value = getattr(proxy, method)(*arguments)
    except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
        raise MasterError(f"no answer at {uri}: {error}") from error
    if code != 1:
        raise MasterError(f"{uri} refuses {method}: {text}")
    return value


def master_uri() -> str:
    """Where the roscore is."""
    return os.environ["ROS_MASTER_URI"]


def master_answers(name: str) -> bool:
    """Whether a roscore is there now."""
    try:
        call(master_uri(), "getPid", name)
    except MasterError:
        return False
    return True


class Graph:
    """Watches in a thread of its own and calls ``tell`` after every look."""

    def __init__(
        self,
        node_name: str,
        node_uri: str,
        published: Sequence[Topic],
        subscribed: Sequence[Topic],
        commands: str,
        tell: Callable[[GraphState], None],
    ) -> None:
        self._name, self._uri = node_name, node_uri
        self._published, self._subscribed = published, subscribed
        self._commands, self._tell = commands, tell
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="graph", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        drivers = 0  # connections outlive a roscore, so without one the last count is kept
        while not self._stop.is_set():
            try:
                publishers, subscribers, _ = call(master_uri(), "getSystemState", self._name)
                drivers = len(set(dict(publishers).get(self._commands, ())) - {self._name})
                self._register(dict(publishers), dict(subscribers))
            except MasterError:
                self._tell(GraphState(False, drivers))
            else:
                self._tell(GraphState(True, drivers))
            self._stop.wait(PERIOD_S)

    def _register(self, publishers: dict, subscribers: dict) -> None:
        for topic in self._published:
            if self._name not in publishers.get(topic.name, ()):
                call(master_uri(), "registerPublisher", self._name, *topic, self._uri)
        for topic in self._subscribed:
            if self._name not in subscribers.get(topic.name, ()):
                uris = call(master_uri(), "registerSubscriber", self._name, *topic, self._uri)
                call(self._uri, "publisherUpdate", "/master", topic.name, uris)
