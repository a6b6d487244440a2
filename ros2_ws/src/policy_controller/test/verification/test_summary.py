"""Summary: which kind of failure is seen, and which case is nearest to a limit."""

from types import SimpleNamespace

import pytest

from policy_controller.verification.metrics import Event
from policy_controller.verification.summary import describe_pattern, summarise
from policy_controller.verification.verdict import Check, Verdict

FIRST_STEP = 4.0  # s, end of the stand-up


def result(name: str, value: float, fall_after: float | None = None, expect: str = ""):
    """A walk with an error of `value` (limit 0.25), which falls some time after the take-over."""
    falls = () if fall_after is None else (Event(FIRST_STEP + fall_after, "walk", "fall"),)
    checks = (
        Check("velocity_rmse", "Velocity error", value, 0.25, "m/s", True, True, "walk"),
        Check("falls", "Falls", len(falls), 0, "", True, True, "walk"),
    )
    stood = [
        SimpleNamespace(name="stand up", start=FIRST_STEP - 2.0, steady=1.0),
        SimpleNamespace(name="take over", start=FIRST_STEP - 1.0, steady=1.0),
    ]
    return SimpleNamespace(
        case=SimpleNamespace(name=name, engine="warp", scenario=SimpleNamespace(expect=expect)),
        metrics=SimpleNamespace(falls=falls, guard_trips=(), segments=stood, joints=()),
        verdict=Verdict(checks),
        failure=None,
    )


def test_falls_at_once_everywhere_are_a_scrambled_interface():
    results = [result(f"walk {i}", 0.1, fall_after=0.5) for i in range(9)] + [result("last", 0.1)]
    assert describe_pattern(results).startswith("scrambled interface: 9 of 10")


def test_falls_before_the_first_step_are_a_scrambled_interface():
    results = [result(f"walk {i}", 0.1, fall_after=-0.5) for i in range(3)]
    for entry in results:
        del entry.metrics.segments[1]  # the take-over was not completed
    assert describe_pattern(results).startswith("scrambled interface: 3 of 3")


def test_a_robot_that_cannot_stand_up_says_nothing_of_the_policy():
    entry = result("walk", 0.1, fall_after=-1.5)
    entry.metrics.segments.clear()
    assert describe_pattern([entry]).startswith("dynamics gap: 1 of 1 walks fail, 0 of them")


@pytest.mark.parametrize("early", [0, 3, 7])
def test_late_or_rare_failures_are_a_dynamics_gap(early):
    results = [result(f"e{i}", 0.1, fall_after=0.5) for i in range(early)]
    results += [result(f"l{i}", 0.1, fall_after=3.0) for i in range(10 - early)]
    assert describe_pattern(results).startswith("dynamics gap: 10 of 10")


def test_expected_faults_are_no_evidence():
    results = [result("walk", 0.1), result("NaN", 0.1, fall_after=0.1, expect="STATE_NONFINITE")]
    assert describe_pattern(results) == "no failure"


def test_nearest_case_leads_and_failures_are_counted():
    summary = summarise([result("a", 0.10), result("b", 0.24), result("c", 0.30)])
    row = next(row for row in summary.margins if row.check.key == "velocity_rmse")
    assert (row.case, row.failed, row.measured) == ("c", 1, 3)
    assert row.check.margin == pytest.approx((0.25 - 0.30) / 0.25)
    assert summary.margins[0] is row and not summary.passed


def test_what_was_not_measured_is_the_worst():
    summary = summarise([result("a", 0.1), result("b", float("nan"))])
    assert summary.margins[0].case == "b" and not summary.passed
