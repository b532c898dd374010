#include "tests/ptx/machine/counters.h"

#include <algorithm>
#include <vector>

namespace reprise::test::ptx {
namespace {

void sort_unique(std::vector<uint64_t>& v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
}

}  // namespace

void Counters::shared(Mover m, uint32_t mask, const Addresses& at, uint32_t bytes_of_lane) {
  constexpr uint32_t kBanks = 32, kWord = 4;
  const uint32_t turn = std::min<uint32_t>(32, kBanks * kWord / std::max(bytes_of_lane, kWord));
  std::vector<uint64_t> words;
  for (uint32_t first = 0; first < 32; first += turn) {
    words.clear();
    for (uint32_t l = first; l < first + turn; ++l) {
      if ((mask >> l & 1) == 0) continue;
      for (uint64_t w = at[l] / kWord; w * kWord < at[l] + bytes_of_lane; ++w) words.push_back(w);
    }
    if (words.empty()) continue;
    sort_unique(words);
    std::array<uint64_t, kBanks> of_bank{};
    for (const uint64_t w : words) ++of_bank[w % kBanks];
    Banks& b = banks[static_cast<size_t>(m)];
    b.passes += *std::max_element(of_bank.begin(), of_bank.end());
    b.least += (words.size() + kBanks - 1) / kBanks;
  }
}

Banks Counters::shared_memory() const {
  Banks all;
  for (const Banks& b : banks) {
    all.passes += b.passes;
    all.least += b.least;
  }
  return all;
}

void Counters::global(uint32_t mask, const Addresses& at, uint32_t bytes_of_lane) {
  constexpr uint32_t kSector = 32;
  std::vector<uint64_t> all, used;
  for (uint32_t l = 0; l < 32; ++l) {
    if ((mask >> l & 1) == 0) continue;
    for (uint64_t s = at[l] / kSector; s * kSector < at[l] + bytes_of_lane; ++s) all.push_back(s);
    for (uint64_t b = at[l]; b < at[l] + bytes_of_lane; ++b) used.push_back(b);
  }
  sort_unique(all);
  sort_unique(used);
  sectors += all.size();
  bytes += used.size();
}

}  // namespace reprise::test::ptx
