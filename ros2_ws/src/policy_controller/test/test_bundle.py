"""The bundle: exact round trip, and every difference named and refused."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest
import yaml

from policy_controller.bundle import (
    ActionScaling,
    BundleError,
    Golden,
    check_robot,
    encode_golden,
    load_bundle,
    main,
    replay_golden,
    save_bundle,
)
from policy_controller.golden import GoldenError, read_golden
from policy_controller.robot import RobotFileError, load_robot_description


@pytest.fixture
def saved(tmp_path, make_bundle):
    """A valid bundle directory."""
    save_bundle(tmp_path / "bundle", make_bundle())
    return tmp_path / "bundle"


def edit(path, change):
    """Apply `change` to the parsed bundle.json."""
    file = path / "bundle.json"
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_round_trip_is_exact(tmp_path, make_bundle, name):
    # 0.1 + 0.2 and 1/3 have no short decimal form
    bundle = make_bundle(
        action=ActionScaling(scale=0.1 + 0.2, clip=1.0 / 3.0, applied_by="controller")
    )
    written = save_bundle(tmp_path / name, bundle)
    loaded = load_bundle(tmp_path / name)
    for item in fields(bundle):
        assert getattr(loaded, item.name) == getattr(bundle, item.name), item.name
    assert loaded.sha256 == written.sha256 == bundle.sha256


def test_hash_depends_on_every_part_but_not_on_layout(saved, make_onnx):
    bundle = load_bundle(saved)
    assert replace(bundle, control_period=0.01).sha256 != bundle.sha256
    assert replace(bundle, onnx=make_onnx(gain=0.06)).sha256 != bundle.sha256
    edit(saved, lambda data: None)  # rewrites the file without indentation
    assert load_bundle(saved).sha256 == bundle.sha256


def test_zip_with_one_folder_inside(tmp_path, saved):
    shutil.make_archive(str(tmp_path / "packed"), "zip", root_dir=tmp_path, base_dir="bundle")
    assert load_bundle(tmp_path / "packed.zip") == load_bundle(saved)


def test_existing_path_is_not_overwritten(saved, make_bundle):
    with pytest.raises(FileExistsError, match="remove it"):
        save_bundle(saved, make_bundle())


def test_bundle_that_would_be_refused_is_not_written(tmp_path, make_bundle):
    with pytest.raises(BundleError, match="control_period: found 0.5, allowed: number from 0.002"):
        save_bundle(tmp_path / "bad", make_bundle(control_period=0.5))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["robot.urdf", "robot.yaml"]


def swap_joints(data):
    data["joint_names"][0], data["joint_names"][1] = data["joint_names"][1], data["joint_names"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema_version=2), "schema_version: found 2, allowed: 1"),
        (swap_joints, "joint_names: found .*'LF_HFE', 'LF_HAA'"),
        (lambda d: d["joint_names"].pop(), "joint_names: found .*allowed: 12 names"),
        (lambda d: d.update(onnx_sha256="0" * 64), "hash of policy.onnx: found .*onnx_sha256"),
        (lambda d: d.update(golden_sha256="0" * 64), "hash of golden.npz: found .*golden_sha256"),
        (lambda d: d.pop("gains"), "gains: missing"),
        (lambda d: d.update(surprise=1), "surprise: unknown key"),
        (lambda d: d["gait"].update(phase=0.5), "gait.phase: unknown key"),
        (lambda d: d["action"].update(scale="0.5"), "action.scale: found '0.5'"),
        (lambda d: d["action"].update(scale=True), "action.scale: found True"),
        (lambda d: d["action"].update(scale=0.0), "action.scale: found 0.0"),
        (lambda d: d["action"].update(applied_by="policy"), "allowed: controller"),
        (lambda d: d["gains"]["kp"].__setitem__(3, -1.0), "gains.kp: found"),
        (lambda d: d["command"].update(lower=[0.1, 0, 0]), "command.lower: found"),
        (lambda d: d["default_pose"].__setitem__(1, 2.5), "default_pose LF_HFE: found 2.5"),
        (
            lambda d: d["limits"].update(position_lower=[-6.2] * 12),
            r"limits.position LF_HAA: found \(-6.2, 0.7\), allowed: at most one turn apart",
        ),
        (lambda d: d["limits"].update(torque=None), "limits.torque: found None"),
        (lambda d: d["observation"].pop(), r"policy.onnx inputs: found .*\['batch', 48\]"),
        (
            lambda d: d["observation"][0].update(name="height"),
            r"observation\[0\].name: found 'height'",
        ),
        (
            lambda d: d["observation"][0].update(size=4),
            r"observation\[0\].size .*found 4, allowed: 3",
        ),
        (lambda d: d["observation"][1].update(frame="world"), "found 'world', allowed: 'base'"),
        (lambda d: d["observation"][2].update(scale=0), "scale .*found 0"),
        (lambda d: d["observation"].append(d["observation"][0]), "each once"),
        (
            lambda d: d["observation"][1].update(history=1),
            r"observation\[1\].history .*found 1, allowed: integer from 2 to 16, or no such key",
        ),
        (
            lambda d: d["observation"][1].update(history=2),
            r"policy.onnx inputs: found .*\['batch', 53\]",
        ),
        (lambda d: d["training"].update(seed=1.5), "training.seed: found 1.5"),
        (lambda d: d["robot"].update(urdf_sha256="abc"), "64 lower-case hexadecimal"),
    ],
)
def test_each_difference_is_named(saved, change, message):
    edit(saved, change)
    with pytest.raises(BundleError, match=message):
        load_bundle(saved)


def test_all_differences_are_named_at_once(saved):
    def change(data):
        data["control_period"] = 1.0
        data["action"]["clip"] = -1.0
        del data["robot"]["name"]

    edit(saved, change)
    with pytest.raises(BundleError) as caught:
        load_bundle(saved)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "robot.name",
        "action.clip",
        "control_period",
    ]


def test_nan_in_json_is_refused(saved):
    edit(saved, lambda data: data["gait"].update(frequency=float("nan")))
    with pytest.raises(BundleError, match="found NaN, allowed: finite"):
        load_bundle(saved)


@pytest.mark.parametrize("name", ["policy.onnx", "golden.npz", "bundle.json"])
def test_missing_file_is_named(saved, name):
    (saved / name).unlink()
    with pytest.raises(BundleError, match=name):
        load_bundle(saved)


def test_path_that_is_no_bundle(tmp_path):
    (tmp_path / "file.zip").write_text("no archive")
    for name in ("file.zip", "absent"):
        with pytest.raises(BundleError, match="cannot be read"):
            load_bundle(tmp_path / name)


def test_hash_that_is_missing_is_named_as_missing(saved):
    edit(saved, lambda data: data.pop("onnx_sha256"))
    with pytest.raises(BundleError, match="onnx_sha256: missing"):
        load_bundle(saved)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "not valid JSON"),
        ('{"schema_version": 1, "control_period": 1' + "0" * 400 + "}", "control_period: found 1"),
        (
            '{"schema_version": 1, "default_pose": [1' + "0" * 400 + ", 0" * 11 + "]}",
            "default_pose: found ",
        ),
    ],
    ids=["too deep", "huge number", "huge number in a vector"],
)
def test_json_that_python_cannot_digest_is_refused(saved, text, message):
    (saved / "bundle.json").write_text(text)
    with pytest.raises(BundleError, match=message) as caught:
        load_bundle(saved)
    assert all(len(problem) < 1000 for problem in caught.value.problems)


_FLAGS, _METHOD = 8, 10  # offsets in an entry of a zip file's directory


@pytest.mark.parametrize(
    ("offset", "value"), [(_FLAGS, 1), (_METHOD, 99)], ids=["encrypted", "unknown compression"]
)
def test_zip_that_cannot_be_unpacked_is_refused(tmp_path, make_bundle, offset, value):
    path = tmp_path / "bundle.zip"
    save_bundle(path, make_bundle())
    content = bytearray(path.read_bytes())
    content[content.find(b"PK\x01\x02") + offset] = value
    path.write_bytes(content)
    with pytest.raises(BundleError, match="cannot be read"):
        load_bundle(path)


def _npz(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _npy(shape: tuple[int, ...], data: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_npz(**{"state.npy": _npy((10**12, 37))}), "cannot be read"),
        (_npz(**{"state.npy": b"\0" * (65 * 2**20)}), "cannot be read .*more than"),
        (_npz(**dict.fromkeys(Golden._fields, b"text")), "cannot be read"),
        (_npy((1,), b"\0" * 8), "cannot be read .*zip"),
    ],
    ids=["promises terabytes", "unpacks to too much", "members are no arrays", "one array"],
)
def test_golden_file_that_is_no_set_of_arrays(content, message):
    with pytest.raises(GoldenError, match=message):
        read_golden(content, 50)


def test_message_stays_short_when_everything_differs(make_bundle, make_onnx):
    with pytest.raises(BundleError, match="and [0-9]+ more") as caught:
        replay_golden(replace(make_bundle(), onnx=make_onnx(gain=0.06)))
    assert len(str(caught.value).splitlines()) <= 22 < len(caught.value.problems)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (dict(inputs=48), "inputs: found .*48"),
        (dict(outputs=13), "outputs: found .*13"),
        (dict(batch=1), "dynamic batch"),
        (b"not onnx", "cannot be loaded"),
    ],
)
def test_onnx_that_does_not_fit(saved, make_onnx, model, message):
    model = make_onnx(**model) if isinstance(model, dict) else model
    (saved / "policy.onnx").write_bytes(model)
    edit(saved, lambda data: data.update(onnx_sha256=hashlib.sha256(model).hexdigest()))
    with pytest.raises(BundleError, match=message):
        load_bundle(saved)


def with_golden(bundle, **changes):
    """The bundle with some golden arrays replaced."""
    golden = read_golden(bundle.golden_npz, bundle.observation_size)
    return replace(bundle, golden_npz=encode_golden(golden._replace(**changes)))


def test_golden_replay_reports_its_largest_difference(make_bundle):
    report = replay_golden(make_bundle())
    assert report.rows == 10
    assert report.observation_error <= 1e-6 and report.action_error <= 1e-5


@pytest.mark.parametrize(
    ("array", "index", "by", "message"),
    [
        ("observation", (2, 7), 2e-6, r"observation projected_gravity\[1\], row 2"),
        ("action", (5, 11), 2e-5, "action RH_KFE, row 5"),
    ],
)
def test_golden_difference_names_term_and_row(make_bundle, array, index, by, message):
    bundle = make_bundle()
    values = getattr(read_golden(bundle.golden_npz, 50), array).copy()
    values[index] += by
    with pytest.raises(BundleError, match=message) as caught:
        replay_golden(with_golden(bundle, **{array: values}))
    assert len(caught.value.problems) == 1


def test_golden_replay_detects_swapped_quaternion_order(make_bundle):
    bundle = make_bundle()
    state = read_golden(bundle.golden_npz, 50).state.copy()
    state[:, 3:7] = state[:, (6, 3, 4, 5)]  # wxyz
    with pytest.raises(BundleError, match="projected_gravity"):
        replay_golden(with_golden(bundle, state=state))


def test_golden_replay_detects_another_scale(make_bundle):
    bundle = make_bundle()
    terms = tuple(
        replace(term, scale=1.0) if term.name == "joint_velocity" else term
        for term in bundle.observation
    )
    with pytest.raises(BundleError, match="joint_velocity"):
        replay_golden(replace(bundle, observation=terms))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: Golden(*(a[:7] for a in g)), "rows: found 7, allowed: 8 or more"),
        (lambda g: g._replace(action=g.action[:, :11]), "action: found .*11"),
        (
            lambda g: g._replace(phase=np.full_like(g.phase, np.inf)),
            "phase: found 'NaN or infinity'",
        ),
        (lambda g: g._replace(command=np.abs(g.command) + 0.1), "some zero, some not"),
        (
            lambda g: g._replace(state=np.where(np.arange(37) == 14, g.state[:, 13:14], g.state)),
            "joint position: found 'columns 0 and 1 equal",
        ),
    ],
)
def test_golden_data_that_could_hide_an_error(make_bundle, change, message):
    bundle = make_bundle()
    golden = change(read_golden(bundle.golden_npz, 50))
    with pytest.raises(ValueError, match=message):
        read_golden(encode_golden(golden), 50)


def test_past_survives_the_round_trip_and_is_absent_where_there_is_none(
    tmp_path, make_bundle, bundle_with_past
):
    written = save_bundle(tmp_path / "past", bundle_with_past)
    assert written == bundle_with_past and written.sha256 == bundle_with_past.sha256
    terms = json.loads((tmp_path / "past" / "bundle.json").read_text())["observation"]
    assert [term.get("history") for term in terms] == [3, None, 2]
    with zipfile.ZipFile(io.BytesIO(make_bundle().golden_npz)) as archive:
        assert "start.npy" not in archive.namelist()


def test_golden_replay_covers_the_past(bundle_with_past):
    """The joint position of row 8 is seen in rows 8, 9 and 10: a change is noticed in all three."""
    assert replay_golden(bundle_with_past).rows == 18
    golden = read_golden(bundle_with_past.golden_npz, bundle_with_past.observation_size)
    state = golden.state.copy()
    state[8, 13] += 0.1
    with pytest.raises(BundleError) as caught:
        replay_golden(with_golden(bundle_with_past, state=state))
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "golden observation joint_position[0], row 8",
        "golden observation joint_position[0] 1 steps ago, row 9",
        "golden observation joint_position[0] 2 steps ago, row 10",
    ]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (np.arange(18) % 3 == 0, "found '3 rows in a row', allowed: more than 3"),
        (np.arange(18) == 1, "start of row 0: found False, allowed: True"),
        (1.0 * (np.arange(18) % 6 == 0), r"start: found 'float64 \[18\]', allowed: bool \[18\]"),
    ],
    ids=["runs too short", "no beginning", "numbers"],
)
def test_golden_data_that_does_not_cover_the_past(tmp_path, bundle_with_past, start, message):
    with pytest.raises(BundleError, match=message):
        save_bundle(tmp_path / "bundle", with_golden(bundle_with_past, start=start))


def test_golden_arrays_are_a_closed_set():
    buffer = io.BytesIO()
    np.savez(buffer, state=np.zeros((8, 37)), extra=np.zeros(3))
    with pytest.raises(ValueError, match="extra: unknown array(.|\n)*action: missing"):
        read_golden(buffer.getvalue(), 50)


def test_bundle_fits_its_robot(make_bundle, robot):
    check_robot(make_bundle(), robot)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(name="anymal_x"), "robot.name: found 'anymal_d', allowed: 'anymal_x'"),
        (dict(urdf_sha256="1" * 64), "robot.urdf_sha256: found"),
        (dict(default_pose=(0.1,) + (0.0,) * 11), "default_pose LF_HAA: found 0.0, allowed: 0.1"),
        (dict(kp=42.5), "gains.kp LF_HAA: found 85.0, allowed: 42.5"),
        (dict(kd=2.0), "gains.kd RH_KFE: found 0.6, allowed: 2.0"),
        (dict(torque_limit=40.0), "limits.torque: found 80.0, allowed: at most 40.0"),
        (dict(velocity_limit=7.5), "limits.velocity: found 8.5, allowed: at most 7.5"),
        (dict(position_upper=(0.5, 2.0, 2.8) * 4), "limits.position LF_HAA: found"),
    ],
)
def test_each_difference_to_the_robot_is_named(make_bundle, robot, change, message):
    with pytest.raises(BundleError, match=message):
        check_robot(make_bundle(), replace(robot, **change))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("kp", "85", "kp: found '85'"),
        ("urdf", "absent.urdf", "absent.urdf cannot be read"),
        ("joint_names", [f"J{i}" for i in range(12)], "joint_names: found"),
        (
            "lying_pose",
            [0.9] + [0.0] * 11,
            "lying_pose LF_HAA: found 0.9, allowed: from -0.7 to 0.7",
        ),
        ("torque_limit", float("inf"), "torque_limit: found inf"),
    ],
)
def test_bad_robot_file(robot_file, key, value, message):
    data = yaml.safe_load(robot_file.read_text())
    data[key] = value
    robot_file.write_text(yaml.safe_dump(data))
    with pytest.raises(RobotFileError, match=message):
        load_robot_description(robot_file)


def test_robot_file_with_missing_key(robot_file):
    data = yaml.safe_load(robot_file.read_text())
    del data["lying_pose"]
    robot_file.write_text(yaml.safe_dump(data))
    with pytest.raises(RobotFileError, match="lying_pose: missing"):
        load_robot_description(robot_file)


def test_command_line(saved, robot_file, capsys):
    assert main(["inspect", str(saved)]) == 0
    assert '"control_period": 0.02' in capsys.readouterr().out
    assert main(["verify", str(saved), "--robot", str(robot_file)]) == 0
    out = capsys.readouterr().out
    assert "10 rows" in out and load_bundle(saved).sha256 in out
    edit(saved, lambda data: data.update(control_period=1.0))
    assert main(["verify", str(saved)]) == 1
    assert "control_period: found 1.0" in capsys.readouterr().err


def test_command_that_compares_two_bundles(tmp_path, saved, make_bundle, capsys):
    assert main(["diff", str(saved), str(saved)]) == 0
    assert capsys.readouterr().out == ""
    bundle = load_bundle(saved)
    kp = (85.0, 85.0, 42.5, *bundle.gains.kp[3:])
    save_bundle(tmp_path / "other", replace(bundle, gains=replace(bundle.gains, kp=kp)))
    assert main(["diff", str(saved), str(tmp_path / "other")]) == 1
    assert capsys.readouterr().out == "gains.kp[2]: 85.0 -> 42.5\n"
