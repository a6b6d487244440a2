from glob import glob

from setuptools import find_packages, setup

package = "policy_controller"

setup(
    name=package,
    version="0.1.0",
    description="Runs a policy bundle on ANYmal behind a safety filter, and verifies it",
    license="Apache-2.0",
    maintainer="Footlight maintainers",
    maintainer_email="maintainers@users.noreply.github.com",
    packages=find_packages(exclude=["test"]),
    package_data={f"{package}.verification": ["*.css"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package}"]),
        (f"share/{package}", ["package.xml"]),
        (f"share/{package}/launch", glob("launch/*.launch.py")),
        *(
            (f"share/{package}/config", [f"config/{name}.yaml"])
            for name in ("controller", "recorder", "view")
        ),
        (f"share/{package}/config/robot", glob("config/robot/*")),
        (f"share/{package}/config/scenarios", glob("config/scenarios/*")),
        (f"share/{package}/config/teleop", glob("config/teleop/*")),
        *((f"share/{package}/{path}", glob(f"{path}/*")) for path in glob("config/bundles/*")),
    ],
    install_requires=["setuptools"],
    extras_require={"test": ["pytest"]},
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "node = policy_controller.node:main",
            "record = policy_controller.record:main",
            "bundle = policy_controller.bundle:main",
            "bag = policy_controller.bag.__main__:main",
            "demo = policy_controller.verification.demo:main",
            "verify = policy_controller.verification.verify:main",
            "certify = policy_controller.verification.certify:main",
            "search = policy_controller.verification.search:main",
            "compare = policy_controller.verification.compare:main",
            "teleop = policy_controller.teleop.node:main",
            "view = policy_controller.view.node:main",
            "replay = policy_controller.view.replay:main",
            "play = policy_controller.play:main",
            "joystick = policy_controller.teleop.joystick:main",
        ],
    },
)
