#include "backends/overdue.h"

#include <array>
#include <charconv>

namespace reprise {

std::string seconds_text(uint64_t ns) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), static_cast<double>(ns) / 1e9);
  return std::string(text.data(), end.ptr) + " s";
}

Status timeout_error(const DeviceInfo& device, uint64_t timeout_ns) {
  return {Code::Device, "the run did not finish on " + device.id + " within " +
                            seconds_text(timeout_ns) + "; use a longer timeout or smaller inputs"};
}

std::string given_up_text(uint64_t waited_ns) {
  return "a run timed out, did not end in another " + seconds_text(waited_ns) + " and was given up";
}

}  // namespace reprise
