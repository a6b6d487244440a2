"""A person at the page, in headless Chromium: stand up, walk by slider, emergency stop, FAULT; with
the simulated robot and the controller, as `python -m policy_controller.play` starts them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

rclpy = pytest.importorskip("rclpy")
pytest.importorskip("viser")
playwright = pytest.importorskip("playwright.sync_api")

from domain_coordinator import domain_id  # noqa: E402

ROOT = Path(__file__).parents[5]
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
PATIENCE = 120e3  # ms, on a busy machine
SCREENSHOT = os.environ.get("VIEW_SCREENSHOT")  # `make screenshots` asks for the picture of docs

pytestmark = [
    pytest.mark.ros,
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium found; apt install chromium"),
]


@pytest.fixture
def address(tmp_path):
    """The address of a page whose robot, controller and view run."""
    command = [sys.executable, "-m", "policy_controller.play", "--port", "0"]
    command += ["--bundle", "config/bundles/anymal_d", "--logs", str(tmp_path)]
    command += ["--silence", "1.0"]  # drawing without a graphics card, on a busy machine
    with domain_id() as domain:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"ROS_DOMAIN_ID": str(domain)},
        )
        try:
            line = process.stdout.readline()
            assert line.startswith("view: "), line
            yield line.split()[1]
        finally:
            process.send_signal(signal.SIGINT)
            status = process.wait(60.0)
        assert status == 0


@pytest.fixture
def page(address):
    """The page in a browser."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        )
        # Without a graphics card drawing is slow, and a page that is busy drawing is a silent one.
        size = {"width": 1280, "height": 800} if SCREENSHOT else {"width": 640, "height": 480}
        page = browser.new_page(viewport=size)
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        yield page
        browser.close()


def press(page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def wait_for_state(page, name: str) -> None:
    page.get_by_text(name, exact=True).first.wait_for()


def walks(page, lowest: float) -> bool:
    """Whether the robot gets that fast [m/s] while the dead-man is held; not if the page is too
    slow to repeat in time that it is, whereupon the robot stops as it should."""
    button = page.get_by_role("button", name="Hold to drive")
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    try:
        page.wait_for_function(
            "lowest => Number((document.body.innerText.match(/forward ([+-][0-9.]+) m/) || [])[1])"
            " > lowest",
            arg=lowest,
            timeout=15e3,
        )
    except playwright.TimeoutError:
        page.mouse.up()
        return False
    return True


def set_speed(page, steps: int) -> None:
    slider = page.get_by_role("slider").first
    slider.focus()
    for _ in range(steps):
        page.keyboard.press("ArrowRight")


def test_stand_walk_by_slider_stop(page):
    wait_for_state(page, "PASSIVE")
    press(page, "Walk")  # not from here; the controller's words are shown
    page.get_by_text(re.compile("walk: refused: ")).wait_for()
    press(page, "Stand up (ends walking, too)")
    wait_for_state(page, "STAND")
    press(page, "Walk")
    wait_for_state(page, "WALK")
    for _ in range(8):
        set_speed(page, 8)
        if walks(page, 0.1):
            break
        press(page, "Centre the sliders")
    else:
        pytest.fail("the robot did not walk")
    if SCREENSHOT:
        page.screenshot(path=SCREENSHOT)
    page.mouse.up()
    page.get_by_role("button", name=re.compile("EMERGENCY STOP")).click()
    wait_for_state(page, "FAULT")
    page.get_by_text(re.compile("EMERGENCY_STOP: called by the operator")).wait_for()
