"""The images, as far as they can be checked without building them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packages import ROOT

DOCKERFILE = ROOT / "docker" / "Dockerfile"
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())


def test_hadolint_finds_nothing():
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("hadolint is not installed; requirements/test.txt names it")
    result = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_robot_image_refuses_training_software():
    """The image's own check, in this environment, where Warp is, and in one without packages."""
    stage = DOCKERFILE.read_text().split(" AS robot")[1].split("\nFROM ")[0]
    code = re.search(r'python -c "(.*)"', stage)[1]
    pytest.importorskip("warp")
    here = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert here.returncode != 0 and "warp" in here.stderr
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code]).returncode == 0


def test_images_copy_what_exists():
    sources = [
        source
        for line in re.findall(r"^COPY (?!--)(.+)$", DOCKERFILE.read_text(), re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert sources and not [source for source in sources if not (ROOT / source).exists()]


def test_targets_of_make_and_of_the_images_exist():
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = set(re.findall(r"&& make ([a-z-]+)", DOCKERFILE.read_text()))
    assert made and made <= rules
    stages = set(re.findall(r"^FROM \S+ AS (\w+)", DOCKERFILE.read_text(), re.MULTILINE))
    for service in COMPOSE["services"].values():
        assert service["build"]["target"] in stages


@pytest.mark.parametrize("name", ["sim", "view", "robot"])
def test_services_launch_what_exists(name):
    command = COMPOSE["services"][name]["command"].split()
    assert command[:3] == ["ros2", "launch", "policy_controller"]
    assert (ROOT / "launch" / command[3]).is_file()
