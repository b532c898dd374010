// Loads the code of kernels from a package that was read.
#include <cstring>

#include "runtime/package/code_store.h"
#include "runtime/package/decode.h"

namespace reprise::package {
namespace {

/// Loads code into a string or a vector; leaves it empty if there is no code.
template <typename List>
Status load_into(const CodeStore& store, uint32_t index, List& to) {
  if (index == kNoCode) return {};
  RP_ASSIGN(const std::vector<std::byte> bytes, store.load(index));
  to.resize(bytes.size() / sizeof(to[0]));
  std::memcpy(to.data(), bytes.data(), bytes.size());
  return {};
}

Status load_kernel(const CodeStore& store, const StoredCode& from, const Predicate& needs,
                   plan::KernelCode& to) {
  const std::string where = "kernel '" + to.name + "'";
  RP_TRY(load_into(store, from.spirv, to.spirv).with_context(where));
  RP_TRY(load_into(store, from.cuda, to.cuda).with_context(where));
  RP_TRY(load_into(store, from.image, to.image).with_context(where));
  return verify_code(needs, to);
}

}  // namespace

Result<std::vector<plan::KernelCode>> load_kernels(const Package& p, const CompiledPlan& v) {
  std::vector<plan::KernelCode> out = v.plan.kernels;
  if (v.stored.empty()) return out;
  if (!p.code || v.stored.size() != out.size())
    return internal_error("variant '" + v.name + "' belongs to another package");
  for (size_t k = 0; k < out.size(); ++k) {
    RP_TRY(load_kernel(*p.code, v.stored[k], v.predicate, out[k])
               .with_context("variant '" + v.name + "'")
               .with_context(p.code->package()));
  }
  return out;
}

Result<std::shared_ptr<const Package>> unpack(std::shared_ptr<const Package> p) {
  if (!p->code) return p;
  auto out = std::make_shared<Package>(*p);
  for (Variant& v : out->variants) {
    RP_ASSIGN(v.plan.kernels, load_kernels(*p, v));
    v.stored.clear();
    for (DeviceBody& b : v.bodies) {
      RP_ASSIGN(b.plan.kernels, load_kernels(*p, b));
      b.stored.clear();
    }
  }
  out->code = nullptr;
  return std::shared_ptr<const Package>(std::move(out));
}

}  // namespace reprise::package
