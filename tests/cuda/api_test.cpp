// The C interface over a context, a stream and memory that an application has already.
#include "backends/cuda/library.h"
#include "capi/handles/handles.h"
#include "on_standin.h"
#include "reprise/reprise.h"

namespace reprise::test {
namespace {

class CudaApi : public OnStandin {};

TEST_F(CudaApi, DevicesAreOpenedByName) {
  reprise_error error{};
  reprise_device* device = nullptr;
  ASSERT_EQ(reprise_device_open("cuda:0", nullptr, &device, &error), REPRISE_OK) << error.message;
  reprise_device_info info = REPRISE_DEVICE_INFO_INIT;
  reprise_device_get_info(device, &info, nullptr);
  EXPECT_STREQ(info.id, "cuda:0");
  EXPECT_STREQ(info.kind, "discrete-gpu");
  EXPECT_EQ(info.usable, 1);
  reprise_device_free(device);
  EXPECT_EQ(reprise_device_open("cuda:7", nullptr, &device, &error), REPRISE_USAGE);
}

TEST_F(CudaApi, AutoTakesADeviceThatThePackageFits) {
  auto package = std::make_shared<package::Package>();
  package::Variant variant;
  variant.name = "vulkan-only";
  variant.predicate.api = Api::Vulkan;
  package->variants.push_back(std::move(variant));
  reprise_package* const handle = capi::make_handle(std::make_shared<reprise_package>(package));
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  options.package = handle;
  reprise_error error{};
  for (const bool any : {true, false}) {
    reprise_device* device = nullptr;
    ASSERT_EQ(reprise_device_open("auto", any ? nullptr : &options, &device, &error), REPRISE_OK);
    reprise_device_info info = REPRISE_DEVICE_INFO_INIT;
    reprise_device_get_info(device, &info, nullptr);
    EXPECT_EQ(std::string(info.id).starts_with("cuda"), any) << info.id;
    reprise_device_free(device);
  }
  reprise_package_free(handle);
}

TEST_F(CudaApi, AnApplicationLendsItsContextStreamAndMemory) {
  const auto library = *cuda::Library::open(cuda::kDriverLibrary, {});
  const cuda::Table& fn = library->fn();
  cuda::CUcontext context = nullptr;
  cuda::CUstream stream = nullptr;
  cuda::CUdeviceptr memory = 0;
  ASSERT_EQ(fn.cuDevicePrimaryCtxRetain(&context, 0), cuda::CUDA_SUCCESS);
  ASSERT_EQ(fn.cuCtxPushCurrent_v2(context), cuda::CUDA_SUCCESS);
  ASSERT_EQ(fn.cuStreamCreate(&stream, cuda::CU_STREAM_NON_BLOCKING), cuda::CUDA_SUCCESS);
  ASSERT_EQ(fn.cuMemAlloc_v2(&memory, 1024), cuda::CUDA_SUCCESS);

  reprise_error error{};
  reprise_cuda_device lent = REPRISE_CUDA_DEVICE_INIT;
  lent.context = context;
  lent.stream = stream;
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  options.cuda = &lent;
  reprise_device* device = nullptr;
  const uint64_t streams = calls("cuStreamCreate");
  ASSERT_EQ(reprise_device_open("cuda", &options, &device, &error), REPRISE_OK) << error.message;
  reprise_buffer *x = nullptr, *y = nullptr, *odd = nullptr;
  ASSERT_EQ(reprise_buffer_borrow(device, memory, 400, &x, &error), REPRISE_OK);
  ASSERT_EQ(reprise_buffer_borrow(device, memory + 512, 400, &y, &error), REPRISE_OK);
  EXPECT_EQ(reprise_buffer_borrow(device, memory + 4, 4, &odd, &error), REPRISE_USAGE);
  reprise_package* const package =
      capi::make_handle(std::make_shared<reprise_package>(chain(2, 100, false)));
  reprise_session* session = nullptr;
  ASSERT_EQ(reprise_session_create(package, device, nullptr, &session, &error), REPRISE_OK)
      << error.message;
  const std::vector<float> sent = ramp(100);
  ASSERT_EQ(reprise_buffer_write(x, 0, sent.data(), 400, &error), REPRISE_OK);
  reprise_tensor in = REPRISE_TENSOR_INIT, out = REPRISE_TENSOR_INIT;
  in.name = "x";
  in.rank = 1;
  in.dims[0] = 100;
  in.buffer = x;
  out.name = "y";
  out.buffer = y;
  ASSERT_EQ(reprise_session_run(session, &in, 1, &out, 1, nullptr, nullptr, &error), REPRISE_OK)
      << error.message;
  std::vector<float> got(100);
  ASSERT_EQ(reprise_buffer_read(y, 0, got.data(), 400, &error), REPRISE_OK);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(got[i], sent[i] + 2);
  EXPECT_EQ(calls("cuStreamCreate"), streams);  // all in the stream that was lent
  reprise_session_free(session);
  reprise_package_free(package);
  reprise_buffer_free(x);
  reprise_buffer_free(y);
  reprise_device_free(device);

  EXPECT_EQ(fn.cuMemFree_v2(memory), cuda::CUDA_SUCCESS);  // still the application's
  EXPECT_EQ(fn.cuStreamDestroy_v2(stream), cuda::CUDA_SUCCESS);
  cuda::CUcontext popped = nullptr;
  EXPECT_EQ(fn.cuCtxPopCurrent_v2(&popped), cuda::CUDA_SUCCESS);
  EXPECT_EQ(popped, context);
  EXPECT_EQ(fn.cuDevicePrimaryCtxRelease_v2(0), cuda::CUDA_SUCCESS);
}

}  // namespace
}  // namespace reprise::test
