"""The report: each figure is in the page, all numbers are in the JSON, nothing else is loaded."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from policy_controller.verification.layout import Run
from policy_controller.verification.metrics import measure
from policy_controller.verification.page import Provenance
from policy_controller.verification.plots import PLOTS
from policy_controller.verification.recording import Failure
from policy_controller.verification.report import write_report
from policy_controller.verification.verdict import judge

PNG = b"\x89PNG\r\n\x1a\n"

PROVENANCE = Provenance(
    command="python -m policy_controller.verification.demo --bundle config/bundles/anymal_d",
    started="2026-01-01 12:00:00 +0000",
    robot="anymal_d",
    engine="warp",
    timing_mode="lockstep",
    scheduling="normal",
    seed=7,
    bundle="config/bundles/anymal_d",
    bundle_sha256="ab" * 32,
    scenario="config/scenarios/demo.yaml",
    scenario_sha256="cd" * 32,
    training={"git_commit": "ef" * 20},
    versions={"python": "3.11.7"},
    host="Linux <test>",
    nodes={"robot": "python -m anymal_bridge.sim_node"},
)


class Report(NamedTuple):
    page: str
    data: dict
    figures: Path


@pytest.fixture(scope="module")
def write(scenario, limits, kinematics, tmp_path_factory):
    def run(recording, failure=None):
        metrics = measure(recording, scenario, limits, kinematics)
        verdict = judge(metrics, scenario)
        page = write_report(
            tmp_path_factory.mktemp("report"),
            Run(recording, scenario, metrics, limits),
            verdict,
            PROVENANCE,
            failure,
        )
        data = json.loads((page.parent / "report.json").read_text())
        return Report(page.read_text(encoding="utf-8"), data, page.parent / "figures")

    return run


@pytest.fixture(scope="module")
def good(recording, write):
    return write(recording)


def test_page_holds_every_figure_and_the_files_are_the_same(good):
    page, _, figures = good
    embedded = dict(
        re.findall(
            r'<figure id="(\w+)"><img alt="[^"]*" src="data:image/png;base64,([^"]+)">', page
        )
    )
    assert list(embedded) == [plot.key for plot in PLOTS]
    for plot in PLOTS:
        content = base64.b64decode(embedded[plot.key])
        assert content.startswith(PNG)
        assert content == (figures / f"{plot.key}.png").read_bytes()
        assert plot.title in page


def test_page_loads_nothing(good):
    page, _, _ = good
    assert "<script" not in page and "<link" not in page
    sources = re.findall(r'(?:src|href)="([^"]{5})', page)
    assert sources and set(sources) == {"data:"}


def test_page_says_how_to_reproduce(good):
    page, _, _ = good
    for text in (
        PROVENANCE.command,
        "ab" * 32,
        "cd" * 32,
        "warp, lockstep, 7",
        "Linux &lt;test&gt;",
    ):
        assert text in page


def test_verdict_is_on_top_and_in_the_json(good):
    page, data, _ = good
    assert page.index(">PASS</b>") < page.index("<main>") and data["passed"] is True
    by_key = {check["key"]: check for check in data["checks"]}
    assert by_key["drift"]["passed"] and by_key["drift"]["limit"] == 0.05
    forward = data["metrics"]["segments"][1]
    assert forward["name"] == "forward" and forward["mean_velocity"][0] == pytest.approx(0.8)
    assert forward["drift"] is None  # not judged by it: null, not NaN
    assert data["scenario"]["segments"][3]["measure"] == "standstill"


def test_run_that_ended_early_is_reported_with_its_reason(recording, write):
    # ends 2 s into 'forward': nothing of it is measured, the page still shows what there is
    stand, forward, *_ = recording.marks
    end = forward.start + 2_000_000_000
    marks = (stand, replace(forward, steady=min(forward.steady, end), end=end, completed=False))
    keep = recording.state.stamp < end
    state = replace(
        recording.state, **{name: values[keep] for name, values in vars(recording.state).items()}
    )
    failure = Failure("forward", "guard trip: TILT", "tilt is 1.2 rad & rising")
    page, data, _ = write(replace(recording, state=state, marks=marks), failure)
    assert page.index(">FAIL</b>") < page.index("<main>") and data["passed"] is False
    assert "guard trip: TILT" in page and "1.2 rad &amp; rising" in page
    assert data["failure"]["segment"] == "forward"
    assert [segment["name"] for segment in data["metrics"]["segments"]] == ["stand"]
    assert "not measured" in page and '<figure id="posture">' in page
    assert '<figure id="gait">' not in page


def test_run_without_any_completed_segment_can_be_reported(recording, write):
    first = replace(recording.marks[0], end=recording.marks[0].start, completed=False)
    few = slice(0, 3)
    state = replace(
        recording.state, **{name: values[few] for name, values in vars(recording.state).items()}
    )
    page, data, _ = write(
        replace(recording, state=state, marks=(first,)), Failure("stand", "the robot fell", "")
    )
    assert data["passed"] is False and "the robot fell" in page
