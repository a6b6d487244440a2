"""Sign a certificate for a bundle whose complete verification has passed.

    python -m policy_controller.verification.certify --report report/verify --bundle BUNDLE

Exit status: 0 written, 1 refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from policy_controller.bundle import load_bundle
from policy_controller.certificate import (
    CertificateError,
    default_path,
    describe_subject,
    load_or_create_key,
    read_controller_settings,
    write_certificate,
)
from policy_controller.fields import RefusedError
from policy_controller.verification.options import find_robot, make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    options = _parse(arguments)
    try:
        path = certify(
            options.report, options.bundle, options.robot, options.suite, options.settings
        )
    except (RefusedError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"certificate: {path}")
    return 0


def certify(report: Path, bundle: Path, robot: Path | None, suite: Path, settings: Path) -> Path:
    """Write the certificate; returns its path.

    Raises CertificateError if the report has not passed, is not complete, or is about something
    else than the files are now."""
    robot = find_robot(robot, load_bundle(bundle))
    content = json.loads((report / "report.json").read_text())
    subject = describe_subject(bundle, robot, suite, *read_controller_settings(settings))
    certified, problems = content["provenance"]["subject"], []
    if content["passed"] is not True:
        problems.append(f"passed: found {content['passed']}, allowed: true; see the report")
    if content["provenance"]["complete"] is not True:
        problems.append("complete: found false, allowed: true; verify without --only")
    problems += [
        f"{name}: changed since it was verified; verify again"
        for name, value in asdict(subject).items()
        if certified[name] != value
    ]
    if problems:
        raise CertificateError(f"report {report}", problems)
    margins = [
        {"limit": row["check"]["key"], "margin": row["check"]["margin"], "case": row["case"]}
        for row in content["margins"]
    ]
    results = {"passed": True, "cases": content["cases"], "margins": margins}
    path, issued = default_path(bundle), datetime.now().astimezone().isoformat(timespec="seconds")
    write_certificate(path, subject, results, issued, load_or_create_key())
    return path


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument(
        "--report",
        type=Path,
        default=Path("report/verify"),
        help="folder of the report of `verify`",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
