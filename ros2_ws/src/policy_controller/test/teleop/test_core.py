"""The rules of the teleoperation, each with a mutant that lacks it and must fail.

A scenario is a function of the class under test. Time is passed in, so nothing waits.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy_controller.teleop import core
from policy_controller.teleop.core import EMERGENCY_STOP, ZEROS, Phase, Teleop, Velocity
from policy_controller.teleop.layout import read_layout

DEAD_MAN, TURBO, STAND_UP, WALK, STOP = 9, 10, 0, 3, 1
STILL, PERIOD, TICK = Velocity(), 0.05, 0.02
FULL = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0)  # left stick forward
CENTRED = (0.0,) * 6


class Pilot:
    """Hands and joystick: messages at 20 Hz, ticks at 50 Hz, and what came out of both."""

    def __init__(self, teleop: Teleop):
        self.teleop, self.now = teleop, 100.0
        self.sent: list[Velocity] = []
        self.pressed: list[str] = []
        self._jitter = 0

    def send(self, axes=CENTRED, *held: int, alive: bool = True) -> None:
        """One message and the ticks up to the next; `alive`: a trigger trembles a little."""
        self._jitter += alive
        axes = (*axes[:5], axes[5] + 0.001 * (self._jitter % 2))
        output = self.teleop.take(self.now, axes, [int(i in held) for i in range(21)])
        self._note(output.velocity)
        self.pressed += output.requests
        self.wait(PERIOD)

    def hold(self, time: float, axes=CENTRED, *held: int, alive: bool = True) -> None:
        """Messages for `time` s."""
        for _ in range(round(time / PERIOD)):
            self.send(axes, *held, alive=alive)

    def wait(self, time: float) -> None:
        """Ticks only, no message."""
        end = self.now + time
        while self.now + TICK < end:
            self.now += TICK
            self._note(self.teleop.tick(self.now))
        self.now = end

    def drive(self) -> None:
        """Centre, press the dead-man, push the stick."""
        self.send()
        self.hold(0.3, FULL, DEAD_MAN)
        assert self.teleop.phase == Phase.DRIVING and self.sent[-1] != STILL

    def _note(self, velocity: Velocity | None) -> None:
        if velocity is not None:
            self.sent.append(velocity)

    def take_sent(self) -> list[Velocity]:
        """What was sent since the last call."""
        sent, self.sent = self.sent, []
        return sent


def dead_man_released_with_stick_pushed(teleop):
    """B41"""
    pilot = Pilot(teleop)
    pilot.drive()
    pilot.take_sent()
    output = teleop.take(pilot.now, FULL, [0] * 21)
    assert output.velocity == STILL  # at once
    pilot.hold(1.0, FULL)
    sent = pilot.take_sent()
    assert sent == [STILL] * (ZEROS - 1) and ZEROS >= 3  # and then nothing


def nothing_before_the_dead_man(teleop):
    pilot = Pilot(teleop)
    pilot.send()
    pilot.hold(1.0, FULL)
    pilot.hold(1.0, FULL, TURBO)  # turbo is no dead-man
    assert pilot.take_sent() == []


def silence_while_driving(teleop):
    """B39"""
    pilot = Pilot(teleop)
    pilot.drive()
    pilot.take_sent()
    pilot.wait(0.1)  # with the period after the last message, 0.15 s of silence
    assert pilot.take_sent() == []
    pilot.wait(0.1)
    assert STILL in pilot.take_sent()
    pilot.wait(2.0)
    pilot.take_sent()
    pilot.hold(1.0, FULL, DEAD_MAN)  # is back, still pushed: nothing
    pilot.hold(1.0, CENTRED, DEAD_MAN)  # centred, dead-man not released: nothing
    pilot.hold(1.0, FULL)  # released, not centred: nothing
    pilot.hold(1.0, FULL, DEAD_MAN)
    assert pilot.take_sent() == []
    pilot.drive()


def silence_noticed_by_the_next_message(teleop):
    pilot = Pilot(teleop)
    pilot.drive()
    pilot.take_sent()
    pilot.now += 1.0  # the process was stopped: no tick
    pilot.hold(1.0, FULL, DEAD_MAN)
    assert set(pilot.take_sent()) == {STILL}


def identical_messages_while_driving(teleop):
    """B40"""
    pilot = Pilot(teleop)
    pilot.drive()
    pilot.hold(1.5, FULL, DEAD_MAN, alive=False)
    assert teleop.describe(pilot.now)[0]
    pilot.hold(1.0, FULL, DEAD_MAN, alive=False)
    well, text = teleop.describe(pilot.now)
    assert not well and "does not change" in text and pilot.sent[-1] != STILL
    pilot.hold(3.0, FULL, DEAD_MAN, alive=False)
    assert pilot.sent[-ZEROS:] == [STILL] * ZEROS
    pilot.take_sent()
    pilot.hold(20.0, FULL, DEAD_MAN, alive=False)
    pilot.hold(2.0, FULL, DEAD_MAN)  # found again, still pushed
    assert pilot.take_sent() == []
    assert "identical" in teleop.describe(pilot.now)[1]
    pilot.drive()


def not_centred_at_the_start(teleop):
    pilot = Pilot(teleop)
    pilot.hold(1.0, FULL)
    pilot.hold(1.0, FULL, DEAD_MAN)
    assert pilot.take_sent() == []
    pilot.drive()


def dead_man_held_at_the_start(teleop):
    pilot = Pilot(teleop)
    pilot.hold(1.0, CENTRED, DEAD_MAN)
    pilot.hold(1.0, FULL, DEAD_MAN)
    assert pilot.take_sent() == []


def zero_comes_before_motion(teleop):
    """The controller follows a source that was silent only after a zero."""
    pilot = Pilot(teleop)
    pilot.send()
    pilot.hold(0.3, FULL, DEAD_MAN)
    assert pilot.sent[:2] == [STILL, STILL] and pilot.sent[-1] == Velocity(x=0.5)


def one_request_for_each_press(teleop):
    pilot = Pilot(teleop)
    pilot.hold(0.5, CENTRED, WALK)  # held at the start
    pilot.send()
    pilot.hold(0.5, CENTRED, WALK)
    pilot.send()
    pilot.hold(0.5, CENTRED, STAND_UP, WALK)
    assert pilot.pressed == ["walk", "stand_up", "walk"]


def press_during_silence(teleop):
    pilot = Pilot(teleop)
    pilot.send()
    pilot.wait(1.0)
    pilot.send(CENTRED, STAND_UP, WALK, STOP)
    assert pilot.pressed == [EMERGENCY_STOP]


def emergency_stop_also_stops(teleop):
    pilot = Pilot(teleop)
    pilot.drive()
    pilot.take_sent()
    pilot.hold(1.0, FULL, DEAD_MAN, STOP)
    pilot.hold(1.0, FULL, DEAD_MAN)
    assert pilot.pressed == [EMERGENCY_STOP]
    assert pilot.take_sent() == [STILL] * ZEROS


def unusable_messages_count_as_none(teleop):
    """B43"""
    for axes, buttons, found in (
        ((0.0, float("nan"), 0.0, 0.0, 0.0, 0.0), [0] * 21, "found nan on axis 1"),
        ((0.0, float("inf"), 0.0, 0.0, 0.0, 0.0), [0] * 21, "found inf on axis 1"),
        ((0.0,) * 8, [0] * 21, "found 8 axes, allowed: 6"),
        ((0.0,) * 2, [0] * 21, "found 2 axes, allowed: 6"),
        (FULL, [0] * 10, "found 10 buttons, allowed: more than 10"),
        ((), [], "found 0 axes"),
    ):
        pilot = Pilot(type(teleop)(teleop._layout))
        pilot.drive()
        pilot.take_sent()
        for _ in range(40):
            output = pilot.teleop.take(pilot.now, axes, buttons)
            pilot._note(output.velocity)
            pilot.wait(PERIOD)
        assert pilot.take_sent() == [STILL] * ZEROS
        assert found in pilot.teleop.refusal and pilot.teleop.refused == 40


class NoDeadMan(Teleop):
    def _end_driving(self, phase):
        if phase != Phase.READY:
            super()._end_driving(phase)


class NoSilence(Teleop):
    def _watch(self, now):
        pass


class NoChange(Teleop):
    def find_unchanged(self, now):
        return 0.0


class NoCentre(Teleop):
    def _is_centred(self):
        return True


class Levels(Teleop):
    def _find_pressed(self):
        return tuple(n for n, i in self._layout.mode_buttons.items() if self._buttons[i])


class OldReleases(Teleop):
    def _watch(self, now):
        kept = set(self._seen_released)
        super()._watch(now)
        self._seen_released = kept


class TurboDrives(Teleop):
    def _advance(self, now):
        self._buttons = tuple(
            b or (i == DEAD_MAN and self._buttons[TURBO]) for i, b in enumerate(self._buttons)
        )
        super()._advance(now)


class NoRelease(Teleop):
    def _advance(self, now):
        if self.phase == Phase.LOCKED and self._is_centred():
            self.phase = Phase.READY
        super()._advance(now)


class NoLock(Teleop):
    def _lock(self, reason):
        self._end_driving(Phase.READY)


class Gullible(Teleop):
    def _find_problem(self, axes, buttons):
        return ""


class Abrupt(Teleop):
    """Without the zeros at the begin."""

    def _advance(self, now):
        super()._advance(now)
        self._driving_since = -1e9


class OneZero(Teleop):
    def _end_driving(self, phase):
        super()._end_driving(phase)
        self._zeros = min(self._zeros, 1)


RULES = [
    (dead_man_released_with_stick_pushed, NoDeadMan),
    (dead_man_released_with_stick_pushed, OneZero),
    (nothing_before_the_dead_man, TurboDrives),
    (silence_while_driving, NoSilence),
    (silence_while_driving, NoLock),
    (silence_while_driving, NoCentre),
    (silence_while_driving, NoRelease),
    (silence_noticed_by_the_next_message, NoSilence),
    (identical_messages_while_driving, NoChange),
    (identical_messages_while_driving, NoLock),
    (not_centred_at_the_start, NoCentre),
    (dead_man_held_at_the_start, NoRelease),
    (zero_comes_before_motion, Abrupt),
    (one_request_for_each_press, Levels),
    (press_during_silence, OldReleases),
    (emergency_stop_also_stops, NoLock),
    (unusable_messages_count_as_none, Gullible),
]


@pytest.mark.parametrize(
    "scenario", list(dict.fromkeys(rule for rule, _ in RULES)), ids=lambda rule: rule.__name__
)
def test_rule_holds(scenario, layout):
    scenario(Teleop(layout))


@pytest.mark.parametrize(
    "scenario, mutant", RULES, ids=[f"{rule.__name__}-{kind.__name__}" for rule, kind in RULES]
)
def test_without_the_rule_its_test_fails(scenario, mutant, layout):
    with pytest.raises(AssertionError):
        scenario(mutant(layout))


def velocity_of(layout, axes, *held) -> Velocity:
    pilot = Pilot(Teleop(layout))
    pilot.send()
    pilot.hold(0.3, axes, DEAD_MAN, *held)
    return pilot.sent[-1]


@pytest.mark.parametrize(
    "axes, held, expected",
    [
        ((0, 1, 0, 0, 0, 0), (), (0.5, 0.0, 0.0)),
        ((0, -1, 0, 0, 0, 0), (), (-0.5, 0.0, 0.0)),
        ((1, 0, 0, 0, 0, 0), (), (0.0, 0.3, 0.0)),
        ((0, 0, 1, 0, 0, 0), (), (0.0, 0.0, 0.6)),
        ((0, 0, 0, 1, 1, 0), (), (0.0, 0.0, 0.0)),  # not mapped
        ((1, 1, 1, 0, 0, 0), (TURBO,), (1.0, 0.5, 1.0)),
        ((0, 0.1, -0.1, 0, 0, 0), (), (0.0, 0.0, 0.0)),  # the dead zone's edge
        ((0, 0.55, 0, 0, 0, 0), (), (0.25, 0.0, 0.0)),  # (0.55 - 0.1) / 0.9 = 1/2
        ((0, 7.0, -9.0, 0, 0, 0), (), (0.5, 0.0, -0.6)),  # more than full
    ],
)
def test_deflection_to_velocity(layout, axes, held, expected):
    assert velocity_of(layout, axes, *held) == pytest.approx(expected)


def test_velocity_is_continuous_at_the_edge_of_the_dead_zone(layout):
    assert 0.0 < velocity_of(layout, (0, 0.1 + 1e-6, 0, 0, 0, 0)).x < 1e-5


def test_inverted_reverse_turns_the_yaw_rate_while_going_backwards(values):
    layout = read_layout(values | {"inverted_reverse": True})
    assert velocity_of(layout, (0, -1, 1, 0, 0, 0)).yaw_rate == pytest.approx(-0.6)
    assert velocity_of(layout, (0, 1, 1, 0, 0, 0)).yaw_rate == pytest.approx(0.6)


def test_absent_axis_gives_zero(values):
    layout = read_layout(values | {"axis_linear.y": -1})
    assert velocity_of(layout, (1, 1, 1, 0, 0, 0)) == pytest.approx((0.5, 0.0, 0.6))


def test_without_dead_man_a_centred_stick_is_needed_first(values):
    pilot = Pilot(Teleop(read_layout(values | {"require_enable_button": False})))
    pilot.hold(1.0, FULL)
    assert pilot.take_sent() == []
    pilot.send()
    pilot.hold(0.3, FULL)
    assert pilot.sent[-1] == Velocity(x=0.5)


def test_stick_at_rest_with_dead_man_held_is_not_supervised_for_change(layout):
    pilot = Pilot(Teleop(layout))
    pilot.send()
    pilot.hold(30.0, CENTRED, DEAD_MAN, alive=False)
    assert pilot.teleop.phase == Phase.DRIVING
    pilot.hold(0.3, FULL, DEAD_MAN)
    assert pilot.sent[-1] == Velocity(x=0.5)


def test_end_of_the_node_stops_only_what_drives(layout):
    pilot = Pilot(Teleop(layout))
    pilot.send()
    assert pilot.teleop.stop("the end") == []
    pilot.drive()
    assert pilot.teleop.stop("the end") == [STILL] * ZEROS
    assert pilot.teleop.tick(pilot.now) is None


def test_supervision_follows_its_settings(layout):
    settings = replace(layout.settings, silence_timeout=1.0, no_change_timeout=20.0)
    pilot = Pilot(Teleop(replace(layout, settings=settings)))
    pilot.drive()
    pilot.hold(19.0, FULL, DEAD_MAN, alive=False)
    pilot.wait(0.9)
    assert pilot.teleop.phase == Phase.DRIVING
    pilot.wait(0.1)
    assert pilot.teleop.phase == Phase.LOCKED


def test_lead_in_outlasts_a_period_of_the_controller():
    assert core.LEAD_IN > 2 * 0.02  # s, control period of the shipped bundles
