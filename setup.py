"""Builds the record kernel where a C compiler is present; without one the same source is interpreted."""

from Cython.Build import cythonize
from setuptools import Extension, setup

MODULES = (
    "logstore.records.kernel",
    "logstore.records.rewriting",
    "logstore.records.pieces",
    "logstore.records.columns",
    "logstore.records.encoding",
    "logstore.records.legacy.kernel",
    "logstore.objects.reading",
)
KERNEL = [
    Extension(module, [module.replace(".", "/") + ".py"], optional=True) for module in MODULES
]

setup(ext_modules=cythonize(KERNEL, language_level=3, build_dir="build"))
