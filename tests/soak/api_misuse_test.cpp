// Calls of the C interface that must not be made, and what is said of them.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "runtime/run/session_io.h"
#include "support.h"

namespace reprise::test {
namespace {

std::string first_device() {
  const auto ids = soak_devices();
  return ids.empty() ? "host" : ids.front();
}

class Misuse : public testing::Test {
 protected:
  Misuse() : app_(first_device()), session_(app_.make_session(nullptr, &error_)) {}
  void expect_error(reprise_status status, reprise_status wanted, const std::string& part) {
    EXPECT_EQ(status, wanted) << error_.message;
    EXPECT_NE(std::string(error_.message).find(part), std::string::npos) << error_.message;
  }
  reprise_tensor input() {
    reprise_tensor in = REPRISE_TENSOR_INIT;
    in.name = "x";
    in.rank = 1;
    in.dims[0] = 4;
    in.data = x_.data();
    in.bytes = 16;
    return in;
  }
  static reprise_tensor output(std::vector<float>& y) {
    reprise_tensor out = REPRISE_TENSOR_INIT;
    out.name = "y";
    out.data = y.data();
    out.bytes = y.size() * sizeof(float);
    return out;
  }
  reprise_status run(const reprise_tensor& in) {
    return reprise_session_run(session_.get(), &in, 1, nullptr, 0, nullptr, nullptr, &error_);
  }
  reprise_error error_{};
  App app_;
  Owned<reprise_session> session_;
  std::vector<float> x_{1, 2, 3, 4};
};

TEST_F(Misuse, RunsAreUsedByOneThreadAndInOrder) {
  reprise_run* made = nullptr;
  ASSERT_EQ(reprise_run_create(session_.get(), &made, &error_), REPRISE_OK) << error_.message;
  const Owned<reprise_run> run(made);
  int32_t ended = 0;
  expect_error(reprise_run_submit(made, nullptr, &error_), REPRISE_USAGE, "no bindings");
  expect_error(reprise_run_wait(made, nullptr, nullptr, &error_), REPRISE_USAGE, "not submitted");
  expect_error(reprise_run_bind(made, nullptr, 1, nullptr, 0, &error_), REPRISE_USAGE, "is null");
  expect_error(reprise_run_bind(made, nullptr, 0, nullptr, 0, &error_), REPRISE_INVALID_INPUT,
               "'x'");
  expect_error(reprise_run_submit(made, nullptr, &error_), REPRISE_USAGE, "no bindings");
  const reprise_tensor in = input();
  ASSERT_EQ(reprise_run_bind(made, &in, 1, nullptr, 0, &error_), REPRISE_OK) << error_.message;
  expect_error(reprise_run_poll(made, nullptr, &error_), REPRISE_USAGE, "ended");
  EXPECT_EQ(reprise_run_record(made, nullptr, &error_), REPRISE_USAGE);
  reprise_record_options record = REPRISE_RECORD_OPTIONS_INIT;
  EXPECT_EQ(reprise_run_record(made, &record, &error_), REPRISE_USAGE);
  std::vector<reprise_tensor> wrong(3, in);
  wrong[2].name = nullptr;
  expect_error(reprise_run_bind(made, wrong.data(), 3, nullptr, 0, &error_), REPRISE_USAGE, "name");
  expect_error(reprise_run_submit(made, nullptr, &error_), REPRISE_USAGE, "no bindings");
  ASSERT_EQ(reprise_run_bind(made, &in, 1, nullptr, 0, &error_), REPRISE_OK) << error_.message;
  reprise_submit_options options = REPRISE_SUBMIT_OPTIONS_INIT;
  options.wait_count = 9;
  expect_error(reprise_run_submit(made, &options, &error_), REPRISE_USAGE, "at most 8");
  options.wait_count = 1;
  expect_error(reprise_run_submit(made, &options, &error_), REPRISE_USAGE, "is null");
  ASSERT_EQ(reprise_run_submit(made, nullptr, &error_), REPRISE_OK) << error_.message;
  // Bindings of a run in flight stay as they are.
  const std::vector<reprise_tensor> three(3, in);
  expect_error(reprise_run_bind(made, three.data(), 3, nullptr, 0, &error_), REPRISE_USAGE,
               "in flight");
  {
    const auto held = capi::find_handle(made);
    ASSERT_TRUE(held.ok());
    (*held)->user = reprise_run::User::Call;  // as another thread's call does
    expect_error(reprise_run_wait(made, nullptr, nullptr, &error_), REPRISE_USAGE,
                 "another thread");
    expect_error(reprise_run_poll(made, &ended, &error_), REPRISE_USAGE, "another thread");
    (*held)->user = reprise_run::User::None;
  }
  // A run keeps its session.
  session_.reset();
  reprise_results* results = nullptr;
  ASSERT_EQ(reprise_run_wait(made, &results, nullptr, &error_), REPRISE_OK) << error_.message;
  const Owned<reprise_results> kept(results);
  reprise_tensor out = REPRISE_TENSOR_INIT;
  ASSERT_EQ(reprise_results_get(results, 0, &out, &error_), REPRISE_OK) << error_.message;
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(static_cast<const float*>(out.data)[i], x_[i] + static_cast<float>(app_.launches));
}

TEST_F(Misuse, ARefusedBindLeavesNoBindingsUnlessTheRunIsInFlight) {
  reprise_run* made = nullptr;
  ASSERT_EQ(reprise_run_create(session_.get(), &made, &error_), REPRISE_OK) << error_.message;
  const Owned<reprise_run> run(made);
  const reprise_tensor in = input();
  std::vector<float> y(4);
  reprise_tensor out = output(y);
  for (const bool in_flight : {true, false}) {
    SCOPED_TRACE(in_flight);
    ASSERT_EQ(reprise_run_bind(made, &in, 1, &out, 1, &error_), REPRISE_OK) << error_.message;
    if (in_flight) {
      ASSERT_EQ(reprise_run_submit(made, nullptr, &error_), REPRISE_OK) << error_.message;
    }
    std::vector<reprise_tensor> wrong(1, in), others(1, out);
    wrong[0].bytes = 15;
    EXPECT_NE(reprise_run_bind(made, wrong.data(), 1, others.data(), 1, &error_), REPRISE_OK);
    wrong[0].name = nullptr;
    EXPECT_NE(reprise_run_bind(made, wrong.data(), 1, others.data(), 1, &error_), REPRISE_OK);
    const auto held = capi::find_handle(made);
    ASSERT_TRUE(held.ok());
    EXPECT_EQ((*held)->outputs, in_flight ? &out : nullptr);
    if (in_flight) {
      ASSERT_EQ(reprise_run_wait(made, nullptr, nullptr, &error_), REPRISE_OK) << error_.message;
      EXPECT_EQ(y[3], x_[3] + static_cast<float>(app_.launches));
      EXPECT_EQ(out.dims[0], 4);
    } else {
      expect_error(reprise_run_submit(made, nullptr, &error_), REPRISE_USAGE, "no bindings");
    }
  }
}

TEST_F(Misuse, AnOutputInTheMemoryOfTheCallerIsNoValue) {
  const reprise_tensor in = input();
  std::vector<float> y(4);
  reprise_tensor out = output(y), told = REPRISE_TENSOR_INIT;
  reprise_results* made = nullptr;
  ASSERT_EQ(reprise_session_run(session_.get(), &in, 1, &out, 1, &made, nullptr, &error_),
            REPRISE_OK)
      << error_.message;
  const Owned<reprise_results> results(made);
  reprise_value* value = nullptr;
  expect_error(reprise_results_get_value(made, 0, &value, &error_), REPRISE_USAGE,
               "output 'y' was written to the memory that the call of the run gave");
  EXPECT_EQ(value, nullptr);
  ASSERT_EQ(reprise_results_get(made, 0, &told, &error_), REPRISE_OK) << error_.message;
  EXPECT_EQ(told.dims[0], 4);
  EXPECT_EQ(told.data, nullptr);
  EXPECT_EQ(told.name, nullptr);
}

TEST_F(Misuse, AValueHasTheBytesOfItsShape) {
  reprise_tensor in = input();
  reprise_value* made = nullptr;
  ASSERT_EQ(reprise_value_from_tensor(&in, &made, &error_), REPRISE_OK) << error_.message;
  const Owned<reprise_value> value(made);
  in.data = nullptr;
  in.bytes = 0;
  in.value = made;
  EXPECT_EQ(run(in), REPRISE_OK) << error_.message;
  in.row_pitch = 64;  // the rows of a value follow each other
  expect_error(run(in), REPRISE_INVALID_INPUT, "needs 196 bytes, its value has 16");
  in.row_pitch = 0;
  const auto held = capi::find_handle(made);
  ASSERT_TRUE(held.ok());
  (*held)->value.borrow_again(DType::F32, std::vector<int64_t>{4}, {});
  expect_error(run(in), REPRISE_INVALID_INPUT, "needs 16 bytes, its value has 0");
}

// The extent of such rows exceeds 64 bits, and would look small.
TEST_F(Misuse, RowsEndWithinTheirMemory) {
  const uint64_t backwards = uint64_t{0} - 4, wraps = uint64_t{1} << 62;
  for (const uint64_t pitch : {backwards, wraps, (uint64_t{1} << 32) + 4}) {
    std::vector<float> y(5);
    reprise_tensor in = input(), out = output(y);
    in.row_pitch = pitch;
    in.bytes = static_cast<size_t>(3 * pitch + 4);
    expect_error(run(in), REPRISE_INVALID_INPUT, "input 'x' has a row pitch of ");
    in = input();
    out.row_pitch = pitch;
    expect_error(reprise_session_run(session_.get(), &in, 1, &out, 1, nullptr, nullptr, &error_),
                 REPRISE_INVALID_INPUT, "output 'y' has a row pitch of ");
    EXPECT_EQ(y, std::vector<float>(5));
  }
  const Rows rows{.count = uint64_t{1} << 40, .bytes = 4, .pitch = uint64_t{1} << 32};
  EXPECT_EQ(check_pitch("input", "x", rows).code(), Code::InvalidInput);
}

TEST_F(Misuse, StructsOfNoVersionAreRefused) {
  reprise_device* device = nullptr;
  for (const size_t size : {size_t{0}, size_t{4}, size_t{12}, size_t{20}, size_t{100'001}}) {
    reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
    options.struct_size = size;
    expect_error(reprise_device_open("host", &options, &device, &error_), REPRISE_USAGE,
                 "reprise_device_options: struct_size " + std::to_string(size));
    reprise_session_options session = REPRISE_SESSION_OPTIONS_INIT;
    session.struct_size = size;
    EXPECT_EQ(app_.make_session(&session, &error_), nullptr);
    expect_error(error_.status, REPRISE_USAGE, "reprise_session_options: struct_size");
    reprise_tensor in = input();
    in.struct_size = size;
    expect_error(run(in), REPRISE_USAGE, "reprise_tensor: struct_size");
    reprise_slot slot = REPRISE_SLOT_INIT;
    slot.struct_size = size;
    expect_error(reprise_session_input(session_.get(), 0, &slot, &error_), REPRISE_USAGE,
                 "reprise_slot: struct_size");
  }
}

TEST_F(Misuse, ReservedMembersAreZero) {
  reprise_device* device = nullptr;
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  options.reserved = 1;
  expect_error(reprise_device_open("host", &options, &device, &error_), REPRISE_USAGE,
               "the reserved member of a reprise_device_options");
  options.reserved = 0;
  reprise_vulkan_device vulkan = REPRISE_VULKAN_DEVICE_INIT;
  vulkan.reserved = 1;
  options.vulkan = &vulkan;
  expect_error(reprise_device_open("vulkan", &options, &device, &error_), REPRISE_USAGE,
               "the reserved member of a reprise_vulkan_device");
  reprise_external_memory memory = REPRISE_EXTERNAL_MEMORY_INIT;
  memory.size = memory.bytes = 64;
  memory.reserved = 1;
  reprise_buffer* buffer = nullptr;
  if (first_device() == "host") GTEST_SKIP() << "the host has no buffers";
  expect_error(reprise_buffer_import(app_.device.get(), &memory, &buffer, &error_), REPRISE_USAGE,
               "the reserved member of a reprise_external_memory");
}

TEST_F(Misuse, ALaterVersionIsTakenUnlessItAsksForMore) {
  struct {
    reprise_session_options options;
    uint64_t later;
  } later = {REPRISE_SESSION_OPTIONS_INIT, 0};
  later.options.struct_size = sizeof later;
  EXPECT_NE(app_.make_session(&later.options, &error_), nullptr) << error_.message;
  later.later = 1;
  EXPECT_EQ(app_.make_session(&later.options, &error_), nullptr);
  expect_error(error_.status, REPRISE_USAGE, "later version");
}

TEST_F(Misuse, TensorsMeanOneThing) {
  for (const int dtype : {0, 25, 257, -1}) {
    reprise_tensor in = input();
    std::memcpy(&in.dtype, &dtype, sizeof dtype);  // no value of the enum
    expect_error(run(in), REPRISE_INVALID_INPUT, "unknown dtype");
  }
  EXPECT_EQ(reprise_dtype_size(static_cast<reprise_dtype>(0)), 0U);
  EXPECT_EQ(reprise_dtype_size(static_cast<reprise_dtype>(25)), 0U);
  EXPECT_EQ(reprise_dtype_size(REPRISE_F64), 8U);
  reprise_buffer* made = nullptr;
  ASSERT_EQ(reprise_buffer_create(app_.device.get(), 64, &made, &error_), REPRISE_OK);
  Owned<reprise_buffer> buffer(made);
  reprise_tensor in = input();
  in.buffer = made;
  expect_error(run(in), REPRISE_INVALID_INPUT, "more than one of `data`, `buffer` and `value`");
  in.data = nullptr;
  in.bytes = 0;
  EXPECT_EQ(run(in), REPRISE_OK) << error_.message;
  buffer.reset();
  expect_error(run(in), REPRISE_USAGE, "was freed");
  reprise_tensor mixed[] = {input(), input()};
  mixed[1].struct_size = sizeof(reprise_tensor) + 8;
  expect_error(reprise_session_run(session_.get(), mixed, 2, nullptr, 0, nullptr, nullptr, &error_),
               REPRISE_USAGE, "differ in struct_size");
}

TEST_F(Misuse, LentDevicesAreComplete) {
  reprise_device* device = nullptr;
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  const reprise_vulkan_device vulkan = REPRISE_VULKAN_DEVICE_INIT;
  options.vulkan = &vulkan;
  expect_error(reprise_device_open("vulkan", &options, &device, &error_), REPRISE_USAGE,
               "reprise_vulkan_device: `device` is null");
  const reprise_cuda_device cuda = REPRISE_CUDA_DEVICE_INIT;
  options.vulkan = nullptr;
  options.cuda = &cuda;
  expect_error(reprise_device_open("cuda", &options, &device, &error_), REPRISE_USAGE,
               "reprise_cuda_device: `context` is null");
}

TEST_F(Misuse, FreedAndForeignHandlesAreFound) {
  reprise_session* const freed = session_.release();
  reprise_session_free(freed);
  reprise_session_free(freed);
  expect_error(reprise_session_run(freed, nullptr, 0, nullptr, 0, nullptr, nullptr, &error_),
               REPRISE_USAGE, "session handle was freed");
  EXPECT_EQ(reprise_session_input_count(freed), 0U);
  auto* const other = reinterpret_cast<reprise_session*>(app_.package.get());
  expect_error(reprise_session_run(other, nullptr, 0, nullptr, 0, nullptr, nullptr, &error_),
               REPRISE_USAGE, "session handle");
  reprise_session_free(other);
  EXPECT_NE(app_.make_session(nullptr, &error_), nullptr) << error_.message;
}

// Whoever frees and whoever runs need not know of each other.
TEST_F(Misuse, ASessionMayBeFreedWhileARunEnters) {
  const std::vector<float> x{1, 2, 3};
  int done = 0;
  for (int round = 0; round < 20; ++round) {
    reprise_session* const session = app_.make_session(nullptr, &error_).release();
    ASSERT_TRUE(session) << error_.message;
    std::atomic<bool> go = false;
    std::array<reprise_status, 4> status{};
    std::vector<std::thread> threads;
    for (reprise_status& s : status) {
      threads.emplace_back([&] {
        std::vector<float> y(3);
        reprise_error error{};
        while (!go) {
        }
        while ((s = run_once(session, x, y, &error)) == REPRISE_OK) EXPECT_EQ(y[2], 6.0F);
      });
    }
    go = true;
    std::this_thread::sleep_for(std::chrono::microseconds(round * 100));
    reprise_session_free(session);
    for (std::thread& t : threads) t.join();
    for (const reprise_status s : status) done += s == REPRISE_USAGE ? 1 : 0;
  }
  EXPECT_EQ(done, 80);
}

TEST_F(Misuse, AfterForkEveryCallFailsAtOnce) {
  std::atomic<bool> over = false;
  std::thread busy([&] {  // locks may be held when the process is copied
    std::vector<float> y(x_.size());
    reprise_error error{};
    while (!over) run_once(session_.get(), x_, y, &error);
  });
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      reprise_error error{};
      const bool refused = reprise_session_run(session_.get(), nullptr, 0, nullptr, 0, nullptr,
                                               nullptr, &error) == REPRISE_USAGE &&
                           std::strstr(error.message, "parent process") != nullptr;
      reprise_session_free(session_.get());
      reprise_device_free(app_.device.get());
      reprise_package_free(app_.package.get());
      ::_exit(refused ? 0 : 1);
    }
    ASSERT_GT(child, 0);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  over = true;
  busy.join();
  EXPECT_EQ(run(input()), REPRISE_OK) << error_.message;
}

TEST_F(Misuse, WithoutFileDescriptorsThatIsSaid) {
  std::vector<int> taken;
  for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(fd);
  reprise_device* device = nullptr;
  const reprise_status status = reprise_device_open("vulkan:0", nullptr, &device, &error_);
  for (const int fd : taken) ::close(fd);
  expect_error(status, REPRISE_DEVICE, "no file descriptor is left");
}

TEST_F(Misuse, ArenasOutliveTheirHandles) {
  reprise_arena* made = nullptr;
  expect_error(reprise_arena_create(app_.device.get(), nullptr, &error_), REPRISE_USAGE, "out");
  ASSERT_EQ(reprise_arena_create(app_.device.get(), &made, &error_), REPRISE_OK);
  reprise_session_options options = REPRISE_SESSION_OPTIONS_INIT;
  options.arena = made;
  const auto session = app_.make_session(&options, &error_);
  ASSERT_TRUE(session) << error_.message;
  std::vector<float> y(4);
  ASSERT_EQ(run_once(session.get(), x_, y, &error_), REPRISE_OK) << error_.message;
  uint64_t bytes = 0;
  ASSERT_EQ(reprise_arena_get_bytes(made, &bytes, &error_), REPRISE_OK);
  EXPECT_EQ(bytes > 0, !soak_devices().empty()) << bytes;
  expect_error(reprise_arena_get_bytes(made, nullptr, &error_), REPRISE_USAGE, "bytes");
  reprise_arena_free(made);
  expect_error(reprise_arena_get_bytes(made, &bytes, &error_), REPRISE_USAGE, "arena");
  EXPECT_FALSE(app_.make_session(&options, &error_)) << "the arena of the options was freed";
  ASSERT_EQ(run_once(session.get(), x_, y, &error_), REPRISE_OK) << error_.message;
  EXPECT_EQ(y, (std::vector<float>{4, 5, 6, 7}));
  // On another device, the session has memory of its own, and from then on.
  App other(first_device());
  uint64_t held = 0;
  for (reprise_device* device : {other.device.get(), app_.device.get()}) {
    ASSERT_EQ(reprise_session_reopen(session.get(), device, &error_), REPRISE_OK) << error_.message;
    ASSERT_EQ(run_once(session.get(), x_, y, &error_), REPRISE_OK) << error_.message;
    EXPECT_EQ(y, (std::vector<float>{4, 5, 6, 7}));
    reprise_session_info info = REPRISE_SESSION_INFO_INIT;
    ASSERT_EQ(reprise_session_get_info(session.get(), &info, &error_), REPRISE_OK);
    if (device == app_.device.get()) {
      EXPECT_EQ(info.device_bytes, held);
    }
    held = info.device_bytes;
  }
}

TEST_F(Misuse, ArenasBelongToOneDevice) {
  if (soak_devices().empty()) GTEST_SKIP() << "there is no device but the host";
  App host("host");
  reprise_arena* made = nullptr;
  ASSERT_EQ(reprise_arena_create(host.device.get(), &made, &error_), REPRISE_OK);
  reprise_session_options options = REPRISE_SESSION_OPTIONS_INIT;
  options.arena = made;
  EXPECT_TRUE(host.make_session(&options, &error_)) << error_.message;
  EXPECT_FALSE(app_.make_session(&options, &error_));
  reprise_arena_free(made);
  EXPECT_NE(std::string(error_.message).find("belongs to the host"), std::string::npos)
      << error_.message;
}

}  // namespace
}  // namespace reprise::test
