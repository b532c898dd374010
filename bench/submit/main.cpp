// reprise_submitbench: the host time of submitting a run that is bound. The time of the driver's
// calls is measured apart, by functions in front of them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "apps/common/devices.h"
#include "apps/common/status.h"
#include "backends/vulkan/driver.h"
#include "backends/vulkan/vulkan.h"
#include "bench/baselines.h"
#include "bench/harness.h"
#include "capi/api.h"

namespace reprise::bench {
namespace {

/// The clock of processor time would be a system call, which takes longer than what is measured.
int64_t now_ns() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t).count();
}

int64_t in_driver_ns = 0, driver_calls = 0;

template <auto Member>
struct Timed;
template <typename... Args, VkResult (VKAPI_PTR* VolkDeviceTable::*Member)(Args...)>
struct Timed<Member> {
  static inline VkResult(VKAPI_PTR* real)(Args...) = nullptr;
  static VKAPI_ATTR VkResult VKAPI_CALL call(Args... args) {
    const int64_t start = now_ns();
    const VkResult r = real(args...);
    in_driver_ns += now_ns() - start;
    ++driver_calls;
    return r;
  }
  static void put_in_front(VolkDeviceTable& table) {
    real = table.*Member;
    table.*Member = call;
  }
};

void time_driver(VolkDeviceTable& table) {
  Timed<&VolkDeviceTable::vkQueueSubmit>::put_in_front(table);
  Timed<&VolkDeviceTable::vkResetFences>::put_in_front(table);
}

/// What asking for the time adds to what is measured around it.
int64_t clock_ns() {
  std::array<int64_t, 1001> cost{};
  for (int64_t& c : cost) {
    const int64_t start = now_ns();
    c = now_ns() - start;
  }
  std::ranges::nth_element(cost, cost.begin() + cost.size() / 2);
  return cost[cost.size() / 2];
}

/// A chain of tiny kernels with an input and an output in host memory, which is bound.
struct Chain {
  size_t launches = 0;
  std::string input, output;
  std::vector<float> x, y;
  reprise_package* package = nullptr;
  reprise_session* session = nullptr;
  reprise_run* run = nullptr;
  reprise_tensor in = REPRISE_TENSOR_INIT, out = REPRISE_TENSOR_INIT;
  std::vector<double> ours, driver;  // us

  ~Chain() {
    reprise_run_free(run);
    reprise_session_free(session);
    reprise_package_free(package);
  }
};

Status status_of(const reprise_error& e) {
  return e.status == REPRISE_OK ? Status() : Status(static_cast<Code>(e.status), e.message);
}

Status open(Chain& c, size_t launches, reprise_device* device, const DeviceInfo& info) {
  constexpr int64_t kElements = 64;
  ChainSpec spec;
  RP_ASSIGN(spec.kernel, tiny_kernel());
  spec.inputs = {{kElements}};
  spec.output = {kElements};
  spec.launches = c.launches = launches;
  RP_ASSIGN(const PackagePtr package, chain_package(spec, info));
  c.package = capi::make_handle(std::make_shared<reprise_package>(package));
  c.x.assign(kElements, 1);
  c.y.assign(kElements, 0);
  c.input = package->io.inputs[0].name;
  c.output = package->io.outputs[0].name;
  c.in.name = c.input.c_str();
  c.in.rank = 1;
  c.in.dims[0] = kElements;
  c.in.data = c.x.data();
  c.in.bytes = c.x.size() * sizeof(float);
  c.out.name = c.output.c_str();
  c.out.data = c.y.data();
  c.out.bytes = c.y.size() * sizeof(float);
  reprise_error error{};
  if (reprise_session_create(c.package, device, nullptr, &c.session, &error) == REPRISE_OK &&
      reprise_run_create(c.session, &c.run, &error) == REPRISE_OK)
    reprise_run_bind(c.run, &c.in, 1, &c.out, 1, &error);
  return status_of(error);
}

Status submit(Chain& c, int64_t clock) {
  reprise_error error{};
  in_driver_ns = driver_calls = 0;
  const int64_t start = now_ns();
  reprise_run_submit(c.run, nullptr, &error);
  const int64_t total = now_ns() - start - clock;
  if (error.status == REPRISE_OK) reprise_run_wait(c.run, nullptr, nullptr, &error);
  RP_TRY(status_of(error));
  // A clock is read twice around each call, and one of these is within what it measures.
  const int64_t driver = in_driver_ns - driver_calls * clock;
  c.ours.push_back(static_cast<double>(total - driver - 2 * driver_calls * clock) / 1e3);
  c.driver.push_back(static_cast<double>(driver) / 1e3);
  return {};
}

double quantile(std::vector<double> v, double q) {
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(v.size() - 1));
  std::ranges::nth_element(v, at);
  return *at;
}

Result<int> run(size_t device_index, int runs, int pause_us) {
  RP_ASSIGN(auto device, vulkan::open(device_index, app::default_backend_options(), time_driver));
  const DeviceInfo info = device->info();
  reprise_device* const handle = capi::make_handle(std::make_shared<reprise_device>(
      reprise_device{std::shared_ptr<Device>(std::move(device)), {}, {}}));
  std::array<Chain, 3> chains;
  constexpr std::array<size_t, 3> kLaunches{10, 100, 1000};
  for (size_t i = 0; i < chains.size(); ++i) RP_TRY(open(chains[i], kLaunches[i], handle, info));
  const int64_t clock = clock_ns();
  for (int i = 0; i < runs + 5; ++i) {
    for (size_t k = 0; k < chains.size(); ++k) {
      // Each follows each other, because a long run before one makes its caches cold.
      Chain& c = chains[i % 2 == 0 ? k : chains.size() - 1 - k];
      std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
      RP_TRY(submit(c, clock));
      if (i < 5) c.ours.clear(), c.driver.clear();
    }
  }
  reprise_device_free(handle);
  std::printf("%s: %s\n%d runs, %d us after the one before; times in us\n\n", info.id.c_str(),
              info.name.c_str(), runs, pause_us);
  std::printf("%8s  %16s %8s  %16s\n", "launches", "library, median", "of 90%", "driver, median");
  for (const Chain& c : chains) {
    std::printf("%8zu  %16.2f %8.2f  %16.2f\n", c.launches, quantile(c.ours, 0.5),
                quantile(c.ours, 0.9), quantile(c.driver, 0.5));
  }
  return app::kDone;
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App cli("Measures the host time of submitting a bound run on a Vulkan device.");
  size_t device = 0;
  int runs = 500, pause_us = 1000;
  cli.add_option("--device", device, "the number of the Vulkan device")->capture_default_str();
  cli.add_option("--runs", runs, "of each chain")->capture_default_str();
  cli.add_option("--pause", pause_us, "us before each run, in which caches get cold")
      ->capture_default_str();
  CLI11_PARSE(cli, argc, argv);
  const auto done = reprise::bench::run(device, runs, pause_us);
  return done.ok() ? *done : reprise::app::report(done.status());
}
