#include "on_standin.h"

#include <dlfcn.h>

#include <array>

#include "tests/cuda_standin/control.h"
#include "tests/cuda_standin/said.h"

namespace reprise::test {
namespace {

template <typename F>
F exported(const char* name) {
  void* driver = dlopen(cuda::kDriverLibrary, RTLD_NOW | RTLD_LOCAL);
  return driver ? reinterpret_cast<F>(dlsym(driver, name)) : nullptr;
}

}  // namespace

void OnStandin::SetUp() {
  if (!exported<standin::Control>(standin::kControl))
    GTEST_SKIP() << "the stand-in driver is not on LD_LIBRARY_PATH; CTest puts it there";
  set("QUIET", "1");
  exported<standin::Control>(standin::kControl)("RESET_LOG", "");
  reset_calls();
  misuses_ = stat("misuses");
}

void OnStandin::TearDown() {
  if (IsSkipped()) return;
  while (!changed_.empty()) {
    const std::string key = changed_.back();
    set(key, "");
    changed_.pop_back();
    changed_.pop_back();
  }
  if (!driver_keeps_some_) {
    EXPECT_EQ(stat("live"), 0U);
    EXPECT_EQ(stat("misuses"), misuses_);
  }
  if (HasFailure()) print_what_was_said(exported<standin::Lines>(standin::kLines));
}

void OnStandin::set(const std::string& key, const std::string& value) {
  changed_.push_back(key);
  EXPECT_EQ(exported<standin::Control>(standin::kControl)(key.c_str(), value.c_str()), 0) << key;
}

void OnStandin::fail(const std::string& symbol, uint64_t nth, int error) {
  reset_calls();
  set("FAIL", symbol + ":" + std::to_string(nth) + ":" + std::to_string(error));
}

void OnStandin::reset_calls() {
  exported<standin::Control>(standin::kControl)("RESET_CALLS", "");
}

uint64_t OnStandin::stat(const std::string& key) const {
  return exported<standin::Stats>(standin::kStats)(key.c_str());
}

std::shared_ptr<Device> OnStandin::open(size_t index, const BackendOptions& options) {
  auto device = cuda::open(index, options);
  EXPECT_TRUE(device.ok()) << device.status().message();
  return device.ok() ? std::shared_ptr<Device>(std::move(*device)) : nullptr;
}

std::unique_ptr<Session> OnStandin::session(std::shared_ptr<const package::Package> package,
                                            std::shared_ptr<Device> device,
                                            const SessionOptions& options) {
  auto s = Session::create(std::move(package), std::move(device), options);
  EXPECT_TRUE(s.ok()) << s.status().message();
  return s.ok() ? std::move(*s) : nullptr;
}

Status run_chain(Session& session, int64_t n, float added, RunStats* stats) {
  const HostTensor x = floats({n}, ramp(static_cast<size_t>(n)));
  const std::array<Binding, 1> inputs{{{.name = "x", .host = &x}}};
  RP_ASSIGN(const auto y, session.run(inputs, {}, stats));
  for (int64_t i = 0; i < n; ++i) {
    if (y[0].data<float>()[i] != x.data<float>()[i] + added)
      return internal_error("element " + std::to_string(i) + " is wrong");
  }
  return {};
}

}  // namespace reprise::test
