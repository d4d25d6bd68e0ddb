# Sourced by .ci/run: a Docker daemon and base images made from Debian's own packages, no registry needed.
# Sets BASE_IMAGE, RUNTIME_IMAGE, NO_COMPILER_IMAGE and POSTGRES_IMAGE. Ends the daemon with the script if it was started here.
# With `in-background` the image is there once `await_images` has returned, and the project's own beside it.
if ! docker info >/dev/null 2>&1; then
  docker_dir=$(mktemp -d)
  dockerd --data-root "$docker_dir/data" >"$docker_dir/dockerd.log" 2>&1 &
  dockerd_pid=$!
  trap 'kill "$dockerd_pid" 2>/dev/null || true' EXIT
  for _ in $(seq 60); do
    docker info >/dev/null 2>&1 && break
    kill -0 "$dockerd_pid" 2>/dev/null || { tail -n 20 "$docker_dir/dockerd.log"; exit 1; }
    sleep 1
  done
fi
# The Python of this suite is that of the Dockerfile's default base (tests/compose holds them together).
suite=trixie
export BASE_IMAGE=lacuna-base:local NO_COMPILER_IMAGE=lacuna-base:no-compiler POSTGRES_IMAGE=lacuna-postgres:local
export RUNTIME_IMAGE=$NO_COMPILER_IMAGE

build() {
  log=$(mktemp)
  docker build "$@" >"$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
}

make_base_images() {
  docker image inspect "$BASE_IMAGE" >/dev/null 2>&1 && return
  root=$(mktemp -d)
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "$suite" "$root" >"$root.log" 2>&1 \
    || { tail -n 20 "$root.log"; exit 1; }
  # The certificates that this machine trusts, for a package index behind a proxy of its own.
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  tar -C "$root" -c . | docker import \
    --change 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' - "$NO_COMPILER_IMAGE" >/dev/null
  rm -rf "$root"
  build --tag "$BASE_IMAGE" - <<COMPILER
FROM $NO_COMPILER_IMAGE
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev python3-dev
COMPILER
}

make_postgres_image() {
  docker image inspect "$POSTGRES_IMAGE" >/dev/null 2>&1 && return
  build --tag "$POSTGRES_IMAGE" --file - .ci <<POSTGRES
FROM $NO_COMPILER_IMAGE
RUN apt-get update && apt-get install --yes --no-install-recommends postgresql
ENV PGDATA=/var/lib/postgresql/data LC_ALL=C.UTF-8
COPY postgres-entrypoint.sh /
ENTRYPOINT ["/postgres-entrypoint.sh"]
STOPSIGNAL SIGINT
POSTGRES
}

# What goes wrong here goes wrong again in the test that builds the image, which says so.
make_image() {
  $(command -v docker-compose || echo docker compose) build s3 client >/dev/null 2>&1 || true
}

await_images() { wait "$images_pid"; }

if [ "${1:-}" = in-background ]; then
  { make_base_images; make_image; make_postgres_image; } &
  images_pid=$!
else
  make_base_images
  make_postgres_image
fi
