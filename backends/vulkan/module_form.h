// How a SPIR-V module takes its parameters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::vulkan {

struct ModuleForm {
  bool addresses = false;         // it accesses memory through pointers
  std::vector<uint32_t> storage;  // bindings of its storage buffers, ascending
};

/// Reads the declarations of a module. What is malformed is ignored.
ModuleForm form_of(std::span<const uint32_t> module);

}  // namespace reprise::vulkan
