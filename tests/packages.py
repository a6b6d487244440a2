"""What the packaging files of the three Python packages say."""

import ast
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "ros2_ws" / "src"
PACKAGES = ("diffsim_trainer", "policy_controller", "anymal_bridge")


def read_manifest(package: str) -> ElementTree.Element:
    """package.xml"""
    return ElementTree.parse(SOURCE / package / "package.xml").getroot()


def read_setup_call(package: str) -> dict[str, ast.expr]:
    """Keyword arguments of the call of setup() in setup.py."""
    tree = ast.parse((SOURCE / package / "setup.py").read_text())
    call = next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setup"
    )
    return {keyword.arg: keyword.value for keyword in call.keywords}


def read_console_scripts(package: str) -> dict[str, tuple[str, str]]:
    """Executable name to (module, function)."""
    scripts = ast.literal_eval(read_setup_call(package)["entry_points"])["console_scripts"]
    matches = [re.fullmatch(r"(\w+) = ([\w.]+):(\w+)", script) for script in scripts]
    return {match[1]: (match[2], match[3]) for match in matches}
