#include "apps/android/app/src/main/cpp/measure.h"

#include <algorithm>
#include <vector>

namespace reprise::sample {
namespace {

constexpr int kRuns = 20;

struct Input {
  reprise_tensor tensor = REPRISE_TENSOR_INIT;
  std::vector<unsigned char> bytes;
};

Result<std::vector<Input>> zeros(const Session& session) {
  std::vector<Input> inputs(reprise_session_input_count(session.get()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    reprise_error error{};
    reprise_slot slot = REPRISE_SLOT_INIT;
    if (reprise_session_input(session.get(), i, &slot, &error) != REPRISE_OK) return error;
    if (slot.kind != REPRISE_KIND_TENSOR || slot.dtype == REPRISE_STRING)
      return Error{REPRISE_UNSUPPORTED, std::string("this sample makes no input ") + slot.name};
    reprise_tensor& t = inputs[i].tensor;
    t.name = slot.name;
    t.dtype = slot.dtype;
    t.rank = slot.rank;
    size_t bytes = reprise_dtype_size(slot.dtype);
    for (uint32_t d = 0; d < slot.rank; ++d) {
      t.dims[d] = std::max<int64_t>(slot.dims[d], 1);
      bytes *= static_cast<size_t>(t.dims[d]);
    }
    inputs[i].bytes.resize(bytes);
    t.data = inputs[i].bytes.data();
    t.bytes = bytes;
  }
  return inputs;
}

Result<double> median_us(const Session& session, const std::vector<reprise_tensor>& inputs) {
  std::vector<double> times;
  for (int i = 0; i < kRuns; ++i) {
    reprise_error error{};
    reprise_results* results = nullptr;
    reprise_run_stats stats = REPRISE_RUN_STATS_INIT;
    if (reprise_session_run(session.get(), inputs.data(), inputs.size(), nullptr, 0, &results,
                            &stats, &error) != REPRISE_OK)
      return error;
    reprise_results_free(results);
    times.push_back(stats.total_us);
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

}  // namespace

std::string measure(const Result<Package>& package, const std::string& cache_folder) {
  if (!package) return package.error().message;
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  options.cache_dir = cache_folder.empty() ? nullptr : cache_folder.c_str();
  options.package = package->get();
  const auto device = Device::open("auto", &options);
  if (!device) return device.error().message;
  const auto session = Session::create(*package, *device);
  if (!session) return session.error().message;
  const auto inputs = zeros(*session);
  if (!inputs) return inputs.error().message;
  std::vector<reprise_tensor> tensors;
  tensors.reserve(inputs->size());
  for (const Input& i : *inputs) tensors.push_back(i.tensor);
  const auto us = median_us(*session, tensors);
  if (!us) return us.error().message;
  reprise_session_info info = REPRISE_SESSION_INFO_INIT;
  reprise_session_get_info(session->get(), &info, nullptr);
  return std::string(device->info().name) + "\n" + info.variant + "\n" +
         std::to_string(static_cast<int64_t>(*us)) + " us";
}

}  // namespace reprise::sample
