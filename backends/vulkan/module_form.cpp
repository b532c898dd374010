#include "backends/vulkan/module_form.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "backends/vulkan/spirv_words.h"

namespace reprise::vulkan {
namespace {

// From the tables of instructions, decorations, storage classes and capabilities in SPIR-V 1.6,
// section 3.
constexpr uint32_t kOpFunction = 54, kOpVariable = 59, kOpDecorate = 71;
constexpr uint32_t kBinding = 33, kStorageBuffer = 12, kPhysicalAddresses = 5347;

}  // namespace

ModuleForm form_of(std::span<const uint32_t> module) {
  ModuleForm form;
  std::map<uint32_t, uint32_t> bindings;  // by variable
  for (size_t at = kModuleHeaderWords; at < module.size();) {
    const uint32_t op = module[at] & 0xffffU;
    const size_t words = module[at] >> 16U;
    if (words == 0 || words > module.size() - at || op == kOpFunction) break;
    const auto i = module.subspan(at, words);
    at += words;
    if (op == kOpCapability && words == 2 && i[1] == kPhysicalAddresses) form.addresses = true;
    if (op == kOpDecorate && words == 4 && i[2] == kBinding) bindings[i[1]] = i[3];
    if (op != kOpVariable || words < 4 || i[3] != kStorageBuffer) continue;
    if (const auto it = bindings.find(i[2]); it != bindings.end())
      form.storage.push_back(it->second);
  }
  std::sort(form.storage.begin(), form.storage.end());
  form.storage.erase(std::unique(form.storage.begin(), form.storage.end()), form.storage.end());
  return form;
}

}  // namespace reprise::vulkan
