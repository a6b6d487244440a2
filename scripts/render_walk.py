"""Draws a recorded run as a strip of pictures: `python scripts/render_walk.py report/recording.npz
docs/images/walk.png`.

The robot is the collision primitives of its URDF, posed by the recorded states and rendered by
MuJoCo (set MUJOCO_GL=osmesa or egl where there is no display). Nothing is simulated here.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import mujoco
import numpy as np

from policy_controller.state import JOINT_NAMES

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  the backend comes first

WIDTH, HEIGHT = 620, 560
SHELL, LEG, FOOT = (0.78, 0.16, 0.13, 1.0), (0.20, 0.22, 0.26, 1.0), (0.05, 0.05, 0.06, 1.0)


def build_scene(urdf: Path) -> mujoco.MjModel:
    """The robot with a free base on a floor."""
    spec = mujoco.MjSpec.from_file(str(urdf))
    spec.compiler.fusestatic, spec.compiler.discardvisual = False, False
    base = spec.worldbody.bodies[0]
    base.add_freejoint()
    for body in spec.bodies:
        for geom in body.geoms:
            foot = body.name.endswith("FOOT")
            geom.rgba = FOOT if foot else LEG if body.name[:3] in _LEG_PREFIXES else SHELL
    sky = spec.add_texture()
    sky.name, sky.type = "sky", mujoco.mjtTexture.mjTEXTURE_SKYBOX
    sky.builtin = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT
    sky.rgb1, sky.rgb2, sky.width, sky.height = (0.80, 0.87, 0.95), (1.0,) * 3, 64, 384
    floor = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=(40, 40, 0.1))
    floor.rgba = (0.88, 0.89, 0.91, 1.0)
    light = spec.worldbody.add_light(pos=(1.0, -3.0, 5.0), dir=(-0.2, 0.6, -1.0))
    light.diffuse, light.castshadow = (0.75,) * 3, True
    spec.visual.headlight.ambient, spec.visual.headlight.diffuse = (0.45,) * 3, (0.35,) * 3
    visual = getattr(spec.visual, "global")
    visual.offwidth, visual.offheight = WIDTH, HEIGHT
    return spec.compile()


_LEG_PREFIXES = ("LF_", "RF_", "LH_", "RH_")


def render(model: mujoco.MjModel, recording: np.lib.npyio.NpzFile, rows: np.ndarray) -> list:
    """One picture [HEIGHT, WIDTH, 3] for each row of the recorded states."""
    data = mujoco.MjData(model)
    joints = [model.joint(name).qposadr[0] for name in JOINT_NAMES]
    camera = mujoco.MjvCamera()
    camera.azimuth, camera.elevation, camera.distance = 118.0, -12.0, 1.9
    pictures = []
    with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
        for row in rows:
            data.qpos[:3] = recording["state.base_position"][row]
            data.qpos[3:7] = np.roll(recording["state.base_orientation"][row], 1)  # wxyz here
            data.qpos[joints] = recording["state.joint_position"][row]
            mujoco.mj_forward(model, data)
            camera.lookat[:] = data.qpos[0], data.qpos[1], 0.36
            renderer.update_scene(data, camera)
            pictures.append(renderer.render())
    return pictures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recording", type=Path, help="recording.npz of a report")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--urdf", type=Path, default=Path("config/robot/anymal_d.urdf"))
    parser.add_argument("--start", type=float, default=13.0, help="s after the first state")
    parser.add_argument("--step", type=float, default=0.1, help="s between two pictures")
    parser.add_argument("--count", type=int, default=6)
    options = parser.parse_args()
    with np.load(options.recording) as recording:
        seconds = (recording["state.stamp"] - recording["state.stamp"][0]) / 1e9
        times = options.start + options.step * np.arange(options.count)
        if times[-1] > seconds[-1]:
            parser.error(f"the recording ends at {seconds[-1]:.1f} s, pictures up to {times[-1]} s")
        pictures = render(build_scene(options.urdf), recording, np.searchsorted(seconds, times))
    figure, axes = plt.subplots(1, options.count, figsize=(2.4 * options.count, 2.4))
    for ax, picture, time in zip(axes, pictures, times, strict=True):
        ax.imshow(picture)
        ax.text(20, 45, f"{1e3 * (time - times[0]):.0f} ms", fontsize=9)
        ax.axis("off")
    figure.tight_layout(pad=0.2)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.picture, dpi=110)


if __name__ == "__main__":
    main()
