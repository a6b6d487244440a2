"""The robot side's own guard, between any controller and the drives. No ROS, no clock.

Two tables hold all of it. A *trip* finds a reason to stop: from then on damping is sent (no spring,
target velocity 0: torque that never adds energy), latched until an operator arms again. A *filter*
makes a command milder. Time is passed in, in seconds of a clock that only runs forward.

    DISARMED --arm--> ARMED --trip, stop--> LATCHED --arm--> ARMED
        ^--------------disarm---------------'

DISARMED sends nothing, so that another controller may hold the robot. ARMED sends nothing before
the first command.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from .joint_command import JointCommand, Mode, damping_command
from .robot_file import NUM_JOINTS
from .robot_sample import RobotState


class GuardState(enum.Enum):
    DISARMED = "disarmed"
    ARMED = "armed"
    LATCHED = "latched"


class Reason(enum.Enum):
    """Why the guard stopped the robot."""

    OPERATOR_STOP = "operator_stop"
    COMMAND_REFUSED = "command_refused"  # the message could not be obeyed (names, mode, NaN, gains)
    COMMAND_AGE = "command_age"  # no command for too long
    COMMAND_OUTDATED = (
        "command_outdated"  # commands come, but they answer an old state of the robot
    )
    STATE_AGE = "state_age"  # no state from the robot for too long
    ROBOT_STATE = "robot_state"  # the robot reports an error or is not ready
    JOINT_UNKNOWN = "joint_unknown"  # a joint position of the robot is NaN
    SECOND_COMMANDER = "second_commander"  # two controllers send to the bridge
    SECOND_DRIVER = "second_driver"  # somebody else sends to the robot
    GAIN = "gain"  # stiffer than the robot may be
    TAKE_OVER = "take_over"  # a spring would be switched on far from where its joint is


@dataclass(frozen=True)
class GuardLimits:
    """What the robot may be asked for. Arrays are float64 [12] in the order of ``joint_names``."""

    joint_names: tuple[str, ...]  # 12, the robot file's order
    position_lower: np.ndarray  # rad
    position_upper: np.ndarray  # rad
    velocity: float  # rad/s
    torque: float  # N m
    kp_max: float  # N m/rad
    kd_max: float  # N m s/rad
    target_rate: float  # rad/s, of the position target
    take_over: float  # rad, largest distance target - joint when a spring is switched on
    command_timeout: float  # s, shorter than the robot's own, so that damping comes from here
    state_timeout: float  # s
    damping: float  # N m s/rad, D of the damping command


@dataclass
class Facts:
    """What the guard knows at one moment."""

    now: float = 0.0  # s
    command: JointCommand | None = None  # last one since arming
    command_time: float = 0.0  # s, arrival of ``command``
    command_lag: float = 0.0  # s, on arrival: how much newer the robot's newest state was
    state_time: float | None = None  # s, arrival of the robot's last state
    state_stamp_ns: int = 0  # ns, stamp of that state, the robot's clock
    robot_state: RobotState = RobotState.UNINITIALIZED
    position: np.ndarray = field(default_factory=lambda: np.full(NUM_JOINTS, np.nan))  # rad
    commanders: int = 0  # publishers of commands to the bridge
    drivers: int = 0  # publishers of commands to the robot, the bridge not counted
    previous: JointCommand | None = None  # last command given out since arming
    previous_time: float = -np.inf  # s


@dataclass(frozen=True)
class Output:
    """What to do now: give ``command`` to the robot, or in a dry run (``send`` false) only tell."""

    command: JointCommand
    send: bool
    filtered: tuple[str, ...] = ()  # names of the filters that changed the command


# Trips: words for the operator, or None while all is well.


def command_age(limits: GuardLimits, facts: Facts) -> str | None:
    if facts.command is None:
        return None
    age = facts.now - facts.command_time
    if age > limits.command_timeout:
        return (
            f"no command for {age:.3f} s, allowed {limits.command_timeout:.3f} s; "
            "the controller is dead or too slow"
        )
    return None


def command_outdated(limits: GuardLimits, facts: Facts) -> str | None:
    if facts.command is not None and abs(facts.command_lag) > limits.command_timeout:
        return (
            f"the command answers a robot state {facts.command_lag:.3f} s older than the newest, "
            f"allowed {limits.command_timeout:.3f} s; commands carry the stamp of the state they "
            "answer"
        )
    return None


def state_age(limits: GuardLimits, facts: Facts) -> str | None:
    if facts.state_time is None:
        return "the robot has sent no state yet; check the transport and the topic names"
    age = facts.now - facts.state_time
    if age > limits.state_timeout:
        return f"no state from the robot for {age:.3f} s, allowed {limits.state_timeout:.3f} s"
    return None


def robot_state(limits: GuardLimits, facts: Facts) -> str | None:
    if facts.robot_state is not RobotState.OK:
        return f"the robot reports state {facts.robot_state.name}, wanted OK"
    return None


def joint_unknown(limits: GuardLimits, facts: Facts) -> str | None:
    unknown = np.flatnonzero(~np.isfinite(facts.position))
    if unknown.size:
        name = limits.joint_names[unknown[0]]
        return f"the robot does not know the position of {name}; look at its sensor"
    return None


def second_commander(limits: GuardLimits, facts: Facts) -> str | None:
    if facts.commanders > 1:
        return (
            f"{facts.commanders} nodes publish commands to the bridge, allowed 1; stop the others"
        )
    return None


def second_driver(limits: GuardLimits, facts: Facts) -> str | None:
    if facts.drivers > 0:
        return (
            f"{facts.drivers} other nodes send commands to the robot, allowed 0; drives that hear "
            "two masters fight. Stop the robot's own motion controller first"
        )
    return None


def gain(limits: GuardLimits, facts: Facts) -> str | None:
    if facts.command is None or facts.command.mode is not Mode.PID_GAINS:
        return None
    kp, kd = float(facts.command.kp.max()), float(facts.command.kd.max())
    if kp > limits.kp_max or kd > limits.kd_max:
        return (
            f"gains P {kp:g}, D {kd:g} are above the limits P {limits.kp_max:g}, "
            f"D {limits.kd_max:g}"
        )
    return None


def take_over(limits: GuardLimits, facts: Facts) -> str | None:
    command = facts.command
    if command is None or command is facts.previous:
        return None
    switched_on = _has_spring(command) & ~_has_spring(facts.previous)
    error = np.abs(command.position - facts.position)
    far = switched_on & (error > limits.take_over)
    if far.any():
        joint = int(np.flatnonzero(far)[0])
        return (
            f"{limits.joint_names[joint]} is {error[joint]:.2f} rad from its target while its "
            f"spring is switched on, allowed {limits.take_over:.2f} rad; start from the measured "
            "pose"
        )
    return None


Trip = Callable[[GuardLimits, Facts], "str | None"]
TRIPS: dict[Reason, Trip] = {
    Reason.STATE_AGE: state_age,
    Reason.ROBOT_STATE: robot_state,
    Reason.JOINT_UNKNOWN: joint_unknown,
    Reason.SECOND_DRIVER: second_driver,
    Reason.SECOND_COMMANDER: second_commander,
    Reason.COMMAND_AGE: command_age,
    Reason.COMMAND_OUTDATED: command_outdated,
    Reason.GAIN: gain,
    Reason.TAKE_OVER: take_over,
}


# Filters: the command, milder. They see mode 13 only; FREEZE and DISABLE carry no numbers.


def clamp_position(limits: GuardLimits, facts: Facts, command: JointCommand) -> JointCommand:
    position = np.clip(command.position, limits.position_lower, limits.position_upper)
    return replace(command, position=position)


def clamp_velocity(limits: GuardLimits, facts: Facts, command: JointCommand) -> JointCommand:
    return replace(command, velocity=np.clip(command.velocity, -limits.velocity, limits.velocity))


def clamp_torque(limits: GuardLimits, facts: Facts, command: JointCommand) -> JointCommand:
    """Feed-forward and spring each within the torque limit:  P |position - q| <= torque."""
    torque = np.clip(command.torque, -limits.torque, limits.torque)
    reach = limits.torque / np.maximum(command.kp, 1e-6)
    position = np.clip(command.position, facts.position - reach, facts.position + reach)
    return replace(command, torque=torque, position=position)


def limit_rate(limits: GuardLimits, facts: Facts, command: JointCommand) -> JointCommand:
    """Targets move at most ``target_rate``, from the last one or, of new springs, the joint."""
    held = _has_spring(facts.previous)
    start = np.where(held, facts.previous.position if facts.previous else 0.0, facts.position)
    # A pause lets the target move further, but never by more than a stopped controller may be
    # silent.
    step = limits.target_rate * min(facts.now - facts.previous_time, limits.command_timeout)
    return replace(command, position=np.clip(command.position, start - step, start + step))


Filter = Callable[[GuardLimits, Facts, JointCommand], JointCommand]
# The last one wins where two contradict each other: a target that may not follow its joint fast
# enough, or a joint outside of its limits, loads no drive beyond its torque.
FILTERS: dict[str, Filter] = {
    "target_rate": limit_rate,
    "position": clamp_position,
    "velocity": clamp_velocity,
    "torque": clamp_torque,
}


def _has_spring(command: JointCommand | None) -> np.ndarray:
    """Which joints a command pulls to a position, bool [12]."""
    if command is None or command.mode is not Mode.PID_GAINS:
        return np.zeros(NUM_JOINTS, dtype=bool)
    return command.kp > 0.0


class Guard:
    """Runs the tables. ``state``, ``reason`` and ``detail`` say where it stands and why."""

    def __init__(self, limits: GuardLimits, dry_run: bool) -> None:
        self.limits = limits
        self.dry_run = dry_run
        self.state = GuardState.DISARMED
        self.reason: Reason | None = None
        self.detail = ""
        self.counts = dict.fromkeys(FILTERS, 0)  # commands changed, by filter
        self._facts = Facts()

    # What the guard is told.

    def observe_state(
        self, now: float, stamp_ns: int, position: np.ndarray, state: RobotState
    ) -> None:
        """A state message of the robot: its stamp [ns], joint positions [12] in rad and health."""
        facts = self._facts
        facts.state_time, facts.state_stamp_ns = now, stamp_ns
        facts.position = np.array(position)
        facts.robot_state = state

    def observe_publishers(self, commanders: int, drivers: int) -> None:
        """Number of publishers of commands to the bridge, and to the robot besides the bridge."""
        self._facts.commanders, self._facts.drivers = commanders, drivers

    # What the operator does.

    def arm(self, now: float) -> str | None:
        """Let commands pass from now on. Returns why not, or None when armed; when it was armed
        already, nothing else changes."""
        facts = self._facts
        facts.now = now
        if self.state is not GuardState.ARMED:
            facts.command = facts.previous = None
            facts.previous_time = -np.inf
        if tripped := self._tripped():
            return f"{tripped[0].value}: {tripped[1]}"
        self.state, self.reason, self.detail = GuardState.ARMED, None, ""
        return None

    def disarm(self) -> None:
        """Send nothing more; the robot's own controllers may take it over."""
        self.state, self.reason, self.detail = GuardState.DISARMED, None, ""

    def stop(self, reason: Reason, detail: str) -> None:
        """Damping, latched. Without effect when disarmed: then the robot is somebody else's."""
        if self.state is GuardState.ARMED:
            self.state, self.reason, self.detail = GuardState.LATCHED, reason, detail

    # What comes out.

    def is_driving(self) -> bool:
        """Whether the robot does what a controller commands."""
        commanded = self._facts.command is not None
        return self.state is GuardState.ARMED and commanded and not self.dry_run

    def offer(self, now: float, command: JointCommand) -> Output | None:
        """A command arrived: what to give to the robot now, None when nothing is to be given.

        A silence before it stops the robot even if nobody watched meanwhile.
        """
        if self.state is not GuardState.ARMED:
            return None
        if (damping := self.watch(now)) is not None:
            return damping
        facts = self._facts
        facts.now, facts.command, facts.command_time = now, command, now
        # Both stamps are of the robot's clock, so no clock of this machine is involved.
        facts.command_lag = (facts.state_stamp_ns - command.stamp_ns) * 1e-9
        if tripped := self._tripped():
            self.stop(*tripped)
            return self._damping()
        given, filtered = self._filter(command)
        facts.previous, facts.previous_time = given, now
        # The trips compare the newest command with the one given out; it has passed, so they are
        # the same now.
        facts.command = given
        return Output(given, not self.dry_run, filtered)

    def watch(self, now: float) -> Output | None:
        """Called all the time: damping when stopped or when something trips now, else None."""
        if self.state is GuardState.ARMED:
            self._facts.now = now
            if tripped := self._tripped():
                self.stop(*tripped)
        return self._damping() if self.state is GuardState.LATCHED else None

    def _tripped(self) -> tuple[Reason, str] | None:
        for reason, trip in TRIPS.items():
            if detail := trip(self.limits, self._facts):
                return reason, detail
        return None

    def _filter(self, command: JointCommand) -> tuple[JointCommand, tuple[str, ...]]:
        if command.mode is not Mode.PID_GAINS:
            return command, ()
        filtered = []
        for name, make_milder in FILTERS.items():
            milder = make_milder(self.limits, self._facts, command)
            if not _equal(milder, command):
                filtered.append(name)
                self.counts[name] += 1
            command = milder
        return command, tuple(filtered)

    def _damping(self) -> Output:
        return Output(
            damping_command(self._facts.state_stamp_ns, self.limits.damping), not self.dry_run
        )


def _equal(a: JointCommand, b: JointCommand) -> bool:
    return (
        np.array_equal(a.position, b.position)
        and np.array_equal(a.velocity, b.velocity)
        and np.array_equal(a.torque, b.torque)
    )
