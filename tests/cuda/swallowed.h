// Calls of the driver that may fail while the run succeeds. Every other call's failure is an error.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>

namespace reprise::test {

struct Swallowed {
  const char* symbol;
  const char* reason;
  bool again;  // the same call follows, and has to succeed
};
inline constexpr const char* kHeld =
    "no one is there to be told, and the context's end frees what it held";
inline constexpr Swallowed kSwallowed[] = {
    {"cuMemFree_v2", kHeld, false},
    {"cuMemFreeHost", kHeld, false},
    {"cuModuleUnload", kHeld, false},
    {"cuStreamDestroy_v2", kHeld, false},
    {"cuEventDestroy_v2", kHeld, false},
    {"cuGraphDestroy", kHeld, false},
    {"cuGraphExecDestroy", kHeld, false},
    {"cuDevicePrimaryCtxRelease_v2", "no one is there to be told, and all is freed already", false},
    {"cuCtxPopCurrent_v2", "what was done in the context is done", false},
    {"cuCtxPushCurrent_v2", "around a release, and only there: it is tried once more", true},
};

inline const Swallowed* may_be_swallowed(const std::string& symbol) {
  const auto* const row = std::find_if(std::begin(kSwallowed), std::end(kSwallowed),
                                       [&](const Swallowed& s) { return s.symbol == symbol; });
  return row == std::end(kSwallowed) ? nullptr : row;
}

/// Whether the driver keeps what the call should have freed: it alone knows.
inline bool keeps(const std::string& symbol) {
  const Swallowed* const row = may_be_swallowed(symbol);
  return row != nullptr && !row->again;
}

}  // namespace reprise::test
