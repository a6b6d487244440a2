"""docs/safety.md shows the reason codes that the code has, and its numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from policy_controller.guard import GUARDS
from policy_controller.safety import format_table
from policy_controller.sample import Reason

DOCUMENT = Path(__file__).parents[4] / "docs" / "safety.md"
BEGIN, END = "<!-- reasons: begin -->\n", "<!-- reasons: end -->"


def test_document_has_the_table_of_the_code():
    text = DOCUMENT.read_text()
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()
    assert shown == format_table(), (
        "docs/safety.md is out of date; put the output of "
        "`python -m policy_controller.safety --markdown` between its two marks"
    )


def test_table_has_one_row_per_reason():
    rows = format_table().splitlines()[2:]
    assert len(rows) == len(Reason) == len(GUARDS) + 2
    assert all(row.count("|") == 5 for row in rows)


def test_command_prints_the_table():
    command = [sys.executable, "-m", "policy_controller.safety"]
    done = subprocess.run([*command, "--markdown"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == format_table()
    assert subprocess.run(command, capture_output=True).returncode == 1
