#include "codegen/ops/row/made_constants.h"

namespace reprise::ops {
namespace {

constexpr size_t kLeastShared = size_t{1} << 16;  // bytes

thread_local MadeConstants* current_constants = nullptr;

}  // namespace

MadeConstants::MadeConstants() : before_(current_constants) {
  current_constants = this;
}

MadeConstants::~MadeConstants() {
  current_constants = before_;
}

HostTensor MadeConstants::get(const HostTensor& from, const std::string& key,
                              const std::function<HostTensor()>& make) {
  if (current_constants == nullptr || from.bytes().size() < kLeastShared) return make();
  auto& made = current_constants->made_;
  const std::pair<const std::byte*, std::string> place{from.bytes().data(), key};
  const auto known = made.find(place);
  if (known != made.end()) return known->second.tensor;
  return made.emplace(place, Made{from, make()}).first->second.tensor;
}

}  // namespace reprise::ops
