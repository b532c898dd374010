#include "codegen/kernel_cache.h"

#include "codegen/kernel/share.h"

namespace reprise {

namespace {

Status legalize_and_simplify(kernel::Kernel& k, const kernel::LegalizeFor& target) {
  RP_TRY(kernel::legalize(k, target).with_context("kernel '" + k.name + "'"));
  kernel::simplify(k);
  return {};
}

std::string key(std::initializer_list<bool> flags, const std::string& structure) {
  std::string out;
  for (const bool f : flags) out += f ? '1' : '0';
  return out + ' ' + structure;
}

}  // namespace

Status KernelCache::legalize(kernel::Kernel& k, const kernel::LegalizeFor& target) {
  if (!enabled_) return legalize_and_simplify(k, target);
  const kernel::LegalizeFor needed = kernel::relevant(target, k);
  const auto [it, added] = legal_.try_emplace(
      key({needed.int64, needed.float16, needed.storage8, needed.storage16, needed.word_loads},
          kernel::structure(k)));
  if (!added) {
    std::string name = std::move(k.name);
    k = it->second;
    k.name = std::move(name);
    return {};
  }
  Status s = legalize_and_simplify(k, needed);
  if (s.ok()) {
    it->second = k;
  } else {
    legal_.erase(it);
  }
  return s;
}

Result<std::vector<uint32_t>> KernelCache::spirv(const kernel::Kernel& k,
                                                 const emit::SpirvOptions& options) {
  if (!enabled_) return emit::spirv(k, options);
  const auto [it, added] =
      spirv_.try_emplace(key({options.wide_loads}, std::to_string(options.version) + k.name + '\n' +
                                                       kernel::structure(k)));
  if (!added) return it->second;
  auto words = emit::spirv(k, options);
  if (words.ok()) {
    it->second = *words;
  } else {
    spirv_.erase(it);
  }
  return words;
}

}  // namespace reprise
