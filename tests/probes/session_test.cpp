// Sessions that check their kernels: what they take in place of a variant that a driver gets wrong.
#include <reprise/reprise.h>

#include <filesystem>

#include "runtime/session/session.h"
#include "tests/probes/checks.h"
#include "tests/probes/layer.h"

namespace reprise::test {
namespace {

constexpr int64_t kRows = 96, kDepth = 128, kColumns = 64;
constexpr const char* kModel =
    "graph model\n"
    "input x: float32[96,128]\n"
    "input w: float32[128,64]\n"
    "const s: float32[]{0.3}\n"
    "t = Mul(x, s) @14\n"
    "y = MatMul(t, w) @13\n"
    "output y\n";
// Shuffle becomes ShuffleXor: only variants of a known subgroup size use it.
constexpr const char* kShuffleFaults = "opcode:345:346";
// No variant does without multiplication.
constexpr const char* kWrongProducts = "opcode:133:129";

HostTensor numbers(std::vector<int64_t> dims) {
  std::vector<float> out(static_cast<size_t>(dims[0] * dims[1]));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  return HostTensor::from(DType::F32, std::move(dims), out);
}

/// lavapipe takes a variant for subgroups first.
class SessionsThatCheck : public testing::Test {
 protected:
  void SetUp() override {
    package_ = compiled(kModel);
    ASSERT_TRUE(package_);
    for (const auto& d : devices()) {
      if (d->info().facts.subgroup_arithmetic && d->info().facts.subgroup_size == 8) device_ = d;
    }
    ASSERT_TRUE(device_) << "no device with subgroups of 8; install mesa-vulkan-drivers";
    options_.check_kernels = true;
    options_.cache_dir = cache_.path().string();
    options_.log = [this](Severity, const std::string& line) { log_.push_back(line); };
  }

  std::unique_ptr<Session> create() {
    auto s = Session::create(package_, device_, options_);
    EXPECT_TRUE(s.ok()) << s.status().message();
    return s.ok() ? std::move(*s) : nullptr;
  }

  /// The largest difference from the host.
  double error_of(Session& s) const {
    const HostTensor x = numbers({kRows, kDepth}), w = numbers({kDepth, kColumns});
    const std::vector<Binding> inputs{{.name = "x", .host = &x}, {.name = "w", .host = &w}};
    auto host = Session::create(package_, nullptr);
    EXPECT_TRUE(host.ok());
    auto expected = (*host)->run(inputs);
    auto found = s.run(inputs);
    EXPECT_TRUE(expected.ok() && found.ok());
    double error = 0;
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      error = std::max(error, std::abs(static_cast<double>((*expected)[0].data<float>()[i]) -
                                       static_cast<double>((*found)[0].data<float>()[i])));
    }
    return error;
  }

  size_t verdicts() const {
    size_t n = 0;
    for (const auto& f : std::filesystem::directory_iterator(cache_.path()))
      n += f.path().extension() == ".verdict" ? 1 : 0;
    return n;
  }

  const TempDir cache_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<package::Package> package_;
  SessionOptions options_;
  std::vector<std::string> log_;
};

TEST_F(SessionsThatCheck, TakeTheFirstVariantOfAHealthyDriver) {
  const auto s = create();
  ASSERT_TRUE(s);
  EXPECT_EQ(s->variant(), package_->variants[0].name);
  EXPECT_TRUE(log_.empty()) << log_[0];
  EXPECT_LT(error_of(*s), 1e-5);
  EXPECT_EQ(verdicts(), 1U);
}

TEST_F(SessionsThatCheck, TakeAnotherVariantInPlaceOfAWrongOne) {
  const Faults faults(kShuffleFaults);
  const auto s = create();
  ASSERT_TRUE(s);
  ASSERT_GT(faults.count(), 0U) << "no kernel uses what is wrong";
  EXPECT_NE(s->variant(), package_->variants[0].name);
  EXPECT_NE(s->variant(), "host");
  EXPECT_LT(error_of(*s), 1e-5);
  ASSERT_FALSE(log_.empty());
  for (const std::string& part :
       {device_->info().driver, package_->variants[0].name,
        package_->variants[0].plan.kernels[0].name, std::string("must be")}) {
    EXPECT_NE(log_[0].find(part), std::string::npos) << part << " is not in: " << log_[0];
  }
  ASSERT_FALSE(s->variant_notes().empty());
  // Without the check, the same driver gives wrong numbers.
  options_.check_kernels = false;
  const auto trusting = create();
  ASSERT_TRUE(trusting);
  EXPECT_GT(error_of(*trusting), 1e-3);
}

TEST_F(SessionsThatCheck, RunOnTheHostWhereEveryVariantIsWrong) {
  const Faults faults(kWrongProducts);
  const auto s = create();
  ASSERT_TRUE(s);
  EXPECT_EQ(s->variant(), "host");
  EXPECT_EQ(error_of(*s), 0);
  EXPECT_GE(log_.size(), 2U);
  options_.fullgraph = true;
  const auto refused = Session::create(package_, device_, options_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::Device);
  EXPECT_NE(refused.status().message().find("fullgraph"), std::string::npos);
}

TEST_F(SessionsThatCheck, RememberWhatTheyFound) {
  std::string variant;
  {
    const Faults faults(kShuffleFaults);
    const auto s = create();
    ASSERT_TRUE(s);
    variant = s->variant();
  }
  const size_t known = verdicts();
  EXPECT_GE(known, 2U);
  const uint64_t submits = device_->counters().submits;
  log_.clear();
  const auto again = create();
  ASSERT_TRUE(again);
  ASSERT_FALSE(log_.empty());
  EXPECT_NE(log_[0].find("known from " + cache_.path().string()), std::string::npos) << log_[0];
  EXPECT_EQ(again->variant(), variant);
  EXPECT_EQ(device_->counters().submits, submits);
  // Another folder knows nothing.
  const TempDir other;
  options_.cache_dir = other.path().string();
  const auto afresh = create();
  ASSERT_TRUE(afresh);
  EXPECT_EQ(afresh->variant(), package_->variants[0].name);
  EXPECT_GT(device_->counters().submits, submits);
}

TEST_F(SessionsThatCheck, IgnoreVerdictsThatAreDamaged) {
  ASSERT_TRUE(create());
  std::filesystem::path file;
  for (const auto& f : std::filesystem::directory_iterator(cache_.path())) {
    if (f.path().extension() == ".verdict") file = f.path();
  }
  const std::string sound = read_file(file);
  ASSERT_TRUE(sound.ends_with("\nright\n")) << sound;
  const std::string head = sound.substr(0, sound.size() - std::string("right\n").size());
  for (const std::string& damaged :
       {std::string(), std::string("something else\n"), head, head + "right", head + "righ\n",
        head + "wrong", sound + "right\n", sound.substr(0, head.size() - 1)}) {
    write_file(file, damaged);
    log_.clear();
    const auto s = create();
    ASSERT_TRUE(s);
    EXPECT_EQ(s->variant(), package_->variants[0].name);
    ASSERT_EQ(log_.size(), 1U) << damaged;
    EXPECT_NE(log_[0].find("damaged"), std::string::npos) << log_[0];
    EXPECT_EQ(read_file(file), sound);
  }
}

/// Each kernel runs at least twice.
TEST_F(SessionsThatCheck, SeeRunsThatAreLost) {
  const Faults faults("skip:2");
  const auto s = create();
  ASSERT_TRUE(s);
  EXPECT_GT(faults.count(), 0U);
  ASSERT_FALSE(log_.empty());
  EXPECT_NE(log_[0].find("is not used"), std::string::npos) << log_[0];
}

TEST_F(SessionsThatCheck, WorkWithoutAFolderAndWithoutProbes) {
  options_.cache_dir.clear();
  ASSERT_TRUE(create());
  EXPECT_EQ(verdicts(), 0U);
  for (package::Variant& v : package_->variants) v.probes.clear();
  const Faults faults(kShuffleFaults);
  const auto s = create();
  ASSERT_TRUE(s);
  EXPECT_EQ(s->variant(), package_->variants[0].name);
}

TEST_F(SessionsThatCheck, AreMadeInC) {
  const TempDir folder;
  const std::string path = (folder / "model.rpk").string();
  ASSERT_TRUE(package::write(*package_, path).ok());
  const Faults faults(kShuffleFaults);
  reprise_error error;
  reprise_package* package = nullptr;
  ASSERT_EQ(reprise_package_open(path.c_str(), &package, &error), REPRISE_OK) << error.message;
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  options.cache_dir = options_.cache_dir.c_str();
  options.log = [](void* user, reprise_severity, const char* line) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(line);
  };
  options.log_user = &log_;
  reprise_device* device = nullptr;
  ASSERT_EQ(reprise_device_open(device_->info().id.c_str(), &options, &device, &error), REPRISE_OK)
      << error.message;
  reprise_session_options session_options = REPRISE_SESSION_OPTIONS_INIT;
  session_options.check_kernels = 1;
  reprise_session* session = nullptr;
  EXPECT_EQ(reprise_session_create(package, device, &session_options, &session, &error), REPRISE_OK)
      << error.message;
  ASSERT_FALSE(log_.empty());
  EXPECT_NE(log_[0].find("is not used"), std::string::npos) << log_[0];
  EXPECT_GE(verdicts(), 2U);
  reprise_session_free(session);
  reprise_device_free(device);
  reprise_package_free(package);
}

}  // namespace
}  // namespace reprise::test
