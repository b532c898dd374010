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

# private_apt RELEASE [ARCHITECTURE]: package lists of this machine's mirror in a new folder, $work;
# options for apt in $options. The folder is removed at the end of the script.
private_apt() {
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg mirror
  [ -r "$keys" ] || die "'$keys' is missing: install debian-archive-keyring"
  mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(SITE)' 'Created-By: Packages' |
    awk '$1 == "bookworm" && $2 == "main" && !found { print $3; found = 1 }')
  [ -n "$mirror" ] || die "apt has no source for bookworm main: this needs Debian 12"
  work=$root/.cache/apt.$$
  rm -rf "$work"
  mkdir -p "$work/lists/partial" "$work/archives/partial"
  trap 'rm -rf "$root/.cache/apt.$$"' EXIT
  printf 'deb [signed-by=%s] %s %s main\ndeb-src [signed-by=%s] %s %s main\n' \
    "$keys" "$mirror" "$1" "$keys" "$mirror" "$1" >"$work/sources.list"
  options=(-o "Dir::Etc::SourceList=$work/sources.list" -o "Dir::Etc::SourceParts=-"
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work" -o "APT::Sandbox::User=")
  if [ -n "${2:-}" ]; then
    options+=(-o "APT::Architecture=$2" -o "APT::Architectures::=$2")
  fi
  apt-get -q "${options[@]}" update >"$work/apt.log" 2>&1 ||
    { tail -n 10 "$work/apt.log" >&2; die "apt-get could not read the package lists"; }
}

# install_packages NAME...: installs packages of Debian, as root or with sudo.
install_packages() {
  local as_root=() apt install
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "these packages must be installed as root, and there is no sudo: $*"
    as_root=(sudo)
  fi
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
  install=("${apt[@]}" install --no-install-recommends "$@")

  say "setup: installing $# packages with apt-get"
  # Package lists may be missing or old. First try without fetching them, so that a machine with a
  # package cache but without a network works as well.
  if ! "${install[@]}" >"$root/.cache/apt.log" 2>&1; then
    "${apt[@]}" update >"$root/.cache/apt.log" 2>&1 &&
      "${install[@]}" >>"$root/.cache/apt.log" 2>&1 ||
      { tail -n 20 "$root/.cache/apt.log" >&2; die "apt-get could not install: $*
Without a network, install them from a mirror or a package cache and run this again."; }
  fi
}
