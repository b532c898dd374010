#include "runtime/host/kernel_set.h"

#include <new>
#include <stdexcept>

namespace reprise::host {
namespace {

// Converts exceptions of the standard library to errors: sizes are checked, but memory may still be
// insufficient.
template <typename F>
auto without_exceptions(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return out_of_memory("out of memory");
  } catch (const std::length_error&) {
    return unsupported("a temporary array is too large");
  }
}

}  // namespace

const Entry* KernelSet::find(std::string_view op, bool* takes_containers) const {
  for (size_t f = 0; f < families.size(); ++f) {
    for (const Entry& e : families[f]()) {
      if (e.name != op) continue;
      if (takes_containers) *takes_containers = f + container_families >= families.size();
      return &e;
    }
  }
  return nullptr;
}

KernelResult KernelSet::run(const Call& c) const {
  bool containers = false;
  const Entry* e = find(c.op, &containers);
  if (e == nullptr) return internal_error("no host kernel for " + std::string(c.op));
  for (const HostTensor* t : c.inputs) {
    if (!containers && t != nullptr && is_container(t->dtype()))
      return invalid_model("it takes tensors, but an input is " + std::string(name_of(t->dtype())));
  }
  return without_exceptions([&] { return e->kernel(c); });
}

PrepareResult KernelSet::prepare(const Call& c) const {
  const Entry* e = find(c.op);
  if (e == nullptr || e->prepare == nullptr) return std::shared_ptr<const Prepared>();
  return without_exceptions([&] { return e->prepare(c); });
}

void KernelSet::add_names(std::vector<std::string_view>& names) const {
  for (const TableFunction family : families) {
    for (const Entry& e : family()) names.push_back(e.name);
  }
}

}  // namespace reprise::host
