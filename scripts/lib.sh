# Shared by the scripts here; sourced, not run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# One target directory for scripts, CI and the shell, outside of the clone, so
# that a fresh clone does not compile every dependency again.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/dsql-fabric/target}

say() { printf '\n== %s\n' "$*"; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Runs a command as root: directly, or through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# PostgreSQL's server programs; newest version first.
postgres_bin() {
    local dir
    for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -Vr); do
        [ -x "$dir/initdb" ] && {
            echo "$dir"
            return 0
        }
    done
    return 1
}

# Installs PostgreSQL from the distribution where there is none.
install_postgres() {
    postgres_bin >/dev/null && command -v psql >/dev/null && return 0
    command -v apt-get >/dev/null || die "PostgreSQL is needed for the tests: install its server and psql"
    say "installing PostgreSQL"
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        postgresql postgresql-client postgresql-contrib
}

# Starts a private PostgreSQL on a free loopback port and sets
# FABRIC_TEST_POSTGRES to its URL. stop_postgres removes it.
start_postgres() {
    local bin run
    bin=$(postgres_bin) || die "PostgreSQL was installed, but initdb is not under /usr/lib/postgresql"
    postgres_dir=$(mktemp -d)
    postgres_run=()
    # initdb and postgres refuse to run as root.
    if [ "$(id -u)" = 0 ]; then
        run=${SUDO_USER:-postgres}
        chown "$run" "$postgres_dir"
        postgres_run=(runuser -u "$run" --)
    fi
    postgres_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    say "starting PostgreSQL on 127.0.0.1:$postgres_port"
    "${postgres_run[@]}" "$bin/initdb" -D "$postgres_dir/data" -U postgres --auth=trust >"$postgres_dir/initdb.log"
    (cd "$postgres_dir" && "${postgres_run[@]}" "$bin/pg_ctl" -D "$postgres_dir/data" -w -l "$postgres_dir/log" \
        -o "-h 127.0.0.1 -p $postgres_port -k $postgres_dir -c max_connections=400 -c fsync=off" start >/dev/null)
    export FABRIC_TEST_POSTGRES="postgres://postgres@127.0.0.1:$postgres_port/postgres"
    postgres_bin_dir=$bin
}

stop_postgres() {
    [ -n "${postgres_dir:-}" ] || return 0
    (cd / && "${postgres_run[@]}" "$postgres_bin_dir/pg_ctl" -D "$postgres_dir/data" -m immediate stop >/dev/null 2>&1) || true
    rm -rf "$postgres_dir"
    postgres_dir=
}
