"""Fixtures of the tests that run real nodes as processes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def domain(monkeypatch) -> Iterator[int]:
    """A ROS domain for this test and its children."""
    from domain_coordinator import domain_id

    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    numbers = itertools.count(os.getpid())
    with domain_id(lambda: next(numbers) % 100 + 1) as number:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(number))
        yield number


@pytest.fixture
def start(domain) -> Iterator[Callable[..., subprocess.Popen]]:
    """start(module, {parameter: value}, *ROS arguments) -> a process that runs a node; killed at
    the end."""
    processes = []

    def run(module: str, parameters: dict[str, object], *arguments: object) -> subprocess.Popen:
        options = [part for item in parameters.items() for part in ("-p", "{}:={}".format(*item))]
        line = [sys.executable, "-m", module, "--ros-args", *map(str, arguments), *options]
        processes.append(subprocess.Popen(line))
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def observer(domain):
    """An Observer, closed at the end."""
    from observer import Observer

    observer = Observer(domain)
    yield observer
    observer.close()
