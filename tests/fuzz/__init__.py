"""Bytes from anywhere: fuzz targets, a kept corpus for each, and atheris, which looks for more of them."""
