// What tests ask of the stand-in driver. docs/testing.md has the table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::standin {

enum class Check : unsigned char { Off, Zones, Allocations, Bytes };
/// How one of the nodes that could run next is chosen. Mixed: another way at each launch.
enum class Order : unsigned char { Mixed, Sinks, Random, Reverse, Creation };

struct Failure {
  std::string symbol;  // "*": any
  uint64_t nth = 0;
  int error = 0;
};

struct Settings {
  uint64_t seed = 1;
  Order order = Order::Mixed;
  Check check = Check::Zones;
  bool poison = true;
  std::optional<Failure> fail;
  std::string fault;       // kernel
  uint64_t drop_edge = 0;  // 0: none
  int devices = 1;
  int arch = 90;
  int driver = 13000;
  uint64_t memory = uint64_t{16} << 30;
  unsigned slow_ms = 0;
  unsigned threads = 0;  // 0: the processor's
  bool quiet = false;
  std::string log;
  std::string cache;    // "": default_cache()
  std::string sources;  // "": default_sources()
  bool strict_exit = false;

  /// `key` without the prefix REPRISE_STANDIN_. False where it or the value is not understood.
  bool set(std::string_view key, const std::string& value);
};

/// The shared memory that a kernel may have on such a device, in bytes: CUDA's programming guide,
/// "Technical Specifications per Compute Capability".
uint32_t most_shared_bytes(const Settings& device);
/// Reads the environment; the first variable that is not understood goes to `problem`.
Settings settings_from_environment(std::string& problem);
/// Where the compiler keeps texts (CompileOptions::keep_source) for the command line; "": nowhere.
std::string default_sources();
/// Where compiled kernels are kept unless REPRISE_STANDIN_CACHE says; "": nowhere.
std::string default_cache();

}  // namespace reprise::standin
