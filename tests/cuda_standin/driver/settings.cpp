#include "tests/cuda_standin/driver/settings.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>

extern "C" char**
    environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to programs

namespace reprise::standin {
namespace {

template <typename T>
bool number(const std::string& text, T& out, T fallback) {
  if (text.empty()) {
    out = fallback;
    return true;
  }
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  out = value;
  return true;
}

bool flag(const std::string& text, bool& out, bool fallback) {
  unsigned value = 0;
  if (!number(text, value, fallback ? 1U : 0U) || value > 1) return false;
  out = value == 1;
  return true;
}

template <typename T, size_t N>
bool one_of(const std::string& text, const std::array<std::pair<std::string_view, T>, N>& names,
            T& out) {
  for (const auto& [name, value] : names) {
    if (text != name && !(text.empty() && value == names[0].second)) continue;
    out = value;
    return true;
  }
  return false;
}

constexpr std::array<std::pair<std::string_view, Check>, 4> kChecks = {
    {{"zones", Check::Zones},
     {"off", Check::Off},
     {"allocations", Check::Allocations},
     {"bytes", Check::Bytes}}};
constexpr std::array<std::pair<std::string_view, Order>, 5> kOrders = {
    {{"mixed", Order::Mixed},
     {"sinks", Order::Sinks},
     {"random", Order::Random},
     {"reverse", Order::Reverse},
     {"creation", Order::Creation}}};

/// SYMBOL:N:ERROR
bool failure(const std::string& text, std::optional<Failure>& out) {
  out.reset();
  if (text.empty()) return true;
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return false;
  Failure f;
  f.symbol = text.substr(0, first);
  if (!number(text.substr(first + 1, second - first - 1), f.nth, uint64_t{0})) return false;
  if (!number(text.substr(second + 1), f.error, 0)) return false;
  if (f.nth == 0 || f.error == 0) return false;
  out = f;
  return true;
}

}  // namespace

bool Settings::set(std::string_view key, const std::string& value) {
  const Settings normal;
  if (key == "SEED") return number(value, seed, normal.seed);
  if (key == "ORDER") return one_of(value, kOrders, order);
  if (key == "CHECK") return one_of(value, kChecks, check);
  if (key == "POISON") return flag(value, poison, normal.poison);
  if (key == "FAIL") return failure(value, fail);
  if (key == "DROP_EDGE") return number(value, drop_edge, normal.drop_edge);
  if (key == "DEVICES") return number(value, devices, normal.devices) && devices >= 0;
  if (key == "ARCH") return number(value, arch, normal.arch) && arch >= 10;
  if (key == "DRIVER") return number(value, driver, normal.driver);
  if (key == "MEMORY") return number(value, memory, normal.memory);
  if (key == "SLOW_MS") return number(value, slow_ms, normal.slow_ms);
  if (key == "THREADS") return number(value, threads, normal.threads);
  if (key == "QUIET") return flag(value, quiet, normal.quiet);
  if (key == "STRICT_EXIT") return flag(value, strict_exit, normal.strict_exit);
  if (key == "FAULT") fault = value;
  if (key == "LOG") log = value;
  if (key == "CACHE") cache = value;
  if (key == "SOURCES") sources = value;
  return key == "FAULT" || key == "LOG" || key == "CACHE" || key == "SOURCES";
}

uint32_t most_shared_bytes(const Settings& device) {
  constexpr struct {
    int since;
    uint32_t kilobytes;
  } kRows[] = {{120, 99}, {90, 227}, {88, 99}, {87, 163}, {86, 99}, {80, 163}, {75, 64}, {0, 48}};
  for (const auto& row : kRows)
    if (device.arch >= row.since) return row.kilobytes << 10;
  return 0;
}

Settings settings_from_environment(std::string& problem) {
  constexpr std::string_view kPrefix = "REPRISE_STANDIN_";
  Settings s;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (text.substr(0, kPrefix.size()) != kPrefix || equals == std::string_view::npos) continue;
    const std::string_view key = text.substr(kPrefix.size(), equals - kPrefix.size());
    if (s.set(key, std::string(text.substr(equals + 1))) || !problem.empty()) continue;
    problem = std::string(text) + " is not understood";
  }
  return s;
}

namespace fs = std::filesystem;

namespace {

/// The user's; "": there is none.
fs::path cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != 0) return cache;
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home != 0 ? fs::path(home) / ".cache" : fs::path();
}

}  // namespace

std::string default_sources() {
  const fs::path folder = cache_folder();
  return folder.empty() ? "" : (folder / "reprise" / "cuda").string();
}

std::string default_cache() {
  const fs::path folder = cache_folder();
  if (!folder.empty()) return (folder / "reprise-standin").string();
  std::error_code nowhere;
  const fs::path temporary = fs::temp_directory_path(nowhere);
  return nowhere ? "" : (temporary / "reprise-standin").string();
}

}  // namespace reprise::standin
