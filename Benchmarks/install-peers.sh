#!/bin/sh
# Installs what the benchmark runs, from Debian, and sees to it that no package starts or enables its service:
# the harness starts each server itself, with its own configuration.
set -eu

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

if ! command -v apt-get >/dev/null; then
    echo "bench-peers: no apt-get here; install nginx, HAProxy, Squid, wrk and openssl by other means" >&2
    exit 1
fi

wanted=""
for package in nginx haproxy squid wrk openssl; do
    # Squid comes in two builds that exclude each other; the one that is there stays.
    if [ "$package" = squid ] && command -v /usr/sbin/squid >/dev/null; then continue; fi
    if ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
        [ "$package" = squid ] && package=squid-openssl
        wanted="$wanted $package"
    fi
done
if [ -z "$wanted" ]; then
    echo "bench-peers: all there"
    exit 0
fi

policy=/usr/sbin/policy-rc.d
ours=no
cleanup() {
    if [ "$ours" = yes ]; then as_root rm -f "$policy"; fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    ours=yes
    as_root chmod 755 "$policy"
fi

as_root apt-get update
# shellcheck disable=SC2086
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $wanted

if command -v systemctl >/dev/null && [ -d /run/systemd/system ]; then
    for package in $wanted; do
        case "$package" in
            nginx | haproxy) as_root systemctl disable "$package" ;;
            squid-openssl) as_root systemctl disable squid ;;
        esac
    done
fi
