#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "python/native/arrays.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;

/// Depends on up to 16 words that are spread evenly over the memory, the first and last of them
/// included. So it reads at most 16 cache lines, however large the memory is.
uint64_t memory_sample(uintptr_t address, size_t bytes) {
  constexpr size_t kWords = 16, kWord = sizeof(uint64_t);
  const auto* const memory =
      reinterpret_cast<const char*>(address);  // NOLINT: an address of Python
  uint64_t sample = bytes;
  const auto add = [&](size_t at, size_t count) {
    uint64_t word = 0;
    std::memcpy(&word, memory + at, count);
    sample = (sample ^ word) * kOdd;
    sample ^= sample >> 32;
  };
  if (memory == nullptr) return sample;
  if (bytes < kWords * kWord) {
    for (size_t at = 0; at < bytes; at += kWord) add(at, std::min(kWord, bytes - at));
    return sample;
  }
  const size_t last = bytes - kWord;
  for (size_t i = 0; i < kWords; ++i) add(last * i / (kWords - 1), kWord);
  return sample;
}

/// `memories` has the address and the number of bytes of each one.
uint64_t memory_samples(const nb::list& memories) {
  uint64_t sample = 0;
  for (size_t i = 0; i + 1 < memories.size(); i += 2) {
    const uint64_t one =
        memory_sample(nb::cast<uintptr_t>(memories[i]), nb::cast<size_t>(memories[i + 1]));
    sample = (sample ^ one) * kOdd;
    sample ^= sample >> 32;
  }
  return sample;
}

}  // namespace

void bind_memory_sample(nb::module_& m) {
  m.def("memory_sample", memory_sample, nb::arg("address"), nb::arg("bytes"),
        "A number that differs, very likely, after most of this memory was written.");
  m.def("memory_samples", memory_samples, nb::arg("memories"),
        nb::sig("def memory_samples(memories: list[int]) -> int"),
        "The same for several memories: address and bytes of each in one list.");
}

}  // namespace reprise::python
