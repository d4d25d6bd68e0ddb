"""Fuzz targets for arbitrary bytes, a stored corpus for each, and searches with atheris for more inputs."""
