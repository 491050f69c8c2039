#!/bin/bash
# Runs a program for cargo; one of tests says how long each takes, which it does only where unstable flags
# are allowed.
program=$1
shift
case $program in
  */deps/*) RUSTC_BOOTSTRAP=1 exec "$program" "$@" -Z unstable-options --report-time ;;
  *) exec "$program" "$@" ;;
esac
