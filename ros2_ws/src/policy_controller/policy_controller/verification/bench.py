"""Bench: a simulated robot and the controller as running processes, for one case after another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
import yaml
from rclpy.signals import SignalHandlerOptions

from policy_controller.state import FOOT_NAMES, JOINT_NAMES
from policy_controller.verification.feet import FootKinematics
from policy_controller.verification.metrics import Metrics, RobotLimits, measure
from policy_controller.verification.operator import OperatorError
from policy_controller.verification.processes import NodeProcesses
from policy_controller.verification.recording import Failure, Recording, save_recording
from policy_controller.verification.runner import Look, RunFailedError, Runner
from policy_controller.verification.session import Setup, own_domain
from policy_controller.verification.suite import Case
from policy_controller.verification.verdict import Verdict, judge


@dataclass(frozen=True)
class CaseResult:
    """What one case gave. `recording` is the file of the recording."""

    case: Case
    metrics: Metrics
    verdict: Verdict
    failure: Failure | None
    recording: Path
    wall_time: float  # s


class _Quiet:
    """Watches nothing."""

    def on_look(self, look: Look) -> None:
        pass

    def on_segment_end(self, look: Look, completed: bool) -> None:
        pass


class Bench:
    """Runs cases on nodes that stay alive while the `with` block lasts, in a ROS domain of their
    own. One bench in a process."""

    def __init__(self, setup: Setup, nominal: Mapping[str, Any], out: Path) -> None:
        """setup: with the engine and any scenario to begin with. out: for logs and recordings."""
        self._setup, self._nominal, self._out = setup, nominal, out
        limits = setup.bundle.limits
        self.limits = RobotLimits(
            np.asarray(limits.position_lower),
            np.asarray(limits.position_upper),
            limits.velocity,
            limits.torque,
        )
        urdf = setup.robot_path.parent / yaml.safe_load(setup.robot_path.read_text())["urdf"]
        self._feet = FootKinematics(urdf, JOINT_NAMES, FOOT_NAMES)

    def __enter__(self) -> Bench:
        setup = self._setup
        with ExitStack() as stack:
            stack.enter_context(own_domain())
            logs = self._out / "logs" / setup.engine
            processes = stack.enter_context(NodeProcesses(setup.nodes(), logs, os.environ))
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
            stack.callback(rclpy.shutdown)
            nodes = [rclpy.create_node(f"footlight_{role}") for role in ("operator", "recorder")]
            for node in nodes:
                stack.callback(node.destroy_node)
            self._runner = Runner(*nodes, setup.topics, setup.scenario, processes, _Quiet())
            stack.callback(self._runner.close)
            self._runner.bring_up()
            if self._runner.bundle != setup.bundle.sha256:
                raise RunFailedError(
                    "the controller runs another bundle; do not change it meanwhile"
                )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, case: Case) -> CaseResult:
        """Run, measure and judge one case. Raises NodeDiedError if a node has ended.

        The torque limit is that of the case's drives: their strength scales their clamp, too.
        """
        begin = time.monotonic()
        recording, failure = self.record(case)
        strength = case.parameters.get("world.motor_strength", 1.0)
        limits = replace(self.limits, torque=strength * self.limits.torque)
        metrics = measure(recording, case.scenario, limits, self._feet)
        path = self._out / "recordings" / f"{case.engine} {case.name}.npz".replace(" ", "_")
        path.parent.mkdir(parents=True, exist_ok=True)
        save_recording(recording, path)
        verdict, wall = judge(metrics, case.scenario), time.monotonic() - begin
        return CaseResult(case, metrics, verdict, failure, path, wall)

    def record(self, case: Case) -> tuple[Recording, Failure | None]:
        """Run one case from the start pose."""
        try:
            self._runner.start_over(case.scenario, {**self._nominal, **case.parameters})
        except OperatorError as error:
            raise RunFailedError(f"{case.name} could not begin: {error}") from error
        outcome = self._runner.run()
        recording = outcome.recorder.decode(
            JOINT_NAMES,
            FOOT_NAMES,
            self._setup.bundle.control_period,
            outcome.marks,
            lambda share: None,
        )
        return recording, outcome.failure


def run_cases(
    setup: Setup,
    nominal: Mapping[str, Any],
    cases: Sequence[Case],
    out: Path,
    done: Callable[[CaseResult], None],
) -> list[CaseResult]:
    """All cases on one bench, in order; `done` is told each result."""
    results = []
    with Bench(setup, nominal, out) as bench:
        for case in cases:
            results.append(bench.run(case))
            done(results[-1])
    return results
