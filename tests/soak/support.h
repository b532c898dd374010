// Sessions through the C interface, on the devices of the machine.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "capi/api.h"
#include "tests/support/plans.h"

namespace reprise::test {

/// Ids of the usable devices that record runs, without the host.
std::vector<std::string> soak_devices();

template <typename T>
struct HandleFreer {
  void operator()(T* handle) const { capi::free_handle(handle); }
};
template <typename T>
using Owned = std::unique_ptr<T, HandleFreer<T>>;

/// What an application holds: y = x + launches.
struct App {
  explicit App(const std::string& id, size_t launches = 3, int64_t n = 0, const char* result = "y");
  /// From now on, its sessions have another plan for up to 100 elements. Only if `n` is 0.
  void add_plan();
  /// Null and the error of a failure.
  Owned<reprise_session> make_session(const reprise_session_options* options, reprise_error* error);
  size_t launches;
  Owned<reprise_device> device;
  Owned<reprise_package> package;
};

/// One run of `x` to `y`, in host memory that the caller gave.
reprise_status run_once(reprise_session* session, const std::vector<float>& x,
                        std::vector<float>& y, reprise_error* error, const char* result = "y");
/// Bytes of memory that the process has.
uint64_t resident_bytes();

}  // namespace reprise::test
