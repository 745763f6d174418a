#!/bin/sh
# Run a command as root of namespaces of its own: what a user without root needs for the tests that make networks.
# Called through `unshare --user --map-root-user --net --mount`.
set -e
mount -t tmpfs tmpfs /run
ip link set lo up
exec "$@"
