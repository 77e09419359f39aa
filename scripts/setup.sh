#!/usr/bin/env bash
# Sets up what one make target needs, and does nothing when it is there already.
#
#   scripts/setup.sh run     virtual environment with what ships
#   scripts/setup.sh test    … and the development tools, a real Prometheus, HAProxy, a DNS server, cc
#   scripts/setup.sh bench   … and matplotlib and wrk
#   scripts/setup.sh plot    … and matplotlib alone
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

# The program alone: the package `dnsmasq` would start it as a service. It is no command on
# the PATH of an ordinary user.
need_dnsmasq() {
    [ -x /usr/sbin/dnsmasq ] || need dnsmasq dnsmasq-base
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
        need_dnsmasq
        need_haproxy
        need cc "gcc libc6-dev"
        ;;
    bench)
        need_packages "[dev]"
        need_plots
        need wrk wrk
        need taskset util-linux
        ;;
    plot)
        need_packages "[dev]"
        need_plots
        ;;
    *) die "usage: scripts/setup.sh run|test|bench|plot" ;;
esac
