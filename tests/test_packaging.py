"""What colcon and rosdep are told about a Python package is true."""

import ast
import configparser
import sys
from pathlib import Path

import pytest
from packages import (
    PACKAGES,
    ROOT,
    SOURCE,
    read_console_scripts,
    read_manifest,
    read_setup_call,
)

# Module name to rosdep key, where the two differ.
ROSDEP_KEYS = {
    "cryptography": "python3-cryptography",
    "matplotlib": "python3-matplotlib",
    "mujoco": "python3-mujoco-pip",
    "numpy": "python3-numpy",
    "onnxruntime": "python3-onnxruntime-pip",
    "pytest": "python3-pytest",
    "rich": "python3-rich",
    "scipy": "python3-scipy",
    "torch": "python3-torch",
    "yaml": "python3-yaml",
}
# No rosdep key exists; requirements/ has them.
FROM_PIP_ONLY = {"mcap", "warp", "onnx", "rsl_rl", "sdl2", "tensorboard", "tensordict", "viser"}
NOT_ON_THE_ROBOT = {("anymal_bridge", "diffsim_trainer"), ("anymal_bridge", "mujoco")}
# Run by the Python of a ROS 1 installation, which this package does not bring; link.py checks it.
ROS1_PROGRAM = {"convert.py", "graph.py", "messages.py", "side.py"}


def imported_modules(package: str) -> set[str]:
    """Top-level names that the package's own code imports, and not its own."""
    modules = set()
    for path in (SOURCE / package / package).rglob("*.py"):
        if path.parent.name == "ros1" and path.name in ROS1_PROGRAM:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules.add(node.module.split(".")[0])
    return modules - set(sys.stdlib_module_names) - {package}


@pytest.mark.parametrize("package", PACKAGES)
def test_manifest_and_setup_agree(package):
    manifest, call = read_manifest(package), read_setup_call(package)
    assert manifest.findtext("name") == package
    assert manifest.findtext("version") == ast.literal_eval(call["version"])
    assert manifest.findtext("license") == ast.literal_eval(call["license"])
    assert manifest.findtext("export/build_type") == "ament_python"
    assert (SOURCE / package / "resource" / package).is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_executables_go_where_ros2_run_looks(package):
    config = configparser.ConfigParser()
    config.read(SOURCE / package / "setup.cfg")
    assert config["develop"]["script_dir"] == f"$base/lib/{package}"
    assert config["install"]["install_scripts"] == f"$base/lib/{package}"


@pytest.mark.parametrize("package", PACKAGES)
def test_executables_exist(package):
    for name, (module, function) in read_console_scripts(package).items():
        path = SOURCE / package / Path(*module.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert path.is_file(), f"{name}: no {path}"
        functions = {n.name for n in ast.parse(path.read_text()).body if hasattr(n, "name")}
        assert function in functions, f"{name}: no {function}() in {path}"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_import_is_declared(package):
    """rosdep installs what package.xml names; what it does not name is missing elsewhere."""
    manifest = read_manifest(package)
    declared = {e.text for tag in ("depend", "exec_depend") for e in manifest.findall(tag)}
    undeclared = {
        module
        for module in imported_modules(package) - FROM_PIP_ONLY
        if ROSDEP_KEYS.get(module, module) not in declared
        and (package, module) not in NOT_ON_THE_ROBOT
    }
    assert not undeclared, f"add to {package}/package.xml, or to the table above"


@pytest.mark.parametrize("package", ["policy_controller", "anymal_bridge"])
def test_robot_side_declares_no_training_software(package):
    declared = {e.text for e in read_manifest(package) if e.tag.endswith("depend")}
    assert declared
    assert not {key for key in declared if "torch" in key or "warp" in key}


@pytest.mark.parametrize(
    "link, target",
    [
        ("policy_controller/launch", "launch"),
        ("policy_controller/config", "config"),
        ("anymal_bridge/config", "config"),
        ("diffsim_trainer/config", "config"),
    ],
)
def test_launch_and_config_have_one_truth(link, target):
    path = SOURCE / link
    assert path.is_symlink() and path.resolve() == ROOT / target
