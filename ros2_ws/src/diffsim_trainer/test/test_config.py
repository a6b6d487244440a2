"""Configuration files: what is refused, and that the message says what to do."""

import dataclasses

import pytest

from diffsim_trainer.config import ConfigError, TrainConfig, config_from_dict, load_config

MINIMAL = {"robot": "robot.yaml", "iterations": 3}


def test_defaults_apply_to_what_is_not_given():
    config = config_from_dict(MINIMAL | {"env": {"gait": {"frequency": 2}}})
    assert config.env.gait.frequency == 2.0
    assert config.env.gait.swing_height == TrainConfig("r", 1).env.gait.swing_height


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": {"reward": {"foot_hight": 1.0}}}, "did you mean 'foot_height'"),
        ({"iteratons": 5}, "did you mean 'iterations'"),
        ({"xyz": 5}, "allowed keys: robot, iterations"),
        ({"iterations": "many"}, "expected int, found 'many'"),
        ({"iterations": True}, "expected int"),
        ({"shac": {"gamma": "1e-3"}}, "write 1.0e-3"),
        ({"env": {"commands": {"lower": [0.0, 0.0]}}}, "expected 3 numbers, found 2"),
        ({"env": {"commands": {"lower": [2.0, 0.0, 0.0]}}}, "exceeds upper"),
        ({"env": {"randomization": {"friction": [1.0, 0.5]}}}, "friction: lower end"),
        ({"env": {"randomization": {"delay_steps": [0, 9]}}}, "within 0 and substeps"),
        ({"env": 3}, "expected a mapping"),
        ({"shac": {"horizon": 5, "critic_minibatches": 7}}, "must divide"),
        ({"iterations": 0}, "at least 1"),
    ],
)
def test_bad_values_are_refused_with_a_cure(change, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(").replace("[", r"\[")):
        config_from_dict(MINIMAL | change)


def test_missing_key_is_named():
    with pytest.raises(ConfigError, match="'robot' is missing"):
        config_from_dict({"iterations": 1})


def test_round_trip_through_dictionary():
    config = config_from_dict(MINIMAL | {"shac": {"hidden_sizes": [8, 8]}})
    assert config_from_dict(config.to_dict()) == config


def test_hash_depends_on_values_and_not_on_the_directory():
    config = config_from_dict(MINIMAL)
    assert config.sha256() == dataclasses.replace(config, robot="/elsewhere/robot.yaml").sha256()
    assert config.sha256() != dataclasses.replace(config, seed=1).sha256()


def test_robot_path_is_relative_to_the_file(tmp_path):
    (tmp_path / "robot.yaml").write_text("{}")
    (tmp_path / "train").mkdir()
    path = tmp_path / "train" / "config.yaml"
    path.write_text("robot: ../robot.yaml\niterations: 1\n")
    assert load_config(path).robot == str(tmp_path / "robot.yaml")
    path.write_text("robot: robot.yaml\niterations: 1\n")
    with pytest.raises(ConfigError, match="relative to the directory"):
        load_config(path)


def test_file_that_is_missing_or_no_yaml_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        load_config(tmp_path / "absent.yaml")
    (tmp_path / "broken.yaml").write_text("[1, 2")
    with pytest.raises(ConfigError, match=r"broken\.yaml: cannot be read"):
        load_config(tmp_path / "broken.yaml")
