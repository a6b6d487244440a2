"""Margin search: bisection against a threshold that is known."""

from pathlib import Path

import pytest

from policy_controller.verification.search import Point, bisect, main
from policy_controller.verification.search_plot import draw_directions

CONFIG = Path(__file__).parents[5] / "config"


def threshold(limit: float, sign: float = 1.0):
    """A policy that passes up to `limit` and counts its runs."""
    runs = []

    def run(value: float) -> Point:
        runs.append(value)
        passed = sign * value <= sign * limit
        return Point(value, passed, () if passed else ("Falls",))

    return run, runs


@pytest.mark.parametrize(("nominal", "to", "limit"), [(0.0, 0.08, 0.031), (1.0, 0.4, 0.62)])
def test_margin_is_enclosed_to_the_last_halving(nominal, to, limit):
    run, runs = threshold(limit, sign=1.0 if to > nominal else -1.0)
    found = bisect("p", nominal, to, 4, run)
    low, high = sorted((found.last_pass, found.first_failure.value))
    assert low <= limit <= high
    assert high - low == pytest.approx(abs(to - nominal) / 2**4)
    assert len(runs) == 5 and found.first_failure.broken == ("Falls",)


def test_no_failure_within_reach_costs_one_run():
    run, runs = threshold(1.0)
    found = bisect("p", 0.0, 0.5, 4, run)
    assert (found.last_pass, found.first_failure, runs) == (0.5, None, [0.5])


def test_plot_is_written(tmp_path):
    found = bisect("world.friction", 0.0, 1.0, 3, threshold(0.4)[0])
    draw_directions([found, found], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_case_that_the_suite_does_not_have_is_named(tmp_path, capsys):
    plan = tmp_path / "plan.yaml"
    plan.write_text("{case: moonwalk 1, engine: warp, directions: []}")
    options = {
        "--bundle": CONFIG / "bundles" / "anymal_d",
        "--robot": CONFIG / "robot" / "anymal_d.yaml",
        "--suite": CONFIG / "scenarios" / "suite.yaml",
        "--settings": CONFIG / "controller.yaml",
        "--plan": plan,
        "--out": tmp_path / "out",
    }
    assert main([f"{part}" for pair in options.items() for part in pair]) == 2
    problem = capsys.readouterr().err
    assert "found 'moonwalk 1' on 'warp'" in problem and "commands 1" in problem
