"""The command line: what cannot run says why and exits 2; what runs gets a verdict."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[5]
SOURCES = [
    str(ROOT / "ros2_ws" / "src" / package)
    for package in ("policy_controller", "anymal_bridge", "diffsim_trainer")
]
BUNDLE = ROOT / "config" / "bundles" / "anymal_d"

WALK = """
schema_version: 1
name: short walk
description: Stand up, walk forward, stop, lie down.
command_rate: 20.0
tolerated: [TARGET_POSITION]
fall: {tilt: 1.0, height: 0.25}
limits:
  velocity_rmse: 0.20
  yaw_rate_rmse: 0.20
  drift: 0.05
  joint_speed_rms: 0.1
  swing_apex: 0.04
  duty_factor: 0.8
  penetration: 0.005
targets:
  period_tolerance: 0.002
  period_share: 0.99
  tick_duration: 0.002
  stance_slip: 0.15
  foot_agreement: 0.005
  cut_share: 0.01
segments:
  - {name: lying, request: passive, duration: 0.5}
  - {name: stand up, request: stand_up, reach: stand, timeout: 10.0, duration: 1.0}
  - {name: forward, request: walk, command: [0.6, 0.0, 0.0], duration: 4.0, settle: 1.5,
     measure: tracking}
  - {name: stop, duration: 4.0, settle: 2.0, measure: standstill}
  - {name: stand, request: stand, duration: 1.0}
  - {name: lie down, request: lie_down, reach: passive, timeout: 10.0, duration: 0.5}
"""


@pytest.fixture
def start(tmp_path):
    """start(*options) -> running demo whose output is read with communicate()."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*SOURCES, os.environ.get("PYTHONPATH", "")]),
        "COLUMNS": "200",
    }
    running = []

    def make(*options) -> subprocess.Popen:
        command = [sys.executable, "-m", "policy_controller.verification.demo", *map(str, options)]
        running.append(
            subprocess.Popen(
                [*command, "--out", tmp_path / "report"],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return running[-1]

    yield make
    for process in running:
        process.kill()
        process.communicate()


def children(pid: int) -> dict[str, int]:
    """Module name -> pid of the nodes that the demo has started."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        command = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        if "-m" in command:
            found[command[command.index("-m") + 1]] = int(child)
    return found


@pytest.mark.ros
def test_missing_bundle_could_not_run(start, tmp_path):
    process = start("--bundle", tmp_path / "nothing")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "Could not run" in output and "nothing" in output and "Traceback" not in output


@pytest.mark.ros
def test_command_beyond_the_bundle_could_not_run(start, tmp_path):
    scenario = tmp_path / "fast.yaml"
    scenario.write_text(WALK.replace("[0.6, 0.0, 0.0]", "[9.0, 0.0, 0.0]"))
    process = start("--bundle", BUNDLE, "--scenario", scenario)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "'forward' commands 9 along x" in output and "Traceback" not in output


@pytest.mark.ros
@pytest.mark.slow
def test_short_walk_through_the_real_nodes_passes(start, tmp_path):
    scenario = tmp_path / "walk.yaml"
    scenario.write_text(WALK)
    process = start("--bundle", BUNDLE, "--scenario", scenario, "--lockstep")
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    data = json.loads((tmp_path / "report" / "report.json").read_text())
    assert data["passed"] is True and data["failure"] is None
    segments = {segment["name"]: segment for segment in data["metrics"]["segments"]}
    assert list(segments) == ["lying", "stand up", "forward", "stop", "stand", "lie down"]
    # the verdict is not taken on trust: the numbers behind it
    assert segments["forward"]["mean_velocity"][0] == pytest.approx(0.6, abs=0.15)
    assert segments["stop"]["drift"] < 0.05
    # periods are counted in simulated time, which waits for the controller
    assert data["metrics"]["timing"]["period"]["max"] == pytest.approx(0.02, abs=1e-6)
    # reported feet and the kinematics of the robot file agree: names, order, frames, units
    assert data["metrics"]["foot_model_error"] < 0.005
    page = (tmp_path / "report" / "index.html").read_text()
    assert re.search(r'class="stamp pass"', page)
    assert {log.name for log in (tmp_path / "report" / "logs").iterdir()} == {
        "robot.log",
        "controller.log",
    }


@pytest.mark.ros
@pytest.mark.slow
@pytest.mark.parametrize("module", ["anymal_bridge.sim_node", "policy_controller.node"])
def test_node_that_dies_fails_the_run_at_once(start, tmp_path, module):
    scenario = tmp_path / "walk.yaml"
    scenario.write_text(WALK.replace("duration: 0.5", "duration: 60.0", 1))
    process = start("--bundle", BUNDLE, "--scenario", scenario)
    for line in process.stdout:
        if "Running the scenario" in line:
            break
    nodes = children(process.pid)
    os.kill(nodes[module], signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    name = {"anymal_bridge.sim_node": "robot", "policy_controller.node": "controller"}[module]
    assert f"the {name} process ended with signal SIGKILL" in output
    assert json.loads((tmp_path / "report" / "report.json").read_text())["passed"] is False
    assert not any(Path(f"/proc/{pid}").exists() for pid in nodes.values())


@pytest.mark.ros
@pytest.mark.slow
def test_interrupt_ends_the_nodes(start, tmp_path):
    process = start("--bundle", BUNDLE)
    for line in process.stdout:
        if "Running the scenario" in line:
            break
    nodes = children(process.pid)
    assert set(nodes) == {"anymal_bridge.sim_node", "policy_controller.node"}
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2 and "Interrupted" in output
    assert not any(Path(f"/proc/{pid}").exists() for pid in nodes.values())
