"""Suite: one file gives the same cases always, drawn within its ranges; errors name the place."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from policy_controller.verification.scenario import Measure, ScenarioError
from policy_controller.verification.suite import ENGINES, choose, load_suite

SUITE = Path(__file__).parents[5] / "config" / "scenarios" / "suite.yaml"
LOWER, UPPER = np.array((-0.5, -0.4, -0.8)), np.array((0.9, 0.4, 0.8))


@pytest.fixture(scope="module")
def suite():
    return load_suite(SUITE, LOWER, UPPER)


def test_shipped_suite_has_two_hundred_cases_on_two_engines(suite):
    assert len(suite.cases) >= 200
    counts = [sum(case.engine == engine for case in suite.cases) for engine in ENGINES]
    assert min(counts) >= 60
    assert len({(case.engine, case.name) for case in suite.cases}) == len(suite.cases)


def test_same_file_same_cases(suite):
    assert load_suite(SUITE, LOWER, UPPER) == suite


def test_drawn_values_stay_in_their_range_and_fill_it(suite):
    families = {f["name"]: f for f in yaml.safe_load(SUITE.read_text())["families"]}
    for name, family in families.items():
        for key, (low, high) in family.get("vary", {}).items():
            values = [c.parameters[key] for c in suite.cases if c.family == name]
            assert low <= min(values) and max(values) <= high
            assert max(values) - min(values) > 0.5 * (high - low)


def test_commands_stay_in_the_range_of_the_bundle_and_move(suite):
    commands = np.array(
        [
            s.command
            for c in suite.cases
            for s in c.scenario.segments
            if s.measure is Measure.TRACKING
        ]
    )
    assert np.all(commands >= LOWER - 0.005) and np.all(commands <= UPPER + 0.005)
    assert np.linalg.norm(commands, axis=1).min() >= 0.3
    assert (commands.max(axis=0) - commands.min(axis=0) > 0.9 * (UPPER - LOWER)).all()


def test_nominal_undoes_every_change(suite):
    changed = {key for case in suite.cases for key in case.parameters}
    for case in suite.cases:
        for segment in case.scenario.segments:
            changed |= set(segment.robot) - {"push_velocity"}
    assert changed == set(suite.nominal)
    assert suite.nominal["world.friction"] == 0.8 and suite.nominal["world.kp_scale"] == 1.0


def test_both_engines_get_the_same_case(suite):
    by_name = {}
    for case in suite.cases:
        by_name.setdefault(case.name, []).append(case)
    for pair in by_name.values():
        assert all(case.parameters == pair[0].parameters for case in pair)
        assert all(case.scenario == pair[0].scenario for case in pair)


def test_cases_are_chosen_by_words_of_their_names(suite):
    assert choose(suite.cases, []) == list(suite.cases)
    chosen = choose(suite.cases, ["slope", "rough"])
    assert {case.family for case in chosen} == {"slope", "rough ground"}
    with pytest.raises(ScenarioError, match="'moon'.*families are: commands, random walk"):
        choose(suite.cases, ["slope", "moon"])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d["families"][0].update(cases={"bullet": 1}), "bullet"),
        (lambda d: d["families"][2].update(varies={}), r"families\[2\].*varies"),
        (lambda d: d["shared"]["limits"].update(velocity_rsme=1.0), "velocity_rsme"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path, change, named):
    data = yaml.safe_load(SUITE.read_text())
    change(data)
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(ScenarioError, match=named):
        load_suite(path, LOWER, UPPER)
