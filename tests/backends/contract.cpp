#include "contract.h"

#include <algorithm>
#include <cstdlib>

namespace reprise::test {
namespace {

struct Excuse {
  const char* name;  // of the case
  const char* kind;  // of device: the id up to its colon
  const char* reason;
};

constexpr const char* kNoBuffers = "the host has no device buffers: runs use the caller's memory";
constexpr const char* kNothingRecorded = "the host records and launches nothing";
constexpr const char* kNoTimeLimit = "the host does not interrupt a kernel";
constexpr const char* kNoArena = "the host has no arena";
constexpr const char* kWeightsStay = "the host uses weights in the memory of the package";
constexpr Excuse kExcuses[] = {
    {"TransfersStayInsideTheirBuffers", "host", kNoBuffers},
    {"TransfersOfAnySizeAndPlace", "host", kNoBuffers},
    {"TransfersOfManyMegabytes", "host", kNoBuffers},
    {"DeviceMemoryIsUsedInPlace", "host", kNoBuffers},
    {"DeviceBuffersAreNotCopied", "host", kNoBuffers},
    {"OutputsInDeviceMemoryMayBeCopies", "host", kNoBuffers},
    {"BuffersOfAnotherDeviceAreRefused", "host", kNoBuffers},
    {"AnApplicationsDeviceAndMemoryAreBorrowed", "host", kNoBuffers},
    {"ImagesOfAnApplicationAreThoseOfItsVulkanDevice", "host", kNoBuffers},
    {"ObjectsMayOutliveTheirDevice", "host", kNoBuffers},
    {"CopiesAreOrdered", "host", kNothingRecorded},
    {"ARecordingIsSubmittedOnceAtATime", "host", kNothingRecorded},
    {"ARunThatTimedOutIsWaitedForWhenItsObjectsGo", "host", kNothingRecorded},
    {"BlocksOutsideTheirBufferAreRefused", "host", kNothingRecorded},
    {"BlocksOutsideTheirBufferAreRefused", "vulkan", "the device reads blocks, not the host"},
    {"WarmUpTouchesEveryKernelAndComputesNothing", "host", kNothingRecorded},
    {"KernelsThatDoNotFitAreRefusedByName", "host", kNothingRecorded},
    {"KernelsAreBuiltWithoutThreadsToo", "host", kNothingRecorded},
    {"ManySizesUseTheMemoryOfTheLargest", "host", "the host frees what a run used"},
    {"TimestampsAndRecordingAgain", "host", kNothingRecorded},
    {"ImpossibleSizesNameTheTensor", "host", "it computes what fits its memory"},
    {"MemoryIsSharedUnlessIsolated", "host", kNoArena},
    {"EqualContentsAreUploadedOnce", "host", kWeightsStay},
    {"OfOtherContentsOnlyThoseThatAreEqual", "host", kWeightsStay},
    {"TheyLiveAsLongAsASession", "host", kWeightsStay},
    {"ItIsAsLargeAsTheLargestNeed", "host", kNoArena},
    {"RunsTakeTurns", "host", kNoArena},
    {"CallsOfManyThreadsWait", "host", kNoArena},
    {"IdleMemoryIsFreed", "host", kNoArena},
    {"AnArenaOfAnotherDeviceIsRefused", "host", kNoArena},
    {"ALateRunKeepsTheSharedArena", "host", kNoArena},
    {"WaitingBehindOtherWorkIsNoFault", "host", kNoTimeLimit},
    {"LateRunsKeepTheirPlaceAndTheirMemoryIsUsedAgain", "host", kNoTimeLimit},
    {"SemaphoresOfTheApplicationOrderRuns", "host", "the host has no semaphores"},
    {"ARunIsPartOfACommandBuffer", "host", "the host has no command buffers"},
    {"LateRunsAreErrorsOfTheirOwn", "host", kNoTimeLimit},
    {"RunsThatNobodyWaitedForAreInOrder", "host", kNoBuffers},
    {"RunsThatNobodyWaitedForAreInOrder", "cuda",
     "runs have streams of their own unless the application lends one"},
    {"BranchesShareMemoryWithoutHarm", "host", "its kernel is unknown to the host"},
};

std::string kind_of(const std::string& id) {
  return id.substr(0, id.find(':'));
}

}  // namespace

void Contract::SetUp() {
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  for (const Excuse& e : kExcuses) {
    if (test.substr(0, test.find('/')) == e.name && kind_of(GetParam()) == e.kind)
      GTEST_SKIP() << GetParam() << ": " << e.reason;
  }
}

void DeviceContract::SetUp() {
  Contract::SetUp();
  if (IsSkipped()) return;
  device_ = open();
  ASSERT_TRUE(device_);
}

void Contract::TearDown() {
  const std::lock_guard lock(mutex_);
  for (const std::string& m : messages_) ADD_FAILURE() << m;
}

std::shared_ptr<Device> Contract::open(BackendOptions options) {
  options.validation = kind_of(GetParam()) == "vulkan" && !options.vulkan.device &&
                       std::getenv("REPRISE_TEST_VALIDATION") != nullptr;
  options.log = [this](Severity, const std::string& m) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(m);
  };
  const bool borrowed = options.vulkan.device || options.cuda.context;
  auto opened = open_device(borrowed ? kind_of(GetParam()) : GetParam(), options);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  return opened.ok() ? opened->device : nullptr;
}

std::unique_ptr<Session> Contract::session(std::shared_ptr<const package::Package> package,
                                           std::shared_ptr<Device> device,
                                           const SessionOptions& options) {
  auto s = Session::create(std::move(package), std::move(device), options);
  EXPECT_TRUE(s.ok()) << s.status().message();
  return s.ok() ? std::move(*s) : nullptr;
}

std::vector<std::string> contract_devices() {
  std::vector<std::string> ids;
  for (const DeviceInfo& d : list_devices())
    if (d.usable) ids.push_back(d.id);
  return ids;
}

}  // namespace reprise::test
