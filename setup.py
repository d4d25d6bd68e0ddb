"""Compiles the record kernel where there is a C compiler; without one the same source is interpreted."""

import os
import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).parent))  # a build does not look here by itself

from lacuna.logstore.records.build_kernel import CORES, SOURCES, extensions, has_compiler

#: pip asks for the metadata first, and again; an editable install runs what lies beside the sources, where
#: `make setup` compiles it.
is_built = bool({"bdist_wheel", "build", "build_ext", "install"} & set(sys.argv))
sources = {module: os.path.relpath(source) for module, source in SOURCES.items()}
modules = extensions(sources, "build") if is_built and has_compiler() else []
for module in modules:
    module.optional = True  # cythonize() makes new ones and leaves this out

setup(ext_modules=modules, options={"build_ext": {"parallel": CORES}})
