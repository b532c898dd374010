#include "support.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include "backends/registry.h"

namespace reprise::test {

std::vector<std::string> soak_devices() {
  std::vector<std::string> ids;
  for (const DeviceInfo& d : list_devices())
    if (d.usable && d.id != "host") ids.push_back(d.id);
  return ids;
}

App::App(const std::string& id, size_t n_launches, int64_t n, const char* result)
    : launches(n_launches),
      package(capi::make_handle(
          std::make_shared<reprise_package>(chain(n_launches, n, n == 0, result)))) {
  reprise_device* opened = nullptr;
  reprise_error error{};
  EXPECT_EQ(reprise_device_open(id.c_str(), nullptr, &opened, &error), REPRISE_OK) << error.message;
  device.reset(opened);
}

void App::add_plan() {
  const auto before = capi::find_handle(package.get());
  ASSERT_TRUE(before.ok());
  auto p = std::make_shared<package::Package>(*(*before)->package);
  for (package::Variant& v : p->variants) {
    package::SizedPlan plan;
    static_cast<package::CompiledPlan&>(plan) = v;
    plan.sizes = {{0, 1, 100}};
    v.plans.push_back(std::move(plan));
  }
  package.reset(capi::make_handle(std::make_shared<reprise_package>(std::move(p))));
}

Owned<reprise_session> App::make_session(const reprise_session_options* options,
                                         reprise_error* error) {
  reprise_session* session = nullptr;
  reprise_session_create(package.get(), device.get(), options, &session, error);
  return Owned<reprise_session>(session);
}

reprise_status run_once(reprise_session* session, const std::vector<float>& x,
                        std::vector<float>& y, reprise_error* error, const char* result) {
  reprise_tensor in = REPRISE_TENSOR_INIT, out = REPRISE_TENSOR_INIT;
  in.name = "x";
  in.rank = 1;
  in.dims[0] = static_cast<int64_t>(x.size());
  in.data = const_cast<float*>(x.data());  // inputs are not written
  in.bytes = x.size() * sizeof(float);
  out.name = result;
  out.data = y.data();
  out.bytes = y.size() * sizeof(float);
  return reprise_session_run(session, &in, 1, &out, 1, nullptr, nullptr, error);
}

uint64_t resident_bytes() {
  ::malloc_trim(0);  // what is free in the heaps of the threads is no growth
  uint64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace reprise::test
