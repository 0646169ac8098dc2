"""A program of its own: pack a folder into one file, and be killed by the kernel where it grows over its quota."""

import resource
import signal
import sys
import tarfile


def main(folder: str, target: str, quota: int) -> None:
    """Pack `folder` into `target`, which may have `quota` bytes."""
    # Python ignores this signal by default and would get an error in place of the kernel's verdict.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (quota, quota))
    with tarfile.open(target, "w") as archive:
        archive.add(folder, arcname=".")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
