// Targets for the readers of other programs' weights.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace reprise::test {

/// Read a file, and dequantise its small tensors. See ByteTarget::run.
std::string run_blocks(std::span<const std::byte> bytes);
std::string run_safetensors(std::span<const std::byte> bytes);

/// Small files of every kind.
std::vector<std::string> block_files();
std::vector<std::string> safetensors_files();

}  // namespace reprise::test
