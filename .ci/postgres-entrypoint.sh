#!/bin/sh
# What compose.yaml needs of the official postgres image: the server of POSTGRES_USER's database POSTGRES_DB.
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
chown postgres "$PGDATA"
as_postgres() { setpriv --reuid postgres --regid postgres --clear-groups -- "$@"; }
if [ ! -e "$PGDATA/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" >/tmp/password
  as_postgres "$bin/initdb" --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE \"$POSTGRES_DB\"" | as_postgres "$bin/postgres" --single -j postgres
fi
exec setpriv --reuid postgres --regid postgres --clear-groups -- "$bin/postgres" -c 'listen_addresses=*'
