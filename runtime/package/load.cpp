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

std::string describe_sizes(const std::string& name, int64_t min, int64_t max) {
  return name + "=" + std::to_string(min) + (min == max ? "" : ".." + std::to_string(max));
}

std::string describe_sizes(const std::vector<SymbolValues>& sizes,
                           const std::vector<Symbol>& symbols) {
  std::string text;
  for (const SymbolValues& s : sizes)
    text += (text.empty() ? "" : ", ") +
            describe_sizes(symbols[static_cast<size_t>(s.symbol)].name, s.min, s.max);
  return text;
}

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
    Status loaded;
    for_each_plan(v, [&](CompiledPlan& one) {
      if (!loaded.ok()) return;
      auto kernels = load_kernels(*p, one);
      loaded = kernels.status();
      if (kernels.ok()) one.plan.kernels = *std::move(kernels);
      one.stored.clear();
    });
    RP_TRY(std::move(loaded));
  }
  out->code = nullptr;
  return std::shared_ptr<const Package>(std::move(out));
}

}  // namespace reprise::package
