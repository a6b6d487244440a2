"""The scenario file: what is read, and that every mistake is named."""

from pathlib import Path

import numpy as np
import pytest

from policy_controller.verification.scenario import (
    MOTION_STATES,
    Measure,
    ScenarioError,
    check_command_range,
    load_scenario,
    parse_scenario,
)

DEMO = Path(__file__).parents[5] / "config" / "scenarios" / "demo.yaml"


def test_demo_file_holds_the_agreed_programme():
    scenario = load_scenario(DEMO)
    commands = [s.command for s in scenario.segments if s.measure is Measure.TRACKING]
    assert commands[:7] == [
        (0.8, 0, 0),
        (-0.5, 0, 0),
        (0, 0.5, 0),
        (0, -0.5, 0),
        (0, 0, 0.8),
        (0, 0, -0.8),
        (0.5, 0.2, 0.5),
    ]
    assert all(np.hypot(x, y) <= 0.8 for x, y, _ in commands)
    assert [s.request for s in scenario.segments if s.request] == [
        "passive",
        "stand_up",
        "walk",
        "stand",
        "lie_down",
    ]
    (stop,) = [s for s in scenario.segments if s.measure is Measure.STANDSTILL]
    assert stop.duration - stop.settle == pytest.approx(10.0)
    assert 50.0 < scenario.duration < 75.0
    limits = scenario.limits
    assert (limits.velocity_rmse, limits.yaw_rate_rmse, limits.drift) == (0.2, 0.2, 0.05)
    assert (limits.joint_speed_rms, limits.swing_apex, limits.duty_factor, limits.penetration) == (
        0.1,
        0.04,
        0.8,
        0.005,
    )


def test_defaults_of_a_segment(scenario):
    stand, forward, turn, _ = scenario.segments
    assert (stand.request, stand.reach, stand.measure, stand.command) == (
        "stand",
        "stand",
        Measure.NOTHING,
        (0, 0, 0),
    )
    assert forward.settle == 1.0
    assert (turn.request, turn.reach) == (None, None)


def _set(path, value):
    def change(data):
        *parents, last = path
        for key in parents:
            data = data[key]
        data[last] = value

    return change


def _drop(*path):
    def change(data):
        *parents, last = path
        for key in parents:
            data = data[key]
        del data[last]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set(["schema_version"], 2), ["schema_version", "found 2", "reads 1"]),
        (_drop("limits"), ["'limits' is missing"]),
        (_drop("limits", "drift"), ["limits", "'drift' is missing"]),
        (_set(["limits", "drfit"], 1.0), ["limits", "'drfit'", "allowed are", "drift"]),
        (_set(["limits", "drift"], -1.0), ["limits.drift", "-1.0", "above zero"]),
        (_set(["limits", "drift"], True), ["limits.drift", "True", "finite number"]),
        (_set(["limits", "drift"], float("nan")), ["limits.drift", "nan", "finite number"]),
        (_set(["command_rate"], "fast"), ["command_rate", "'fast'", "finite number"]),
        (_set(["tolerated"], "TILT"), ["tolerated", "'TILT'", "list of reason codes"]),
        (_set(["segments"], []), ["segments", "non-empty list"]),
        (_set(["segments", 1, "command"], [1.0, 0.0]), ["segments[1].command", "three numbers"]),
        (_set(["segments", 1, "command"], [0.0, 0.0, 0.0]), ["segments[1].measure", "not zero"]),
        (
            _set(["segments", 3, "command"], [0.1, 0.0, 0.0]),
            ["segments[3].measure", "zero command"],
        ),
        (_set(["segments", 1, "settle"], 6.0), ["segments[1].settle", "nothing would be left"]),
        (_set(["segments", 1, "request"], "fault"), ["segments[1].request", "'fault'", "lie_down"]),
        (
            _set(["segments", 1, "measure"], "vibes"),
            ["segments[1].measure", "'vibes'", "standstill"],
        ),
        (_set(["segments", 1, "name"], "stand"), ["'stand' occurs 2 times"]),
        (_set(["segments", 1, "speed"], 1.0), ["segments[1]", "'speed'", "allowed are"]),
        (_set(["segments", 1], "walk"), ["segments[1]", "'walk'", "table"]),
    ],
)
def test_mistake_is_named(scenario_data, change, words):
    change(scenario_data)
    with pytest.raises(ScenarioError) as error:
        parse_scenario(scenario_data)
    for word in words:
        assert word in str(error.value)


def test_key_written_twice_is_refused(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("schema_version: 1\nname: a\nname: b\n")
    with pytest.raises(ScenarioError, match="'name' is written twice"):
        load_scenario(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ScenarioError, match="nowhere.yaml"):
        load_scenario(tmp_path / "nowhere.yaml")


def test_command_outside_the_bundle_is_refused(scenario):
    lower, upper = np.array([-0.5, -0.5, -1.0]), np.array([0.8, 0.5, 1.0])
    check_command_range(scenario, lower, upper)
    with pytest.raises(
        ScenarioError, match="'forward' commands 0.8 along x, the bundle allows -0.5 to 0.7"
    ):
        check_command_range(scenario, lower, np.array([0.7, 0.5, 1.0]))
    with pytest.raises(ScenarioError, match="'turn' commands -0.5 along yaw"):
        check_command_range(scenario, np.array([-0.5, -0.5, -0.4]), upper)


def test_motion_states_are_the_constants_of_the_message():
    status = pytest.importorskip(
        "footlight_msgs.msg", reason="message packages are not built"
    ).ControllerStatus
    assert [getattr(status, name.upper()) for name in MOTION_STATES] == list(
        range(len(MOTION_STATES))
    )
