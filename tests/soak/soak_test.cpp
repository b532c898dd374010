// A soak: many threads run, create and free sessions on one device while memory is full, driver
// calls fail, the heap fails and runs time out. What is computed is right to the bit, what fails is
// one of the errors expected, and nothing is left when it ends. tools/soak runs it for long.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "allocations.h"
#include "backends/vulkan/driver.h"
#include "backends/vulkan/vulkan.h"
#include "support.h"

namespace reprise::test {
namespace {

using Clock = std::chrono::steady_clock;

/// From the environment, as tools/soak sets it.
uint64_t setting(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

// Driver calls that fail when the soak says so, on the thread that says so.
thread_local uint64_t calls_until_fault = 0;

bool faults() {
  return calls_until_fault != 0 && --calls_until_fault == 0;
}

template <auto Member, typename Function>
struct Faulty;
template <auto Member, typename... Args>
struct Faulty<Member, VkResult(VKAPI_PTR*)(Args...)> {
  static inline VkResult(VKAPI_PTR* real)(Args...) = nullptr;
  static VKAPI_ATTR VkResult VKAPI_CALL call(Args... args) {
    return faults() ? VK_ERROR_OUT_OF_HOST_MEMORY : real(args...);
  }
};
template <auto Member>
void make_faulty(VolkDeviceTable& table) {
  using F = Faulty<Member, std::remove_reference_t<decltype(table.*Member)>>;
  F::real = table.*Member;
  table.*Member = F::call;
}

void hook_table(VolkDeviceTable& t) {
  using T = VolkDeviceTable;
  make_faulty<&T::vkAllocateMemory>(t);
  make_faulty<&T::vkCreateBuffer>(t);
  make_faulty<&T::vkBindBufferMemory>(t);
  make_faulty<&T::vkCreateCommandPool>(t);
  make_faulty<&T::vkCreateFence>(t);
  make_faulty<&T::vkCreateComputePipelines>(t);
  make_faulty<&T::vkResetFences>(t);
  make_faulty<&T::vkQueueSubmit>(t);
}

/// What a soak ends after: a time, or a number of runs that were right.
struct Length {
  double seconds = 0;
  uint64_t runs = 0;  // instead of the time, unless it is 0
  Length quarter(int count) const {
    return {seconds * count / 4, runs * static_cast<uint64_t>(count) / 4};
  }
};

struct Totals {
  std::atomic<uint64_t> runs = 0, sessions = 0, timeouts = 0, out_of_memory = 0, faults = 0,
                        heap_faults = 0, freed = 0;
};

class Soak : public testing::TestWithParam<std::string> {
 protected:
  static constexpr uint64_t kHeap = uint64_t{64} << 20;
  static constexpr size_t kLaunches = 3;

  void SetUp() override {
    auto opened =
        vulkan::open(std::stoul(GetParam().substr(7)), {}, hook_table, [this](vulkan::Driver& d) {
          for (auto& heap : d.memory.memoryHeaps) heap.size = kHeap;
          driver_ = &d;
        });
    ASSERT_OK(opened.status());
    device_.reset(capi::make_handle(std::make_shared<reprise_device>(
        reprise_device{std::shared_ptr<Device>(std::move(*opened))})));
    package_.reset(capi::make_handle(std::make_shared<reprise_package>(chain(kLaunches, 0, true))));
  }

  /// Shared by the threads, which replace and free them while others run.
  struct Place {
    std::mutex mutex;
    reprise_session* session = nullptr;
  };

  reprise_session* make(uint64_t timeout_ms, uint32_t in_flight, reprise_error* error) {
    reprise_session_options options = REPRISE_SESSION_OPTIONS_INIT;
    options.timeout_ms = timeout_ms;
    options.max_in_flight = in_flight;
    reprise_session* session = nullptr;
    if (reprise_session_create(package_.get(), device_.get(), &options, &session, error) ==
        REPRISE_OK)
      ++totals_.sessions;
    return session;
  }

  /// Counts the error, or fails the test.
  void account(reprise_status status, const reprise_error& error) {
    const std::string_view text = error.message;
    const auto has = [&](const char* part) { return text.find(part) != std::string_view::npos; };
    if (status == REPRISE_USAGE && has("was freed")) {
      ++totals_.freed;
    } else if (status == REPRISE_TIMEOUT && has("did not finish")) {
      ++totals_.timeouts;
    } else if (status == REPRISE_OUT_OF_MEMORY && has("VK_ERROR_OUT_OF_DEVICE_MEMORY")) {
      ++totals_.out_of_memory;
    } else if (status == REPRISE_OUT_OF_MEMORY && has("VK_ERROR_OUT_OF_HOST_MEMORY")) {
      ++totals_.faults;
    } else if (status == REPRISE_OUT_OF_MEMORY && text == "out of host memory") {
      ++totals_.heap_faults;
    } else {
      ADD_FAILURE() << status << ": " << error.message;
    }
  }

  void run(reprise_session* session, std::mt19937& random) {
    static constexpr std::array<size_t, 4> kSmall{1, 64, 65, 1000};
    static constexpr std::array<size_t, 2> kLarge{20'000, 300'000};
    const size_t n = random() % 16 == 0 ? kLarge[random() % 2] : kSmall[random() % 4];
    const std::vector<float> x = ramp(n, static_cast<float>(1 + random() % 7));
    std::vector<float> y(n, -1.0F);
    reprise_error error{};
    reprise_status status = REPRISE_OK;
    const auto fault = random() % 64;
    if (fault == 0) {
      const CountAllocations failing(1 + random() % 40);
      status = run_once(session, x, y, &error);
    } else {
      if (fault == 1) calls_until_fault = 1 + random() % 8;
      status = run_once(session, x, y, &error);
      calls_until_fault = 0;
    }
    if (status != REPRISE_OK) return account(status, error);
    ++totals_.runs;
    for (size_t i = 0; i < n; ++i) {
      if (y[i] == x[i] + static_cast<float>(kLaunches)) continue;
      ADD_FAILURE() << "element " << i << " of " << n << " is " << y[i] << ", not "
                    << x[i] + static_cast<float>(kLaunches);
      return;
    }
  }

  void fill_memory(std::mt19937& random) {
    std::vector<Owned<reprise_buffer>> held;
    for (reprise_status status = REPRISE_OK; status == REPRISE_OK;) {
      reprise_buffer* buffer = nullptr;
      reprise_error error{};
      status = reprise_buffer_create(device_.get(), kHeap / 16, &buffer, &error);
      if (status == REPRISE_OK) {
        held.emplace_back(buffer);
      } else {
        account(status, error);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
  }

  template <typename F>
  void work(uint64_t seed, const F& over) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    while (!over() && !HasFailure()) {
      const auto what = random() % 100;
      Place& place = places_[random() % places_.size()];
      reprise_session* session = nullptr;
      {
        const std::lock_guard lock(place.mutex);
        session = place.session;
      }
      if (what == 0) {
        fill_memory(random);
      } else if (what < 4 || !session) {
        replace(place, random);
      } else {
        run(session, random);
      }
    }
  }

  // The old session may have runs in flight, or about to enter.
  void replace(Place& place, std::mt19937& random) {
    reprise_error error{};
    if (random() % 8 == 0) calls_until_fault = 1 + random() % 30;
    reprise_session* made =
        make(random() % 4 == 0 ? 1 : 60'000, static_cast<uint32_t>(1 + random() % 4), &error);
    calls_until_fault = 0;
    if (!made) return account(error.status, error);
    {
      const std::lock_guard lock(place.mutex);
      std::swap(made, place.session);
    }
    reprise_session_free(made);
  }

  void soak(const Length& length, size_t threads, uint64_t seed) {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(length.seconds));
    const uint64_t last_run = totals_.runs + length.runs;
    const auto over = [&] {
      return length.runs == 0 ? Clock::now() >= end : totals_.runs >= last_run;
    };
    std::vector<std::thread> pool;
    for (size_t t = 0; t < threads; ++t) pool.emplace_back([&, t] { work(seed * 1000 + t, over); });
    for (std::thread& t : pool) t.join();
    for (Place& place : places_) {
      reprise_session_free(place.session);
      place.session = nullptr;
    }
  }

  Owned<reprise_device> device_;
  Owned<reprise_package> package_;
  vulkan::Driver* driver_ = nullptr;
  std::array<Place, 3> places_;
  Totals totals_;
};

TEST_P(Soak, ResultsAreRightAndNothingIsLeft) {
  const Length length{static_cast<double>(setting("REPRISE_SOAK_SECONDS", 4)),
                      setting("REPRISE_SOAK_RUNS", 0)};
  const size_t threads = setting("REPRISE_SOAK_THREADS", 8);
  const uint64_t seed = setting("REPRISE_SOAK_SEED", 1);
  // Drivers keep some memory of their first runs. A busy machine may need longer for these.
  constexpr uint64_t kFirstSessions = 24;
  do soak(length.quarter(1), threads, seed);
  while (totals_.sessions < kFirstSessions);
  const uint64_t before = resident_bytes();
  soak(length.quarter(3), threads, seed + 1);
  const uint64_t after = resident_bytes();
  for (const auto& used : driver_->heap_bytes) EXPECT_EQ(used, 0U);  // what sessions had is freed
  const uint64_t growth = after > before ? after - before : 0;
  // AddressSanitizer keeps freed memory for a while, and its leak checker looks for what is left.
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(growth, uint64_t{64} << 20) << before << " to " << after;
#endif
  reprise_error error{};
  const Owned<reprise_session> last(make(60'000, 2, &error));
  ASSERT_TRUE(last) << error.message;
  const std::vector<float> x = ramp(1000);
  std::vector<float> y(1000);
  ASSERT_EQ(run_once(last.get(), x, y, &error), REPRISE_OK) << error.message;
  EXPECT_GT(totals_.runs, 0U);
  std::printf(
      "%s, seed %llu: %llu runs right, %llu sessions; refused: %llu timed out, %llu without device "
      "memory, %llu by driver faults, %llu without heap, %llu freed; memory %.1f MB, grown by "
      "%.1f\n",
      GetParam().c_str(), static_cast<unsigned long long>(seed),
      static_cast<unsigned long long>(totals_.runs),
      static_cast<unsigned long long>(totals_.sessions),
      static_cast<unsigned long long>(totals_.timeouts),
      static_cast<unsigned long long>(totals_.out_of_memory),
      static_cast<unsigned long long>(totals_.faults),
      static_cast<unsigned long long>(totals_.heap_faults),
      static_cast<unsigned long long>(totals_.freed), static_cast<double>(after) / 1e6,
      static_cast<double>(growth) / 1e6);
}

// Each of the sessions needs more than half of the memory for a run.
TEST_P(Soak, SessionsGiveBackWhatTheyKeepBetweenRuns) {
  reprise_error error{};
  const Owned<reprise_session> a(make(0, 2, &error)), b(make(0, 2, &error));
  ASSERT_TRUE(a && b) << error.message;
  const std::vector<float> x = ramp(3'000'000);
  std::vector<float> y(x.size());
  for (int round = 0; round < 2; ++round) {
    for (reprise_session* s : {a.get(), b.get()})
      ASSERT_EQ(run_once(s, x, y, &error), REPRISE_OK) << error.message;
  }
  // One that fails keeps nothing, either.
  const std::vector<float> large = ramp(8'000'000);
  std::vector<float> out(large.size());
  EXPECT_EQ(run_once(a.get(), large, out, &error), REPRISE_OUT_OF_MEMORY);
  EXPECT_NE(std::string(error.message).find("OUT_OF_DEVICE_MEMORY"), std::string::npos)
      << error.message;
  uint64_t used = 0;
  for (const auto& heap : driver_->heap_bytes) used += heap;
  EXPECT_LT(used, 1U << 20);
}

std::vector<std::string> vulkan_devices() {
  auto ids = soak_devices();
  std::erase_if(ids, [](const std::string& id) { return !id.starts_with("vulkan:"); });
  return ids;
}

INSTANTIATE_TEST_SUITE_P(Devices, Soak, testing::ValuesIn(vulkan_devices()), id_as_name);

}  // namespace
}  // namespace reprise::test
