"""The bridge with one callback more, which never returns: its executor does nothing after it."""

import sys
import threading

from std_srvs.srv import Trigger

from anymal_bridge.bridge_node import AnymalBridgeNode
from anymal_bridge.process import run_node


def create_node() -> AnymalBridgeNode:
    node = AnymalBridgeNode()
    node.create_service(Trigger, "~/block", lambda *_: threading.Event().wait())
    return node


sys.exit(run_node(create_node))
