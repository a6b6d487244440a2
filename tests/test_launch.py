"""The launch files: what they start exists, and started by the real `launch` it comes up."""

import ast
import threading
import time
from importlib.util import find_spec

import pytest
import yaml
from packages import PACKAGES, ROOT, read_console_scripts

LAUNCH_FILES = sorted((ROOT / "launch").glob("*.launch.py"))
by_name = pytest.mark.parametrize("path", LAUNCH_FILES, ids=lambda path: path.stem)


def calls_of(path, *names: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in names
    ]


def first_arguments(path, name: str) -> set[str]:
    return {ast.literal_eval(call.args[0]) for call in calls_of(path, name)}


def keyword(call: ast.Call, name: str) -> str:
    return next(ast.literal_eval(k.value) for k in call.keywords if k.arg == name)


def parameter_files(call: ast.Call) -> list[str]:
    """File names among the node's parameters."""
    parameters = next(k.value for k in call.keywords if k.arg == "parameters")
    strings = [n.value for n in ast.walk(parameters) if isinstance(n, ast.Constant)]
    return [s for s in strings if isinstance(s, str) and s.endswith(".yaml")]


@by_name
def test_executables_and_parameter_files_exist(path):
    for call in calls_of(path, "Node", "LifecycleNode"):
        if keyword(call, "package") not in PACKAGES:
            continue  # of ROS
        assert keyword(call, "executable") in read_console_scripts(keyword(call, "package"))
        for file in parameter_files(call):
            # In any namespace, which the name alone would not be.
            name = f"/**/{keyword(call, 'name')}"
            assert name in yaml.safe_load((ROOT / "config" / file).read_text())


def test_robot_and_controller_have_their_parameter_file():
    for path in LAUNCH_FILES:
        for call in calls_of(path, "Node", "LifecycleNode"):
            if path.stem.startswith(("anymal", "controller", "fake")):
                assert len(parameter_files(call)) == 1


def read_constant(path, name: str):
    """The value of a constant at the top of a launch file."""
    (value,) = [
        ast.literal_eval(node.value)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and node.targets[0].id == name
    ]
    return value


def test_layouts_to_choose_from_are_those_that_exist():
    names = read_constant(ROOT / "launch" / "teleop.launch.py", "LAYOUTS")
    files = {file.stem: file for file in (ROOT / "config" / "teleop").glob("*.yaml")}
    assert set(names) == set(files)
    for file in files.values():
        assert list(yaml.safe_load(file.read_text())) == ["/**/teleop"]


@by_name
def test_every_argument_is_declared_and_used(path):
    declared = first_arguments(path, "DeclareLaunchArgument")
    assert first_arguments(path, "LaunchConfiguration") == declared


@by_name
def test_every_argument_is_described(path):
    for call in calls_of(path, "DeclareLaunchArgument"):
        assert keyword(call, "description")


@by_name
def test_nothing_is_remapped(path):
    """Topics are named by parameters, which the nodes check; launch checks no remapping."""
    for call in calls_of(path, "Node", "LifecycleNode"):
        assert not {k.arg for k in call.keywords} & {"remappings", "ros_arguments", "arguments"}


def test_included_file_declares_what_is_passed_to_it():
    """launch would take a misspelt name for an argument of somebody else."""
    declared = first_arguments(ROOT / "launch" / "controller.launch.py", "DeclareLaunchArgument")
    for robot in ("sim", "real"):
        assert set(read_passed_on(robot)) <= declared


def test_real_robot_needs_a_certificate():
    assert read_passed_on("real")["require_certificate"] == "'true'"


def read_passed_on(robot: str) -> dict[str, str]:
    """Argument of controller.launch.py to the expression that anymal_<robot>.launch.py gives it."""
    (table,) = [
        node.value
        for node in ast.walk(ast.parse((ROOT / "launch" / f"anymal_{robot}.launch.py").read_text()))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "passed_on"
    ]
    return {
        ast.literal_eval(key): ast.unparse(value)
        for key, value in zip(table.keys, table.values, strict=True)
    }


@by_name
def test_launch_file_is_short_and_decides_nothing(path):
    text = path.read_text()
    assert len(text.splitlines()) < 80
    assert not [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.If, ast.For, ast.Try))]


def test_real_robot_is_a_dry_run_unless_told_otherwise():
    path = ROOT / "launch" / "anymal_real.launch.py"
    (call,) = [
        call
        for call in calls_of(path, "DeclareLaunchArgument")
        if ast.literal_eval(call.args[0]) == "dry_run"
    ]
    (shared,) = [k.value.id for k in call.keywords if k.arg is None]
    assert read_constant(path, shared)["default_value"] == "true"


def wait_until_up(context, timeout: float) -> bool:
    """Whether within `timeout` [s] the robot publishes its state and the controller is active."""
    import rclpy
    from anymal_msgs.msg import AnymalState
    from lifecycle_msgs.msg import State
    from lifecycle_msgs.srv import GetState
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.qos import qos_profile_sensor_data

    node = rclpy.create_node("observer", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    states = []
    node.create_subscription(
        AnymalState, "/state_estimator/anymal_state", states.append, qos_profile_sensor_data
    )
    client = node.create_client(GetState, "/policy_controller/get_state")
    end, answer = time.monotonic() + timeout, None
    while time.monotonic() < end:
        executor.spin_once(timeout_sec=0.1)
        if answer is None and states and client.service_is_ready():
            answer = client.call_async(GetState.Request())
        elif answer is not None and answer.done():
            if answer.result().current_state.id == State.PRIMARY_STATE_ACTIVE:
                break
            answer = None
    executor.shutdown()
    node.destroy_node()
    return time.monotonic() < end


@pytest.mark.ros
@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("launch_ros") is None, reason="launch_ros is not on PyPI; it comes with a ROS 2"
)
def test_sim_launch_brings_up_robot_controller_and_recorder(monkeypatch, tmp_path):
    """As `ros2 launch policy_controller anymal_sim.launch.py`, ended once both are up."""
    import rclpy
    from domain_coordinator import domain_id
    from launch import LaunchDescription, LaunchService
    from launch.actions import IncludeLaunchDescription, RegisterEventHandler
    from launch.event_handlers import OnProcessExit
    from launch.substitutions import PathJoinSubstitution
    from launch_ros.substitutions import FindPackageShare

    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.chdir(tmp_path)  # of the recording
    share = FindPackageShare("policy_controller")
    file = PathJoinSubstitution([share, "launch", "anymal_sim.launch.py"])
    context = rclpy.Context()
    with domain_id() as domain, rclpy.init(context=context, domain_id=domain):
        monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
        service = LaunchService(noninteractive=True)
        up, codes = [], []
        exits = OnProcessExit(on_exit=lambda event, _: codes.append(event.returncode))
        service.include_launch_description(
            LaunchDescription([RegisterEventHandler(exits), IncludeLaunchDescription(file)])
        )

        def watch() -> None:
            try:
                up.append(wait_until_up(context, timeout=120.0))
            finally:
                service.shutdown()

        watcher = threading.Thread(target=watch)
        watcher.start()
        service.run()
        watcher.join()
    assert up == [True]
    assert codes == [0, 0, 0]
    assert list(tmp_path.glob("recordings/*/*.mcap"))
