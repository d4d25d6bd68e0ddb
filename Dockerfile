# The image of every part: control plane, agents, `lacuna up`, the demo's checks. `docker build --tag lacuna .`
# BASE_IMAGE builds: Python 3.11 or newer with venv; with a C compiler in it, the record kernel is compiled.
# RUNTIME_IMAGE runs what was built: the same Python, at the same path.
ARG BASE_IMAGE=python:3.13
ARG RUNTIME_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS dependencies
WORKDIR /opt/lacuna
# pip and what builds stay in an environment of their own. What we depend on comes first: it changes less often than we do.
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/venv
COPY pyproject.toml ./
RUN /opt/build/bin/python -c "import tomllib; all = tomllib.load(open('pyproject.toml', 'rb')); \
    project = all['project']; extras = project['optional-dependencies']; \
    write = lambda name, lines: open(name, 'w').write('\n'.join(lines)); \
    write('build.txt', all['build-system']['requires']); \
    write('run.txt', [*project['dependencies'], *(each for name in ('s3', 'postgresql', 'console', 'demo', 'security') for each in extras[name])])" \
    && /opt/build/bin/pip install --no-cache-dir -r build.txt \
    && /opt/build/bin/pip --python /opt/venv install --no-cache-dir -r run.txt

FROM dependencies AS build
COPY setup.py README.md LICENSE ./
COPY lacuna lacuna
COPY pyspark_lacuna pyspark_lacuna
RUN /opt/build/bin/pip wheel --no-build-isolation --no-deps --wheel-dir wheels . \
    && /opt/build/bin/pip --python /opt/venv install --no-cache-dir --no-deps wheels/*.whl \
    && /opt/build/bin/pip --python /opt/venv check
# Half of the size is what nobody reads here: debugging symbols, botocore's descriptions of AWS's other services, and more.
COPY .ci/slim-environment ./
RUN sh slim-environment /opt/venv

FROM ${RUNTIME_IMAGE} AS lacuna
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="lacuna" \
      org.opencontainers.image.description="A Kafka-compatible log with transactions whose records live in an object store" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# Every command that serves tells its health here; HEALTHCHECK asks. Of several in one network, each needs its own port.
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 LACUNA_HEALTH_LISTEN=127.0.0.1:9644
COPY --from=build /opt/venv /opt/venv
# It runs without rights: only the data folder, of an SQLite journal or `lacuna up`, is its own.
WORKDIR /var/lib/lacuna
RUN chown 65532:65532 .
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["python", "-c", "import os, urllib.request as web; \
    port = os.environ['LACUNA_HEALTH_LISTEN'].rpartition(':')[2]; \
    web.urlopen(f'http://127.0.0.1:{port}/healthz', timeout=2)"]
ENTRYPOINT ["lacuna"]
CMD ["--help"]
