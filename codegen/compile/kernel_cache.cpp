#include "codegen/compile/kernel_cache.h"

#include "codegen/kernel/ir/share.h"

namespace reprise {

namespace {

Status legalized(kernel::Kernel& k, const kernel::LegalizeFor& target) {
  return kernel::legalize(k, target).with_context("kernel '" + k.name + "'");
}

std::string key(std::initializer_list<bool> flags, const std::string& kernel) {
  std::string out;
  for (const bool f : flags) out += f ? '1' : '0';
  return out + ' ' + kernel;
}

void take(kernel::Kernel& k, const kernel::Kernel& equal) {
  std::string name = std::move(k.name);
  k = equal;
  k.name = std::move(name);
}

}  // namespace

KernelCache::Known KernelCache::find(const std::unordered_map<std::string, Known>& in,
                                     const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = in.find(key);
  return it == in.end() ? nullptr : it->second;
}

Status KernelCache::legalize(kernel::Kernel& k, std::optional<size_t> number,
                             const kernel::LegalizeFor& target) {
  if (!enabled_) return legalized(k, target);
  const kernel::LegalizeFor needed = kernel::relevant(target, k);
  const auto with_flags = [&](const std::string& kernel) {
    return key({needed.int64, needed.float16, needed.storage8, needed.storage16, needed.word_loads,
                needed.exact},
               kernel);
  };
  std::string numbered;
  if (number) {
    numbered = with_flags(std::to_string(*number));
    if (const Known equal = find(by_number_, numbered)) {
      take(k, *equal);
      return {};
    }
  }
  std::string structure = with_flags(kernel::structure(k));
  Known equal = find(by_structure_, structure);
  if (equal) {
    take(k, *equal);
  } else {
    RP_TRY(legalized(k, needed));
    equal = std::make_shared<const kernel::Kernel>(k);
  }
  const std::lock_guard lock(mutex_);
  if (number) by_number_.emplace(std::move(numbered), equal);
  by_structure_.emplace(std::move(structure), std::move(equal));
  return {};
}

Result<std::vector<uint32_t>> KernelCache::spirv(const kernel::Kernel& k,
                                                 const emit::SpirvOptions& options) {
  if (!enabled_) return emit::spirv(k, options);
  const std::string known =
      key({options.loads_64_bits, options.keeps_loops, options.descriptors},
          std::to_string(options.version) + k.name + '\n' + kernel::structure(k));
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = spirv_.find(known); it != spirv_.end()) return it->second;
  }
  RP_ASSIGN(std::vector<uint32_t> words, emit::spirv(k, options));
  const std::lock_guard lock(mutex_);
  return spirv_.emplace(known, std::move(words)).first->second;
}

}  // namespace reprise
