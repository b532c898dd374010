#include "packages.h"

#include <algorithm>

#include "capi/handles/handles.h"
#include "models.h"

namespace reprise::test {

reprise_package* classifier_package(const std::vector<std::string>& images) {
  return capi::make_handle(std::make_shared<reprise_package>(compiled(classifier(8), images)));
}

uint64_t launches_without_image() {
  return compiled(classifier(8), {})->variants.front().plan.steps.size();
}

reprise_package* filter_package(const std::vector<std::string>& images, int64_t width,
                                int64_t height) {
  OnnxWriter m;
  m.input("x", DType::F32, {1, 3, height, width});
  m.output("y", DType::F32, {1, 3, height, width});
  m.initializer("one", HostTensor::from<float>(DType::F32, {}, {1}));
  m.node("Sub", {"one", "x"}, {"y"});
  return capi::make_handle(std::make_shared<reprise_package>(compiled(m, images)));
}

reprise_package* difference_package(const std::vector<std::string>& images, int64_t width,
                                    int64_t height) {
  OnnxWriter m;
  for (const char* name : {"a", "b"}) m.input(name, DType::F32, {1, 3, height, width});
  m.output("y", DType::F32, {1, 3, height, width});
  m.node("Sub", {"a", "b"}, {"y"});
  return capi::make_handle(std::make_shared<reprise_package>(compiled(m, images)));
}

std::vector<uint8_t> image_bytes(size_t n) {
  return noise(n, 7);
}

}  // namespace reprise::test
