#include "codegen/compile/kernel_cache.h"

#include "codegen/kernel/ir/share.h"

namespace reprise {

namespace {

Status legalized(kernel::Kernel& k, const kernel::LegalizeFor& target) {
  return kernel::legalize(k, target).with_context("kernel '" + k.name + "'");
}

std::string key(std::initializer_list<bool> flags, const std::string& kernel) {
  std::string out;
  out.reserve(flags.size() + 1 + kernel.size());
  for (const bool f : flags) out += f ? '1' : '0';
  out += ' ';
  out += kernel;
  return out;
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

Result<KernelCache::Known> KernelCache::legal_form(const kernel::Kernel& k,
                                                   std::optional<size_t> number,
                                                   const kernel::LegalizeFor& target) {
  const kernel::LegalizeFor needed = kernel::relevant(target, k);
  const auto with_flags = [&](const std::string& kernel) {
    return key({needed.int64, needed.float16, needed.storage8, needed.storage16, needed.word_loads,
                needed.exact, needed.exact_halves, needed.long_vectors, needed.joins_accesses},
               kernel);
  };
  std::string numbered;
  if (number) {
    numbered = with_flags(std::to_string(*number));
    if (Known equal = find(by_number_, numbered)) return equal;
  }
  std::string structure = with_flags(kernel::structure(k));
  Known equal = find(by_structure_, structure);
  if (!equal) {
    kernel::Kernel legal = k;
    RP_TRY(legalized(legal, needed));
    equal = std::make_shared<const kernel::Kernel>(std::move(legal));
  }
  const std::lock_guard lock(mutex_);
  if (number) by_number_.emplace(std::move(numbered), equal);
  by_structure_.emplace(std::move(structure), equal);
  return equal;
}

Status KernelCache::legalize(kernel::Kernel& k, std::optional<size_t> number,
                             const kernel::LegalizeFor& target) {
  if (!enabled_) return legalized(k, target);
  RP_ASSIGN(const Known equal, legal_form(k, number, target));
  take(k, *equal);
  return {};
}

Status KernelCache::prepare(const kernel::Kernel& k, std::optional<size_t> number,
                            const kernel::LegalizeFor& target) {
  return enabled_ ? legal_form(k, number, target).status() : Status();
}

Result<std::vector<uint32_t>> KernelCache::spirv(const kernel::Kernel& k,
                                                 const std::string& structure,
                                                 const emit::SpirvOptions& options) {
  if (!enabled_) return emit::spirv(k, options);
  const std::string known = key({options.loads_64_bits, options.keeps_loops, options.descriptors},
                                std::to_string(options.version) + k.name + '\n' + structure);
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = spirv_.find(known); it != spirv_.end()) return it->second;
  }
  RP_ASSIGN(std::vector<uint32_t> words, emit::spirv(k, options));
  const std::lock_guard lock(mutex_);
  return spirv_.emplace(known, std::move(words)).first->second;
}

}  // namespace reprise
