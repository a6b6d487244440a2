"""What is in a recording, and how to complete one whose process was killed.

python -m policy_controller.bag info FILE_OR_FOLDER
python -m policy_controller.bag recover FILE_OR_FOLDER NEW_FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from policy_controller.bag.reader import BagReader
from policy_controller.bag.writer import BagWriter


def main(arguments: list[str] | None = None) -> int:
    """Exit status 1, with one line, if the recording cannot be read or the new one written."""
    parser = argparse.ArgumentParser(
        prog="python -m policy_controller.bag",
        description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    commands = parser.add_subparsers(dest="action", required=True)
    info = commands.add_parser("info", help="messages per topic, duration, unfinished files")
    recover = commands.add_parser("recover", help="write all that can be read into a new file")
    for command in (info, recover):
        command.add_argument("path", type=Path, help="MCAP file, or a folder of one recording")
    recover.add_argument("folder", type=Path, help="folder for the new file")
    options = parser.parse_args(arguments)
    counts: Counter[tuple[str, str]] = Counter()
    first = last = None
    try:
        reader, writer = BagReader(options.path), None
        if options.action == "recover":
            writer = BagWriter(options.folder, options.path.stem, sys.maxsize, 1, 0)
        for message in reader.read():
            key = (message.topic, message.kind)
            if writer:
                if key not in counts:
                    writer.add_topic(*key)
                writer.write(message.topic, message.data, message.log_ns, message.publish_ns)
            counts[key] += 1
            first, last = first or message.log_ns, message.log_ns
        if writer:
            writer.close()
            print(f"written: {writer.files[0]}")
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    for (topic, kind), count in sorted(counts.items()):
        print(f"{count:9d}  {topic}  {kind}")
    print(f"{sum(counts.values()):9d}  in {((last or 0) - (first or 0)) / 1e9:.3f} s")
    for file in reader.unfinished:
        print(f"unfinished: {file}; the last chunk may be missing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
