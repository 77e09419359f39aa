#!/usr/bin/env bash
# Sets up what one make target needs, and does nothing when it is there already.
#
#   scripts/setup.sh run     virtual environment with what ships
#   scripts/setup.sh test    … and the development tools and the real programs that tests talk to
#   scripts/setup.sh bench   … and matplotlib and wrk
#   scripts/setup.sh bench-proxy   … and wrk and two routers to compare with
#   scripts/setup.sh plot    … and matplotlib alone
#   scripts/setup.sh render  … and what draws dashboards: Node, Chromium, Grafana's packages
#
# Debian 12 or 13, as root or with sudo. PYTHON names the interpreter (default python3).
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv
readonly STAMP=$VENV/scorer-setup
python=${PYTHON:-python3}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# quietly WHAT COMMAND…: one line when it works, the command's own words when it does not.
quietly() {
    local what=$1
    shift
    say "$what"
    if ! "$@" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        die "failed: $what"
    fi
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# apt_install PACKAGE…: without recommended packages, and without starting services: a Debian
# package of a server starts it, on a port that a test or another program may want.
apt_install() {
    command -v apt-get >/dev/null \
        || die "this machine has no apt-get; install by hand what Debian calls: $*"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null \
        || die "needs root or sudo to install Debian packages: $*"
    local policy=/usr/sbin/policy-rc.d status=0
    quietly "reading Debian's package lists" as_root apt-get -qq update
    if [ -e "$policy" ]; then
        policy=
    else
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
    fi
    say "installing Debian packages: $*"
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install --yes --no-install-recommends "$@" >"$log" 2>&1 || status=$?
    [ -z "$policy" ] || as_root rm -f "$policy"
    if [ "$status" -ne 0 ]; then
        tail -n 30 "$log" >&2
        die "failed: apt-get install $*"
    fi
}

# need COMMAND PACKAGES: the Debian packages only when the command is missing.
need() {
    # shellcheck disable=SC2086 # several packages are several words
    command -v "$1" >/dev/null || apt_install $2
}

need_python() {
    command -v "$python" >/dev/null || [ -z "${PYTHON:-}" ] || die "PYTHON=$python is no command"
    need "$python" python3
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die \
        "needs Python 3.11 or later, $python is $("$python" -V 2>&1); name another with PYTHON=…"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
    "$python" -c 'import ensurepip, venv' 2>/dev/null || die \
        "$python cannot make virtual environments (no ensurepip or venv module)"
}

# A virtual environment is tied to its folder and to its interpreter; both may move.
venv_works() {
    [ -x $VENV/bin/python ] && [ -x $VENV/bin/pip ] \
        && $VENV/bin/python -c "import sys; sys.exit(sys.prefix != '$PWD/$VENV')" 2>/dev/null \
        && $VENV/bin/pip --version >/dev/null 2>&1
}

# need_packages EXTRAS: installs the project in place when pyproject.toml or the place changed.
# The stamp of `[dev]` also satisfies a caller that asks for no extras.
need_packages() {
    local extras=$1 key
    key="$(sha256sum pyproject.toml | cut -d' ' -f1) $PWD"
    if [ -e $STAMP ] && { [ "$(cat $STAMP)" = "$key $extras" ] || [ "$(cat $STAMP)" = "$key [dev]" ]; }
    then
        [ -x $VENV/bin/python ] && $VENV/bin/python -c '' 2>/dev/null && return
    fi
    if ! venv_works; then
        need_python
        quietly "making a virtual environment in $VENV" "$python" -m venv --clear $VENV
    fi
    # An environment for tests keeps its tools when only `run` asks.
    if [ -e $STAMP ] && grep -qF '[dev]' $STAMP; then extras='[dev]'; fi
    quietly "installing Python packages into $VENV (a minute the first time)" \
        $VENV/bin/pip install --quiet --disable-pip-version-check --editable ".$extras"
    printf '%s %s\n' "$key" "$extras" >$STAMP
}

# Only benchmarks draw, so the tests do without.
need_plots() {
    $VENV/bin/python -c 'import matplotlib' 2>/dev/null \
        || quietly "installing matplotlib into $VENV" \
            $VENV/bin/pip install --quiet --disable-pip-version-check --editable '.[plots]'
}

# The package enables its service for the next boot too; the tests start Prometheus themselves.
need_prometheus() {
    command -v promtool >/dev/null && command -v prometheus >/dev/null && return
    apt_install prometheus
    as_root rm -f /etc/systemd/system/multi-user.target.wants/prometheus.service
}

need_alertmanager() {
    command -v amtool >/dev/null && command -v prometheus-alertmanager >/dev/null && return
    apt_install prometheus-alertmanager
    as_root rm -f /etc/systemd/system/multi-user.target.wants/prometheus-alertmanager.service
}

# The program alone: the package `dnsmasq` would start it as a service. It is no command on
# the PATH of an ordinary user.
need_dnsmasq() {
    [ -x /usr/sbin/dnsmasq ] || need dnsmasq dnsmasq-base
}

# Grafana's own components, and a browser to draw them: half a gigabyte, so no test needs it.
need_grafana_packages() {
    local folder=dashboards/render key
    need npm "nodejs npm"
    need_chromium
    key=$(sha256sum $folder/package.json | cut -d' ' -f1)
    [ "$(cat $folder/node_modules/scorer-setup 2>/dev/null)" = "$key" ] && return
    quietly "installing Grafana's packages into $folder/node_modules (a minute)" \
        npm install --prefix $folder
    printf '%s\n' "$key" >$folder/node_modules/scorer-setup
}

# nginx with http-lua, and what scorer's Lua for it needs. Debian enables the service for the
# next boot; the tests start nginx themselves.
need_nginx() {
    command -v /usr/sbin/nginx >/dev/null && [ -e /usr/share/nginx/modules/ngx_http_lua_module.so ] \
        && [ -e /usr/share/lua/5.1/cjson/util.lua ] && return
    apt_install nginx libnginx-mod-http-lua lua-cjson
    as_root rm -f /etc/systemd/system/multi-user.target.wants/nginx.service
}

# The interpreter that luacheck needs comes with it.
need_luacheck() {
    need luacheck lua-check
}

# For systemd-analyze alone, where no systemd is.
need_systemd() {
    need systemd-analyze systemd
}

# Looks at the status page; fonts, because a page without any has no width to speak of.
need_chromium() {
    command -v chromium >/dev/null && fc-list 2>/dev/null | grep -q . && return
    apt_install chromium fonts-dejavu-core fontconfig
}

# need_router NAME VERSION: other projects' routers, to be measured beside ours, each in an
# environment of its own. Without them the benchmark measures the rest.
need_router() {
    local venv=.venv-routers/$1
    [ -x "$venv/bin/$1" ] && return
    say "installing $1 $2 into $venv"
    rm -rf "$venv"
    if ! { "$python" -m venv "$venv" && "$venv/bin/pip" install --quiet "$1==$2"; } >"$log" 2>&1
    then
        say "$1 $2 cannot be installed here, so it is not measured"
        rm -rf "$venv"
    fi
}

# The package enables its service for the next boot too; the tests start HAProxy themselves.
need_haproxy() {
    [ -x /usr/sbin/haproxy ] || command -v haproxy >/dev/null && return
    apt_install haproxy
    as_root rm -f /etc/systemd/system/multi-user.target.wants/haproxy.service
}

case ${1:-} in
    run) need_packages "" ;;
    test)
        need_packages "[dev]"
        need_prometheus
        need_alertmanager
        need jq jq
        need curl curl
        need_dnsmasq
        need_nginx
        need_luacheck
        need_systemd
        need_chromium
        need_haproxy
        need cc "gcc libc6-dev"
        ;;
    bench)
        need_packages "[dev]"
        need_plots
        need wrk wrk
        need taskset util-linux
        ;;
    bench-proxy)
        need_packages "[dev]"
        need wrk wrk
        need taskset util-linux
        need_nginx
        need_haproxy
        need_router vllm-router 0.1.17
        need_router sglang-router 0.3.2
        ;;
    bench-outage)
        need_packages "[dev]"
        need_plots
        need wrk wrk
        need taskset util-linux
        need_nginx
        need_haproxy
        ;;
    plot)
        need_packages "[dev]"
        need_plots
        ;;
    render)
        need_packages "[dev]"
        need_prometheus
        need_grafana_packages
        ;;
    *) die "usage: scripts/setup.sh run|test|bench|bench-proxy|bench-outage|plot|render" ;;
esac
