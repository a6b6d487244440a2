"""What a sourced ROS 2 provides wins over what the set-up would install or build here."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def make_prefix(folder: Path, *packages: str) -> Path:
    """An install prefix whose ament index names the packages."""
    index = folder / "share/ament_index/resource_index/packages"
    index.mkdir(parents=True)
    for package in packages:
        (index / package).touch()
    return folder


def run(*command: str, **environment: str) -> subprocess.CompletedProcess:
    inherited = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")}
    return subprocess.run(
        command, cwd=ROOT, env=inherited | environment, text=True, capture_output=True
    )


def in_underlay(venv: Path, prefixes: list[Path], *packages: str) -> list[str]:
    path = ":".join(map(str, prefixes))
    result = run("scripts/in_underlay.sh", str(venv), *packages, AMENT_PREFIX_PATH=path)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_packages_of_a_sourced_prefix_are_found_and_others_are_not(tmp_path):
    first = make_prefix(tmp_path / "first", "rclpy")
    second = make_prefix(tmp_path / "second", "anymal_msgs", "any_msgs")
    found = in_underlay(
        tmp_path / "venv", [first, second], "any_msgs", "anymal_msgs", "footlight_msgs"
    )
    assert found == ["any_msgs", "anymal_msgs"]


def test_own_environment_is_no_underlay(tmp_path):
    venv = make_prefix(tmp_path / "venv", "anymal_msgs")
    assert in_underlay(venv, [venv], "anymal_msgs") == []
    assert in_underlay(venv, [], "anymal_msgs") == []


def test_sourced_ros_replaces_the_wheels(tmp_path):
    prefix = make_prefix(tmp_path / "ros", "rclpy")
    plan = ["make", "--dry-run", "--always-make", f"VENV={tmp_path / 'venv'}", "setup"]
    assert "/stamps/ros-system" in run(*plan, AMENT_PREFIX_PATH=str(prefix)).stdout
    assert "/stamps/ros-wheels" in run(*plan).stdout


def test_python_that_cannot_import_the_sourced_ros_is_refused(tmp_path):
    prefix = make_prefix(tmp_path / "ros", "rclpy")
    result = run(
        "scripts/make_venv.sh",
        str(tmp_path / "venv"),
        AMENT_PREFIX_PATH=str(prefix),
        PYTHON=getattr(sys, "_base_executable", sys.executable),
    )
    assert result.returncode == 1
    assert "cannot import its rclpy" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_unusable_python_is_refused_with_the_way_out(tmp_path):
    result = run("scripts/make_venv.sh", str(tmp_path / "venv"), PYTHON="/bin/false")
    assert result.returncode == 1
    assert "3.10 to 3.13" in result.stderr and "python3-dev" in result.stderr


def test_walk_trains_exports_and_drives_what_it_trained(tmp_path):
    """One fresh directory goes through training, export and the demonstration, in this order."""
    plan = run("make", "--dry-run", f"VENV={tmp_path / 'venv'}", "walk")
    assert plan.returncode == 0, plan.stderr
    lines = [line for line in plan.stdout.splitlines() if "python" in line or "torchrun" in line]
    train, export, demo, opened = lines[-4:]
    out = train.split("--out ")[1].strip()
    assert "diffsim_trainer.train" in train and not (ROOT / out).exists()
    assert f"diffsim_trainer.export --checkpoint {out}/checkpoint.pt --out {out}/bundle" in export
    assert f"verification.demo --bundle {out}/bundle --out report" in demo
    assert "report/index.html" in opened
