"""Unpacks NVRTC's libraries, header and licence from its PyPI wheel into one flat folder."""

import pathlib
import sys
import zipfile


def wanted(name: str) -> bool:
    path = pathlib.PurePosixPath(name)
    if path.name in ("nvrtc.h", "License.txt"):
        return True
    # The .alt pair is a second build of the same compiler; nothing opens it.
    return path.name.startswith("libnvrtc") and ".alt." not in path.name


def main() -> None:
    wheel, target = sys.argv[1], pathlib.Path(sys.argv[2])
    target.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if wanted(name)]
        for name in names:
            (target / pathlib.PurePosixPath(name).name).write_bytes(archive.read(name))
    if not any(target.glob("libnvrtc.so.*")):
        sys.exit(f"unpack_nvrtc: no libnvrtc.so in {wheel}; it holds {names}")


if __name__ == "__main__":
    main()
