from glob import glob

from setuptools import find_packages, setup

package = "anymal_bridge"
config = ("anymal.foxglove.json", "anymal.rviz", "bridge.yaml", "sim.yaml")

setup(
    name=package,
    version="0.1.0",
    description="The far side of the joint command: bridge to ANYmal, and a simulated robot",
    license="Apache-2.0",
    maintainer="Footlight maintainers",
    maintainer_email="maintainers@users.noreply.github.com",
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package}"]),
        (f"share/{package}", ["package.xml"]),
        (f"share/{package}/config", [f"config/{file}" for file in config]),
        (f"share/{package}/config/robot", glob("config/robot/*")),
    ],
    install_requires=["setuptools"],
    extras_require={"test": ["pytest"]},
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "bridge_node = anymal_bridge.bridge_node:main",
            "sim_node = anymal_bridge.sim_node:main",
        ],
    },
)
