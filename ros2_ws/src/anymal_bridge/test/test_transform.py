"""/tf is told when asked for and its package is there; else the start says what is missing."""

from importlib.util import find_spec

import pytest

pytest.importorskip("anymal_msgs", reason="needs the message packages")
pytest.importorskip("warp", reason="needs Warp")
pytestmark = pytest.mark.ros

FIRST_START_S = 180.0
HAS_TF = find_spec("tf2_msgs") is not None
by_node = pytest.mark.parametrize("node", ["sim_node", "bridge_node"])


@pytest.mark.skipif(HAS_TF, reason="tf2_msgs is installed")
@by_node
def test_start_without_tf2_msgs_names_it(start_node, node):
    process = start_node(node, publish_tf=True)
    assert process.process.wait(FIRST_START_S) == 1
    assert "package tf2_msgs is not installed" in process.output()
    assert "Traceback" not in process.output()


@pytest.mark.skipif(not HAS_TF, reason="tf2_msgs is not on PyPI; it comes with a ROS 2")
def test_base_is_told_in_odom(start_node, peer):
    from nav_msgs.msg import Odometry
    from tf2_msgs.msg import TFMessage

    transforms, odometry = [], []
    peer.node.create_subscription(TFMessage, "/tf", transforms.append, 100)
    peer.node.create_subscription(Odometry, "/odom", odometry.append, 100)
    start_node("sim_node", publish_tf=True)

    def same_moment():
        known = {(o.header.stamp.sec, o.header.stamp.nanosec): o for o in odometry}
        for message in transforms:
            (transform,) = message.transforms
            stamp = transform.header.stamp
            if (stamp.sec, stamp.nanosec) in known:
                return transform, known[stamp.sec, stamp.nanosec]
        return None

    peer.until(same_moment, FIRST_START_S)
    transform, told = same_moment()
    assert (transform.header.frame_id, transform.child_frame_id) == ("odom", "base")
    position, translation = told.pose.pose.position, transform.transform.translation
    assert (translation.x, translation.y, translation.z) == (position.x, position.y, position.z)
    assert transform.transform.rotation == told.pose.pose.orientation
