#!/bin/bash
# Puts debubble, its manual pages and its completions where a system looks for them, or takes them away.
#   tests/install.sh install BINARY PREFIX
#   tests/install.sh uninstall PREFIX
# Makes what folders are missing. Completions are those of bash, zsh, fish and elvish, whose places under
# a prefix are agreed on; PowerShell has none: `debubble completions powershell` prints them.
set -euo pipefail

binary_folder=bin
pages=share/man/man1
bash=share/bash-completion/completions/debubble
zsh=share/zsh/site-functions/_debubble
fish=share/fish/vendor_completions.d/debubble.fish
elvish=share/elvish/lib/debubble.elv

install_all() {
  local binary=$1 prefix=$2 shell
  mkdir -p "$prefix/$binary_folder" "$prefix/$pages"
  install -m 755 "$binary" "$prefix/$binary_folder/debubble"
  (umask 022 && "$binary" man --out "$prefix/$pages")
  for shell in bash zsh fish elvish; do
    mkdir -p "$(dirname "$prefix/${!shell}")"
    "$binary" completions "$shell" >"$prefix/${!shell}"
    chmod 644 "$prefix/${!shell}"
  done
  echo "installed $prefix/$binary_folder/debubble, its manual pages and its completions"
}

uninstall_all() {
  local prefix=$1
  rm -f "$prefix/$binary_folder/debubble" "$prefix/$pages"/debubble.1 "$prefix/$pages"/debubble-*.1 \
    "$prefix/$bash" "$prefix/$zsh" "$prefix/$fish" "$prefix/$elvish"
}

case ${1-}:$# in
  install:3) install_all "$2" "$3" ;;
  uninstall:2) uninstall_all "$2" ;;
  *)
    echo "usage: tests/install.sh install BINARY PREFIX | uninstall PREFIX" >&2
    exit 2
    ;;
esac
