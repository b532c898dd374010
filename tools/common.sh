# Shared by the scripts in tools/, which source this file.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# usage TEXT ARGS...: prints TEXT and exits when the first argument is -h or --help.
usage() {
  local text=$1
  shift
  for argument in "$@"; do
    case $argument in
      -h | --help)
        printf '%s\n' "$text"
        exit 0
        ;;
    esac
  done
}

# refuse ARGS...: for scripts that take no further arguments.
refuse() {
  if [ $# -gt 0 ]; then
    printf '%s: unknown argument: %s (try --help)\n' "$(basename "$0")" "$1" >&2
    exit 2
  fi
}

# build PRESET TARGET...: configures once and builds; all targets without names.
build() {
  local preset=$1
  shift
  local targets=()
  if [ $# -gt 0 ]; then targets=(--target "$@"); fi
  (cd "$root" && cmake --preset "$preset" >"$root/.cache/configure-$preset.log" 2>&1) ||
    { cat "$root/.cache/configure-$preset.log" >&2; die "configuring the preset '$preset' failed"; }
  (cd "$root" && cmake --build --preset "$preset" "${targets[@]}")
}

mkdir -p "$root/.cache"
