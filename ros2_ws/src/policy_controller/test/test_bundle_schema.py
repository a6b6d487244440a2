"""config/bundle.schema.json is made from the contract, and agrees with load_bundle."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy_controller.bundle import BundleError, load_bundle, save_bundle
from policy_controller.bundle_schema import describe_bundle

ROOT = Path(__file__).parents[4]
BEYOND_THE_SCHEMA = re.compile(
    r"hash of |policy.onnx |golden.npz |default_pose \w\w_|limits.position "
)
"""Refusals that come from two fields or two files."""


SCHEMA = json.loads((ROOT / "config" / "bundle.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture
def saved(tmp_path, make_bundle, bundle_with_past):
    """Two bundle directories: without and with a past."""
    save_bundle(tmp_path / "plain", make_bundle())
    save_bundle(tmp_path / "past", bundle_with_past)
    return [tmp_path / "plain", tmp_path / "past"]


def test_committed_schema_is_the_one_of_the_contract():
    VALIDATOR.check_schema(SCHEMA)
    assert SCHEMA == describe_bundle(), (
        "out of date; put the output of `python -m policy_controller.bundle_schema` there"
    )


def test_good_bundles_are_valid(saved):
    for folder in (*saved, ROOT / "config" / "bundles" / "anymal_d"):
        load_bundle(folder)
        VALIDATOR.validate(json.loads((folder / "bundle.json").read_text()))


def places(value, path=()):
    """Path of every value in a document."""
    yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from places(inner, (*path, key))


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-100, 100),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda v: not v.is_integer()),
    st.text(max_size=3),
    st.just("0" * 64),
    st.lists(st.floats(-1.0, 1.0).filter(lambda v: not v.is_integer()), max_size=13),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


def mutate(data, document):
    """The document with one value replaced, removed or added."""
    changed = copy.deepcopy(document)
    path = data.draw(st.sampled_from([p for p in places(document) if p]))
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    how = data.draw(st.sampled_from(["replace", "remove", "add"]))
    if how == "replace":
        holder[path[-1]] = data.draw(ODD)
    elif how == "remove":
        del holder[path[-1]]
    elif isinstance(holder, dict):
        holder[data.draw(st.text(max_size=8))] = data.draw(ODD)
    else:
        holder.append(data.draw(ODD))
    return changed


@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_schema_and_loader_agree_on_changed_bundles(saved, data):
    folder = data.draw(st.sampled_from(saved))
    original = (folder / "bundle.json").read_text()
    changed = mutate(data, json.loads(original))
    (folder / "bundle.json").write_text(json.dumps(changed))
    try:
        load_bundle(folder)
        problems = []
    except BundleError as error:
        problems = error.problems
    finally:
        (folder / "bundle.json").write_text(original)
    refused = [error.message for error in VALIDATOR.iter_errors(changed)]
    within = [problem for problem in problems if not BEYOND_THE_SCHEMA.match(problem)]
    assert problems if refused else not within, (refused, problems)


@pytest.mark.parametrize("version", [0, 2, True, "1", None])
def test_other_versions_are_refused_with_the_way_to_migrate(saved, version):
    file = saved[0] / "bundle.json"
    document = json.loads(file.read_text()) | {"schema_version": version}
    file.write_text(json.dumps(document))
    with pytest.raises(BundleError, match="allowed: 1; its checkpoint becomes .*export"):
        load_bundle(saved[0])
    assert not VALIDATOR.is_valid(document)
