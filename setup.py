"""Builds the compiled modules. Everything else is declared in pyproject.toml.

With CORDWOOD_PURE=1 in the environment nothing is compiled: the wheel is pure Python.
"""

import base64
import hashlib
import os
import zipfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

PURE = os.environ.get("CORDWOOD_PURE") == "1"

WIRE = (
    "hashing",
    "batch_header",
    "record_stream",
    "records",
    "record_checks",
    "record_text",
    "columns",
    "column_input",
    "line_input",
    "batch_builder",
)
# The per-record path of `Producer.send`.
SENDING = ("deliveries", "shortcut")

# Values of registered schemas to columns.
DECODING = ("cursor", "builders", "steps", "avro_steps", "protobuf_steps", "json_steps")

# -fwrapv: integer overflow on malicious input wraps around as in Java, instead of being undefined.
COMPILED = [
    Extension(
        f"cordwood.wire.{module}",
        [f"src/cordwood/wire/{module}.py"],
        depends=[f"src/cordwood/wire/{each}.pxd" for each in WIRE],
        extra_compile_args=["-fwrapv"],
    )
    for module in WIRE
] + [
    Extension(
        "cordwood.log.cleaning.offset_map",
        ["src/cordwood/log/cleaning/offset_map.py"],
        depends=["src/cordwood/log/cleaning/offset_map.pxd"],
    ),
    Extension(
        "cordwood.registry.rows.row_encoder",
        ["src/cordwood/registry/rows/row_encoder.py"],
        depends=["src/cordwood/registry/rows/row_encoder.pxd"] + [f"src/cordwood/wire/{each}.pxd" for each in WIRE],
        extra_compile_args=["-fwrapv"],
    ),
    *(
        Extension(
            f"cordwood.client.producer.{module}",
            [f"src/cordwood/client/producer/{module}.py"],
            depends=[f"src/cordwood/client/producer/{each}.pxd" for each in SENDING]
            + [f"src/cordwood/wire/{each}.pxd" for each in WIRE],
        )
        for module in SENDING
    ),
    *(
        Extension(
            f"cordwood.registry.columns.{module}",
            [f"src/cordwood/registry/columns/{module}.py"],
            depends=[f"src/cordwood/registry/columns/{each}.pxd" for each in DECODING]
            + [f"src/cordwood/wire/{each}.pxd" for each in WIRE],
            extra_compile_args=["-fwrapv"],
        )
        for module in DECODING
    ),
]


class BuildAllOrNothing(build_ext):
    """Falls back to pure Python, with a warning, if there is no working C compiler. It is all or nothing because the
    modules share C types; setuptools' `optional` would skip single ones."""

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except Exception as error:  # noqa: BLE001 - compilers fail in many ways
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            # Nothing to install, and nothing platform-specific.
            self.extensions = self.distribution.ext_modules = []
            self.warn(f"no working C compiler; building pure Python instead: {error}")


# Python runs this line at its start: from then on an import of pyspark makes the running interpreter Spark's default,
# as `import cordwood.spark` does. Without it a program that is started as .venv/bin/python, with the environment not
# activated, has Spark ask the first python3 of the PATH for data sources, which has never heard of ours. Nothing
# happens in a program that does not import pyspark, or where the user has chosen an interpreter. It needs nothing but
# the standard library, so that it cannot fail when the package has been removed by hand.
START_HOOK_FILE = "cordwood-pyspark-python.pth"
START_HOOK = (
    "import os, sys; sys.meta_path.insert(0, type('CordwoodPysparkPython', (), {'find_spec': staticmethod("
    "lambda name, path=None, target=None, os=os, sys=sys: (name == 'pyspark' and sys.executable "
    "and 'PYSPARK_PYTHON' not in os.environ and os.environ.setdefault('PYSPARK_DRIVER_PYTHON', sys.executable), "
    "None)[1])}))\n"
)


class BuildWithStartHook(build_py):
    """Puts the hook beside the packages: from the root of a wheel it gets into site-packages."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            Path(self.build_lib).mkdir(parents=True, exist_ok=True)
            (Path(self.build_lib) / START_HOOK_FILE).write_text(START_HOOK)


class EditableWithStartHook(editable_wheel):
    """An editable wheel holds no files of ours: the hook is added to the finished one, and to its RECORD."""

    def run(self) -> None:
        super().run()
        for wheel in Path(self.dist_dir).glob("cordwood-*.editable-*.whl"):
            add_to_wheel(wheel, START_HOOK_FILE, START_HOOK.encode())


def add_to_wheel(wheel: Path, name: str, content: bytes) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    if any(info.filename == name for info, _ in members):
        return
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
        for info, data in members:
            is_record = info.filename.endswith(".dist-info/RECORD")
            archive.writestr(info, data + f"{name},sha256={digest},{len(content)}\n".encode() if is_record else data)


class TaggedWheel(bdist_wheel):
    """Tags the wheel after the build, when it is known whether it is platform-specific."""

    def run(self) -> None:
        self.run_command("build")
        self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()


setup(
    # The generated C goes into the build directory: inside the packages it would be installed.
    ext_modules=[] if PURE else cythonize(COMPILED, build_dir="build/cython", language_level=3),
    cmdclass={
        "bdist_wheel": TaggedWheel,
        "build_ext": BuildAllOrNothing,
        "build_py": BuildWithStartHook,
        "editable_wheel": EditableWithStartHook,
    },
)
