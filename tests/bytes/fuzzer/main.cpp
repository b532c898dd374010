// libFuzzer's entry points for the target that REPRISE_BYTE_TARGET names.
// https://llvm.org/docs/LibFuzzer.html
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tests/bytes/seeds.h"
#include "tests/bytes/targets.h"
#include "tests/support/paths.h"

namespace {

const reprise::test::ByteTarget& target() {
  static const auto* const found = reprise::test::find_byte_target(REPRISE_BYTE_TARGET);
  return *found;
}

}  // namespace

/// Writes the seeds into the first folder of the command line, if that is empty.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  namespace fs = std::filesystem;
  for (int i = 1; i < *count; ++i) {
    const fs::path folder = (*arguments)[i];
    if (!fs::is_directory(folder)) continue;
    if (!fs::is_empty(folder)) return 0;
    int number = 0;
    for (const std::string& seed : reprise::test::seeds_of(target().name))
      reprise::test::write_file(folder / ("seed" + std::to_string(number++)), seed);
    return 0;
  }
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string problem = target().run(std::as_bytes(std::span(data, size)));
  if (problem.empty()) return 0;
  std::fprintf(stderr, "%s: %s\n", target().name, problem.c_str());
  std::abort();
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  reprise::test::Random random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string out = target().mutate({reinterpret_cast<const char*>(data), size}, random);
  if (out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
