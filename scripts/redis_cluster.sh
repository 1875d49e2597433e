#!/bin/sh
# Makes one Redis Cluster of the servers that it is given, with a replica for each master. Where they are one already, it tells the
# first where the others are now: containers get new addresses when they are started again. For docker-compose.yml, profile `cluster`.
#
#   redis_cluster.sh HOST[:PORT] ...      at least 6 of them
set -eu

readonly slots=16384
cli=$(command -v valkey-cli || command -v redis-cli)

fail() {
    echo "redis_cluster: $*" >&2
    exit 1
}

[ $# -ge 6 ] || fail "usage: redis_cluster.sh HOST[:PORT] ... with 6 servers or more"

# -e: an error that a server answers is a failure.
ask() {
    case $server in
    *:*) "$cli" -e -h "${server%:*}" -p "${server##*:}" "$@" ;;
    *) "$cli" -e -h "$server" "$@" ;;
    esac
}

# A cluster knows addresses, not names: each server tells its own.
addresses=
for server in "$@"; do
    address=$(ask client info | sed -n 's/.* laddr=\([^ ]*\).*/\1/p')
    [ -n "$address" ] || fail "$server does not say where it is"
    addresses="$addresses $address"
done

server=$1
if ask cluster info | grep -q "cluster_slots_assigned:$slots"; then
    for address in $addresses; do
        ask cluster meet "${address%:*}" "${address##*:}" >/dev/null
    done
    echo "redis_cluster: it is there already"
else
    # shellcheck disable=SC2086 # a list
    "$cli" -e --cluster create $addresses --cluster-replicas 1 --cluster-yes
fi
