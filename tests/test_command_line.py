"""Every command explains itself, each of its options included."""

import ast
import subprocess
import sys

import pytest
from packages import ROOT, SOURCE


def calls_of(path, method: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == method
    ]


INTERNAL = SOURCE / "anymal_bridge/anymal_bridge/ros1/side.py"  # started by the node, not by people
COMMANDS = [
    path
    for folder in (SOURCE, ROOT / "benchmarks")
    for path in sorted(folder.rglob("*.py"))
    if "test" not in path.parts and path != INTERNAL and calls_of(path, "add_argument")
]


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_option_has_a_help_text(path):
    without = [
        ast.unparse(call)
        for call in calls_of(path, "add_argument")
        if not any(k.arg == "help" for k in call.keywords)
    ]
    assert not without


def test_commands_are_found():
    assert len(COMMANDS) > 15


@pytest.mark.ros
@pytest.mark.parametrize(
    "name",
    [
        *("bag", "bundle", "play", "view.replay"),
        *(f"verification.{name}" for name in ("certify", "compare", "demo", "search", "verify")),
    ],
)
def test_help_is_shown_without_colour_in_a_pipe(name):
    command = [sys.executable, "-m", f"policy_controller.{name}", "--help"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert text.startswith("usage: ") and "\x1b" not in text


@pytest.mark.ros
@pytest.mark.parametrize("name", ["bundle", "play", "verification.certify", "verification.verify"])
def test_wrong_option_ends_with_2_and_one_line(name):
    command = [sys.executable, "-m", f"policy_controller.{name}", "--no-such-option"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 2 and "error: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.ros
@pytest.mark.parametrize("name", ["play", "view.replay"])
def test_help_tells_defaults_and_exit_status(name):
    command = [sys.executable, "-m", f"policy_controller.{name}", "--help"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "(default: 8080)" in text and "Exit status: 0" in text
