from glob import glob

from setuptools import find_packages, setup

package = "diffsim_trainer"

setup(
    name=package,
    version="0.1.0",
    description="Differentiable simulation of legged robots, and policy training through contact",
    license="Apache-2.0",
    maintainer="Footlight maintainers",
    maintainer_email="maintainers@users.noreply.github.com",
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package}"]),
        (f"share/{package}", ["package.xml"]),
        (f"share/{package}/config/train", glob("config/train/*")),
        (f"share/{package}/config/robot", glob("config/robot/*")),
    ],
    install_requires=["setuptools"],
    extras_require={"test": ["pytest"]},
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "train = diffsim_trainer.train:main",
            "evaluate = diffsim_trainer.evaluate:main",
            "export = diffsim_trainer.export:main",
            "acceptance = diffsim_trainer.acceptance:main",
            "experiments = diffsim_trainer.experiments.__main__:main",
        ],
    },
)
