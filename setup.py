"""Builds the compiled room. Everything else is declared in pyproject.toml."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOM = (
    "hashing",
    "batch_header",
    "record_stream",
    "records",
    "record_text",
    "columns",
    "column_input",
    "line_input",
    "batch_builder",
)
# What `Producer.send` does for each record.
SENDING = ("deliveries", "shortcut")

# -fwrapv: numbers out of hostile bytes wrap around as Java's do, instead of being undefined.
COMPILED = [
    Extension(
        f"cordwood.wire.{module}",
        [f"src/cordwood/wire/{module}.py"],
        depends=[f"src/cordwood/wire/{each}.pxd" for each in ROOM],
        extra_compile_args=["-fwrapv"],
    )
    for module in ROOM
] + [
    Extension(
        "cordwood.log.offset_map",
        ["src/cordwood/log/offset_map.py"],
        depends=["src/cordwood/log/offset_map.pxd"],
    ),
    *(
        Extension(
            f"cordwood.client.producer.{module}",
            [f"src/cordwood/client/producer/{module}.py"],
            depends=[f"src/cordwood/client/producer/{each}.pxd" for each in SENDING]
            + [f"src/cordwood/wire/{each}.pxd" for each in ROOM],
        )
        for module in SENDING
    ),
]


class BuildAllOrNothing(build_ext):
    """Without a C compiler the build warns, and the very same .py files run uncompiled: all of them, as they share
    C types with each other. (setuptools' `optional` would leave out single ones.)"""

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except Exception as error:  # noqa: BLE001  # whatever stands for "there is no working compiler"
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            # Nothing to install, and nothing that is of one platform.
            self.extensions = self.distribution.ext_modules = []
            self.warn(f"nothing is compiled, the interpreter takes over: {error}")


class WheelOfWhatWasBuilt(bdist_wheel):
    """Tags the wheel once it is known whether anything was compiled: without that it is for every platform."""

    def run(self) -> None:
        self.run_command("build")
        self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()


setup(
    # The generated C lies beside the build's other leavings: in the packages it would be installed.
    ext_modules=cythonize(COMPILED, build_dir="build/cython", language_level=3),
    cmdclass={"build_ext": BuildAllOrNothing, "bdist_wheel": WheelOfWhatWasBuilt},
)
