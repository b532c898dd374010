# Shared by the scripts in tools/, which source this file.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
# step TEXT: a heading. The time of each step is kept for report_times.
step_times=()
step() {
  end_step
  step_name=$*
  step_start=$SECONDS
  printf '\n== %s\n' "$*"
}
end_step() {
  if [ -n "${step_name:-}" ]; then step_times+=("$((SECONDS - step_start)) $step_name"); fi
  step_name=
}
# report_times: prints how long each step took.
report_times() {
  end_step
  printf '\nWhere the time went:\n'
  local entry
  for entry in "${step_times[@]}"; do printf '%6d s  %s\n' "${entry%% *}" "${entry#* }"; done
}
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
# options for apt in $apt_options. The folder is removed at the end of the script.
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
  apt_options=(-o "Dir::Etc::SourceList=$work/sources.list" -o "Dir::Etc::SourceParts=-"
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work" -o "APT::Sandbox::User=")
  if [ -n "${2:-}" ]; then
    apt_options+=(-o "APT::Architecture=$2" -o "APT::Architectures::=$2")
  fi
  apt-get -q "${apt_options[@]}" update >"$work/apt.log" 2>&1 ||
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

# fetch_magika: puts Magika's model of file types, from PyPI and pinned by hash, into the folder $magika.
fetch_magika() {
  local version=1.0.3
  local sha256=3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529
  magika=$root/.cache/magika-$version
  if [ -f "$magika/model.onnx" ] && [ -f "$magika/content_types_kb.min.json" ]; then
    say "already here: $magika"
    return
  fi
  local work=$root/.cache/magika-download.$$
  mkdir -p "$work"
  # The wheel is only unpacked, so any platform would do; naming one fixes the bytes for the hash.
  python3 -m pip --disable-pip-version-check download --quiet --no-deps --only-binary=:all: \
    --platform manylinux_2_28_x86_64 --dest "$work" "magika==$version" ||
    die "PyPI could not be reached with pip; with a mirror, set PIP_INDEX_URL and run this again"
  local wheel
  wheel=$(ls "$work"/magika-*.whl)
  echo "$sha256  $wheel" | sha256sum --check --quiet ||
    die "the downloaded wheel does not match the pinned hash: $wheel"
  python3 - "$wheel" "$work" <<'PYTHON'
import sys
import zipfile

wheel, target = sys.argv[1:]
wanted = {
    "magika/models/standard_v3_3/model.onnx": "model.onnx",
    "magika/models/standard_v3_3/config.min.json": "config.min.json",
    "magika/config/content_types_kb.min.json": "content_types_kb.min.json",
}
with zipfile.ZipFile(wheel) as archive:
    for member, name in wanted.items():
        with open(f"{target}/{name}", "wb") as out:
            out.write(archive.read(member))
PYTHON
  rm -rf "$magika"
  mkdir -p "$magika"
  mv "$work"/*.json "$work"/model.onnx "$wheel" "$magika"
  rmdir "$work"
  say "magika $version: $magika"
}
