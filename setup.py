"""Builds the record kernel where a C compiler is present; without one the same source is interpreted."""

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNEL = Extension("logstore.records.kernel", ["logstore/records/kernel.py"], optional=True)

setup(ext_modules=cythonize([KERNEL], language_level=3, build_dir="build"))
