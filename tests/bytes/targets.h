// Readers of bytes that may be hostile, as targets of a fuzzer. Each gives the bytes to a reader,
// and executes on the host what is accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>

namespace reprise::test {

using Random = std::mt19937_64;

struct ByteTarget {
  const char* name;
  /// What is wrong with how the bytes were handled; empty if nothing is. Errors of the reader are
  /// right: the bytes may be anything.
  std::string (*run)(std::span<const std::byte> bytes);
  /// Changes decoded fields and encodes them again. Bytes that cannot be decoded come back with
  /// changed bytes.
  std::string (*mutate)(const std::string& bytes, Random& random);
};

/// "onnx", "tensor", "value", "package", "graph", "npy", "blocks" (weights in GGUF files) and
/// "safetensors"; and "json", "gguf", "tokenizer" and "template" where tokenizers are built.
std::span<const ByteTarget> byte_targets();
/// Null if there is no such target.
const ByteTarget* find_byte_target(const std::string& name);

}  // namespace reprise::test
