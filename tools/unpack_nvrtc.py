"""Unpacks NVRTC's libraries and header, the driver's header or the disassembler, with their licence, from a PyPI wheel into one flat folder."""

import pathlib
import sys
import zipfile


def wanted(name: str) -> bool:
    path = pathlib.PurePosixPath(name)
    if path.name in ("nvrtc.h", "cuda.h", "nvdisasm", "License.txt"):
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
    if (target / "nvdisasm").exists():
        (target / "nvdisasm").chmod(0o755)
    elif not any(target.glob("libnvrtc.so.*")) and not (target / "cuda.h").exists():
        sys.exit(f"unpack_nvrtc: neither libnvrtc.so nor cuda.h nor nvdisasm in {wheel}; it holds {names}")


if __name__ == "__main__":
    main()
