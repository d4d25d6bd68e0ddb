# One image for every part: control plane, agents, the demo's checks, and moto's S3 server for trying things out.
# The base needs Python 3.11 or newer with venv; with a C compiler in it, the record kernel is compiled.
ARG BASE_IMAGE=python:3.13
FROM ${BASE_IMAGE}
WORKDIR /opt/lacuna
RUN python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
# What we depend on first: it changes less often than we do.
COPY pyproject.toml ./
RUN python -c "import tomllib; all = tomllib.load(open('pyproject.toml', 'rb')); project = all['project']; \
    extras = [each for name in ('s3', 'postgresql', 'demo', 'moto') for each in project['optional-dependencies'][name]]; \
    print(*all['build-system']['requires'], *project['dependencies'], *extras, sep='\n')" \
    > requirements.txt && pip install --no-cache-dir -r requirements.txt
COPY setup.py README.md LICENSE ./
COPY logstore logstore
COPY wire wire
COPY controlplane controlplane
COPY agent agent
COPY lacuna lacuna
COPY pipeline pipeline
COPY pyspark_lacuna pyspark_lacuna
RUN pip install --no-cache-dir --no-build-isolation --no-deps . && pip check
# Nothing is imported from the sources by accident: what runs is what was installed. It runs without rights: only the
# data folder, of an SQLite journal or `lacuna up`, is its own. Who starts containers asks for their health.
WORKDIR /var/lib/lacuna
RUN chown 65532:65532 .
USER 65532:65532
ENTRYPOINT ["lacuna"]
CMD ["--help"]
