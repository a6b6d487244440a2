"""The browser as a joystick, with the supervision of the real one: events in, velocities out."""

import pytest

pytest.importorskip("viser")

from policy_controller.fields import RefusedError  # noqa: E402
from policy_controller.teleop.core import Phase, Teleop, Velocity  # noqa: E402
from policy_controller.view.stick import LOST, BrowserStick, make_layout  # noqa: E402

SPEEDS = (0.5, 0.3, 0.6)
TICK = 0.02


class Page:
    """A stick, the teleoperation behind it, and a clock."""

    def __init__(self):
        self.stick = BrowserStick()
        self.teleop = Teleop(make_layout(SPEEDS, 0.25, 20.0, 30.0, "/policy_controller"))
        self.now, self.sent, self.requests = 100.0, [], []

    def run(self, seconds: float, hold: int | None = None) -> list[Velocity]:
        """Let time go on, browser `hold` holding the dead-man at 20 Hz; what was sent."""
        before = len(self.sent)
        for tick in range(round(seconds / TICK)):
            self.now += TICK
            if hold is not None and tick % 2 == 0:
                self.stick.hold(self.now, hold)
            for sample in self.stick.take_samples(self.now):
                output = self.teleop.take(sample.time, sample.axes, sample.buttons)
                self.sent += [output.velocity] if output.velocity else []
                self.requests += output.requests
            velocity = self.teleop.tick(self.now)
            self.sent += [velocity] if velocity else []
        return self.sent[before:]


@pytest.fixture
def page():
    """A page with browser 1 on it, its slider at full speed ahead."""
    page = Page()
    page.stick.connect(page.now, 1)
    page.run(0.1)
    page.stick.move(page.now, 1, "x", 1.0)
    return page


def test_slider_alone_sends_nothing(page):
    assert page.run(1.0) == [] and page.teleop.phase is Phase.READY


def test_held_dead_man_drives_after_a_zero(page):
    sent = page.run(1.0, hold=1)
    assert sent[0] == Velocity() and sent[-1] == Velocity(0.5, 0.0, 0.0)


def test_release_sends_zeros_at_once_and_then_nothing(page):
    page.run(1.0, hold=1)
    page.stick.release(page.now, 1)
    assert page.run(1.0) == [Velocity()] * 5


def test_frozen_browser_stops_within_the_timeout_and_locks(page):
    page.run(1.0, hold=1)
    assert page.run(0.2) == []
    assert page.run(0.5) == [Velocity()] * 5 and page.teleop.phase is Phase.LOCKED
    assert page.run(1.0, hold=1) == []  # goes on holding as if nothing had been
    page.run(2 * LOST)
    assert page.run(1.0, hold=1) == []  # the slider was not centred
    page.run(2 * LOST)
    page.stick.move(page.now, 1, "x", 0.0)
    page.run(0.1)
    page.stick.move(page.now, 1, "x", 1.0)
    assert page.run(1.0, hold=1)[-1] == Velocity(0.5, 0.0, 0.0)


def test_late_burst_of_a_stalled_connection_does_not_drive(page):
    page.run(1.0, hold=1)
    page.run(1.5)
    for _ in range(30):
        page.stick.hold(page.now, 1)
    page.stick.release(page.now, 1)
    assert page.run(1.0) == []


def test_closed_page_stops_at_once(page):
    page.run(1.0, hold=1)
    page.stick.disconnect(page.now, 1)
    assert page.run(TICK)[0] == Velocity()


def test_second_browser_cannot_drive_along_nor_keep_a_frozen_one_alive(page):
    page.stick.connect(page.now, 2)
    page.run(1.0, hold=1)
    for _ in range(20):  # 1 is frozen
        page.stick.hold(page.now, 2)
        page.run(0.04)
    assert page.teleop.phase is Phase.LOCKED
    page.stick.press(page.now, 2, "walk")
    page.run(0.1)
    assert page.sent[-1] == Velocity()


def test_emergency_stop_of_another_browser_ends_the_driving(page):
    page.stick.connect(page.now, 2)
    page.run(1.0, hold=1)
    page.stick.press(page.now, 2, "emergency_stop")
    sent = page.run(1.0, hold=1)
    assert page.requests == ["emergency_stop"] and set(sent) == {Velocity()}


@pytest.mark.parametrize("mode", ["stand_up", "walk", "lie_down", "clear_fault", "emergency_stop"])
def test_each_press_is_one_request(page, mode):
    for _ in range(2):
        page.stick.press(page.now, 1, mode)
        page.run(0.2)
    assert page.requests == [mode, mode]


def test_no_browser_no_word():
    page = Page()
    assert page.run(1.0) == [] and page.teleop.phase is Phase.LOCKED


def test_wrong_speed_is_refused():
    with pytest.raises(RefusedError, match="scale_linear.x"):
        make_layout((9.0, 0.3, 0.6), 0.25, 20.0, 30.0, "/policy_controller")
