#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>

#include "python/native/arrays.h"
#include "python/native/errors.h"
#include "runtime/package/package.h"
#include "runtime/platform/parallel.h"

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

/// Hashes of the memories, by threads that share all of it in pieces. So the caller waits about as
/// long as it takes to read the memory once. Without the GIL: the caller keeps the memory alive.
std::vector<uint64_t> memory_hashes(const std::vector<uint64_t>& memories) {
  constexpr size_t kPiece = size_t{1} << 20;
  struct Piece {
    size_t memory;
    std::span<const std::byte> bytes;
    uint64_t hash = 0;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i + 1 < memories.size(); i += 2) {
    const std::span whole(reinterpret_cast<const std::byte*>(memories[i]),  // NOLINT: as above
                          memories[i] == 0 ? 0 : memories[i + 1]);
    for (size_t at = 0; at < whole.size(); at += kPiece)
      pieces.push_back({i / 2, whole.subspan(at, std::min(kPiece, whole.size() - at))});
  }
  const auto hash = [&](size_t i) { pieces[i].hash = package::hash_bytes(pieces[i].bytes); };
  const unsigned threads = std::clamp(std::thread::hardware_concurrency() / 2, 1U, 4U);
  check(in_parallel(pieces.size(), Threads(pieces.size() < 4 ? 1 : threads), "memory was hashed",
                    hash));
  std::vector<uint64_t> hashes(memories.size() / 2, 0);
  for (const Piece& p : pieces) {
    uint64_t& all = hashes[p.memory];
    all = (all ^ p.hash) * kOdd;
    all ^= all >> 32;
  }
  return hashes;
}

}  // namespace

void bind_memory_sample(nb::module_& m) {
  m.def("memory_sample", memory_sample, nb::arg("address"), nb::arg("bytes"),
        "A number that differs, very likely, after most of this memory was written.");
  m.def("memory_samples", memory_samples, nb::arg("memories"),
        nb::sig("def memory_samples(memories: list[int]) -> int"),
        "The same for several memories: address and bytes of each in one list.");
  m.def("memory_hashes", memory_hashes, nb::arg("memories"),
        nb::call_guard<nb::gil_scoped_release>(),
        nb::sig("def memory_hashes(memories: list[int]) -> list[int]"),
        "A number for each memory that differs, very likely, after any of its bytes has changed.\n"
        "Reads all of it. The list is as that of memory_samples().");
}

}  // namespace reprise::python
