"""What the documentation points at is there, and the commands in it can be given."""

import ast
import os
import re
import shlex
import subprocess
import sys

import pytest
from packages import ROOT, SOURCE, read_console_scripts

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing


def test_readme_names_the_commands_of_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = set(re.findall(r"\bmake ([a-z]+)\b", (ROOT / "README.md").read_text()))
    assert {"demo", "test"} <= commands <= targets


OWN = ("diffsim_trainer", "policy_controller", "anymal_bridge")


def read_commands(page) -> list[list[str]]:
    """The words of each command in code, comments left out; long lines may go on after a `\\`."""
    text = re.sub(r"\\\n\s*", " ", page.read_text())
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    lines += re.findall(r"`([^`\n]+)`", text)
    commands = []
    for line in lines:
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a drawing or prose
            continue
        least = {"python": 2, "torchrun": 2, "make": 2, "ros2": 4}  # words; fewer are prose
        if words and len(words) >= least.get(words[0], len(words) + 1):
            commands.append(words)
    return commands


COMMANDS = [
    pytest.param(words, id=f"{page.stem}: {' '.join(words)}"[:90])
    for page in PAGES
    for words in read_commands(page)
]


def read_module(name: str) -> str:
    """The source of one of our modules that is run with -m, and of where its options are shared."""
    path = SOURCE / name.split(".")[0] / name.replace(".", "/")
    path = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    assert path.is_file(), f"no module {name}"
    source = path.read_text()
    assert '__name__ == "__main__"' in source, f"{name} cannot be run with -m"
    shared = path.parent / "options.py"
    return source + (shared.read_text() if "make_parser" in source else "")


@pytest.mark.parametrize("words", COMMANDS)
def test_command_can_be_given(words):
    if words[0] == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        named = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
        assert set(named) <= targets
    elif words[:2] == ["ros2", "launch"]:
        package, file, *arguments = words[2:]
        assert package in OWN
        tree = ast.parse((ROOT / "launch" / file).read_text())
        declared = {
            ast.literal_eval(node.args[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "DeclareLaunchArgument"
        }
        assert {word.split(":=")[0] for word in arguments if ":=" in word} <= declared
    elif words[:2] == ["ros2", "run"]:
        assert words[3] in read_console_scripts(words[2])
    elif "-m" in words:
        module, arguments = words[words.index("-m") + 1], words[words.index("-m") + 2 :]
        if module.split(".")[0] not in OWN:
            return
        source = read_module(module)
        if "--ros-args" in arguments:
            files = [a for a, b in zip(arguments[1:], arguments, strict=False) if "file" in b]
            assert all((ROOT / file).is_file() for file in files)
            return
        unknown = [
            word for word in arguments if word.startswith("--") and f'"{word}"' not in source
        ]
        assert not unknown


def test_commands_are_found():
    """If the search found none, the tests above would prove nothing."""
    assert len(COMMANDS) > 20
    assert {"python", "ros2", "make"} <= {parameter.values[0][0] for parameter in COMMANDS}


def test_site_builds_without_a_broken_link(tmp_path):
    """mkdocs.yml is strict: a page that is missing, unlisted or wrongly linked is an error."""
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)]
    result = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "tutorial" / "index.html").is_file()


def test_broken_link_fails_the_site(tmp_path):
    pytest.importorskip("material")
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text(
        re.sub(r"(?ms)^nav:.*", "", (ROOT / "mkdocs.yml").read_text())
    )
    (tmp_path / "docs" / "index.md").write_text("[gone](gone.md)")
    command = [sys.executable, "-m", "mkdocs", "build"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode != 0
