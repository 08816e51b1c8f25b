"""The build backend of the package (PEP 517): a wheel is the Python files and libs2.

usage: backend.py FOLDER [sdist]     writes the wheel there, or the archive of its sources, and prints its path
"""
import base64
import gzip
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TREE = "tree"  # of an archive of sources: what the library is built from
TOP = HERE / TREE if (HERE / TREE).is_dir() else HERE.parent
UNBUILT = re.compile(r"(docs|experiments|adapters)/|python/(?!\w+\.c$)|tests/(?!lint/|\w+\.mk$|setup\.sh$)")  # of the tree, what no library needs


def project():
    """The few fields of pyproject.toml that a wheel repeats; Python 3.9 has no reader of its own."""
    text = (HERE / "pyproject.toml").read_text()
    fields = dict(re.findall(r'^([a-z-]+) = "(.*)"$', text, re.M))
    extras = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    fields["dependencies"] = re.findall(r'"([^"]+)"', re.search(r"^dependencies = \[(.*?)\]", text, re.M).group(1))
    fields["extras"] = {name: re.findall(r'"([^"]+)"', listed) for name, listed in re.findall(r"^(\w+) = \[(.*?)\]", extras, re.M)}
    return fields


def metadata(fields):
    lines = ["Metadata-Version: 2.1", f"Name: {fields['name']}", f"Version: {fields['version']}", f"Summary: {fields['description']}",
             f"Requires-Python: {fields['requires-python']}"]
    lines += [f"Requires-Dist: {one}" for one in fields["dependencies"]]
    for extra, listed in fields["extras"].items():
        lines += [f"Provides-Extra: {extra}"] + [f'Requires-Dist: {one}; extra == "{extra}"' for one in listed]
    return "\n".join(lines) + "\n"


def library():
    """libs2, built where it is not; S2_WHEEL_LIBRARY names one that is. Beside it lies what was compiled for Python, where there is Python.h."""
    if os.environ.get("S2_WHEEL_LIBRARY"):
        return pathlib.Path(os.environ["S2_WHEEL_LIBRARY"])
    for tool in ("make", os.environ.get("CC", "gcc").split()[0]):
        if shutil.which(tool) is None:
            raise SystemExit(f"libs2 is built with make and gcc, and {tool} is not here; a wheel installs without them")
    subprocess.run(["make", "-s", f"-j{os.cpu_count()}", "wheel-parts", f"PYTHON={sys.executable}"], cwd=TOP, check=True, stdout=sys.stderr)
    where = subprocess.run(["make", "-s", "library-path"], cwd=TOP, check=True, capture_output=True, text=True).stdout
    return TOP / where.strip()


def platform_tag(path):
    """By the youngest glibc symbol that the library asks for: pip refuses a machine that lacks it."""
    versions = [tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", path.read_bytes())]
    machine = sysconfig.get_platform().rsplit("-", 1)[1].replace(".", "_")
    return "manylinux_{}_{}_{}".format(*max(versions), machine)


def add(wheel, rows, name, content):
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # the same input, the same bytes
    info.external_attr = 0o644 << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(info, content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    rows.append(f"{name},sha256={digest},{len(content)}")


def licences():
    """Of what Debian's archives put into the library, as Debian tells them; nothing on a system that has none of these files."""
    for package in ("libjansson-dev", "libyaml-dev", "libmd-dev"):
        path = pathlib.Path("/usr/share/doc", package, "copyright")
        if path.exists():
            yield f"licenses/{package}.txt", path.read_bytes()


def write_wheel(folder, files, tag):
    """files: (name, bytes) of what is installed."""
    fields = project()
    stem = f"{fields['name'].replace('-', '_')}-{fields['version']}"
    path = pathlib.Path(folder, f"{stem}-{tag}.whl")
    rows = []
    part = path.with_suffix(f".{os.getpid()}")  # a wheel is whole or not there
    with zipfile.ZipFile(part, "w") as wheel:
        for name, content in files:
            add(wheel, rows, name, content)
        about = f"Wheel-Version: 1.0\nGenerator: s2\nRoot-Is-Purelib: false\nTag: {tag}\n"
        add(wheel, rows, f"{stem}.dist-info/METADATA", metadata(fields).encode())
        add(wheel, rows, f"{stem}.dist-info/WHEEL", about.encode())
        for name, content in licences():
            add(wheel, rows, f"{stem}.dist-info/{name}", content)
        record = f"{stem}.dist-info/RECORD"
        wheel.writestr(zipfile.ZipInfo(record), "\n".join([*rows, f"{record},,"]) + "\n")
    part.replace(path)
    return path.name


def stripped(path):
    """Without debugging information, where there is a strip to take it out."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, path.name)
        done = shutil.which("strip") and subprocess.run(["strip", "--strip-unneeded", "-o", str(out), str(path)]).returncode == 0
        return (out if done else path).read_bytes()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    built = library()
    files = [(f"s2/{path.name}", path.read_bytes()) for path in sorted((HERE / "s2").iterdir()) if path.suffix == ".py"
             or path.name == "py.typed"]
    files += [(f"s2/{path.name}", stripped(path)) for path in (built, built.with_name("_again.abi3.so")) if path.exists()]
    return write_wheel(wheel_directory, files, f"py3-none-{platform_tag(built)}")


def sources():
    """(name in the archive, path) of what a wheel is built from: what git lists, or all of a tree that git does not know."""
    if (TOP / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]
    else:
        listed = sorted(str(path.relative_to(TOP)) for path in TOP.rglob("*") if path.is_file() and path.relative_to(TOP).parts[0] != "build")
    for path in (HERE / "pyproject.toml", HERE / "backend.py", *sorted((HERE / "s2").glob("*.py")), HERE / "s2/py.typed"):
        yield str(path.relative_to(HERE)), path
    for name in listed:
        if not UNBUILT.match(name):
            yield f"{TREE}/{name}", TOP / name


def build_sdist(sdist_directory, config_settings=None):
    fields = project()
    stem = f"{fields['name'].replace('-', '_')}-{fields['version']}"
    path = pathlib.Path(sdist_directory, f"{stem}.tar.gz")
    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content, mode in (("PKG-INFO", metadata(fields).encode(), 0o644), *((name, at.read_bytes(), at.stat().st_mode & 0o777) for name, at in sources())):
            info = tarfile.TarInfo(f"{stem}/{name}")
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))
    return path.name


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(pathlib.Path(sys.argv[1], (build_sdist if sys.argv[2:] == ["sdist"] else build_wheel)(sys.argv[1])))
