#include "tests/cuda_standin/driver/graph.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace reprise::standin {

std::string Work::name() const {
  struct Namer {
    std::string operator()(const KernelWork& k) const {
      return "kernel " + k.function->kernel.name;
    }
    std::string operator()(const CopyWork& c) const {
      return "a copy of " + std::to_string(c.bytes) + " bytes";
    }
    std::string operator()(const RecordWork&) const { return "an event record"; }
    std::string operator()(const EmptyWork&) const { return "an empty node"; }
  };
  return std::visit(Namer(), what);
}

Ancestors::Ancestors(const After& after)
    : words_((after.size() + 63) / 64), bits_(after.size() * words_) {
  for (size_t n = 0; n < after.size(); ++n) {
    uint64_t* const mine = &bits_[n * words_];
    for (const uint32_t a : after[n]) {
      const uint64_t* const theirs = &bits_[a * words_];
      for (size_t w = 0; w < words_; ++w) mine[w] |= theirs[w];
      mine[a / 64] |= uint64_t{1} << (a % 64);
    }
  }
}

namespace {

/// Chooses among nodes that could run.
class Chooser {
 public:
  Chooser(const After& after, Order order, uint64_t seed) : order_(order), random_(seed) {
    dependants_.resize(after.size());
    depth_.resize(after.size());
    for (size_t n = 0; n < after.size(); ++n) {
      for (const uint32_t a : after[n]) {
        ++dependants_[a];
        depth_[n] = std::max(depth_[n], depth_[a] + 1);
      }
    }
  }
  /// Position in `ready`, which is not empty.
  size_t operator()(const std::vector<uint32_t>& ready) {
    if (order_ == Order::Random) return random_() % ready.size();
    // Ties are broken by chance: the search begins anywhere.
    const size_t first = random_() % ready.size();
    size_t best = first;
    for (size_t n = 1; n < ready.size(); ++n) {
      const size_t other = (first + n) % ready.size();
      if (better(ready[other], ready[best])) best = other;
    }
    return best;
  }

 private:
  bool better(uint32_t a, uint32_t b) const {
    if (order_ == Order::Creation) return a < b;
    if (order_ == Order::Reverse) return a > b;
    if (dependants_[a] != dependants_[b]) return dependants_[a] < dependants_[b];
    return depth_[a] > depth_[b];
  }
  Order order_;
  std::mt19937_64 random_;
  std::vector<uint32_t> dependants_, depth_;
};

}  // namespace

std::vector<uint32_t> choose_order(const After& after, Order order, uint64_t seed) {
  std::vector<uint32_t> waits(after.size()), ready, result;
  std::vector<std::vector<uint32_t>> next(after.size());
  for (uint32_t n = 0; n < after.size(); ++n) {
    waits[n] = static_cast<uint32_t>(after[n].size());
    for (const uint32_t a : after[n]) next[a].push_back(n);
    if (waits[n] == 0) ready.push_back(n);
  }
  Chooser choose(after, order, seed);
  while (!ready.empty()) {
    const size_t at = choose(ready);
    const uint32_t n = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    result.push_back(n);
    for (const uint32_t m : next[n]) {
      if (--waits[m] == 0) ready.push_back(m);
    }
  }
  return result;
}

std::vector<Touch> touches(const Work& work, const Allocations& memory, std::string& problem) {
  std::vector<Touch> list;
  if (const auto* k = std::get_if<KernelWork>(&work.what)) {
    for (const test::BufferMember& b : k->function->kernel.buffers) {
      uint64_t address = 0;
      std::memcpy(&address, k->block.data() + b.offset, sizeof address);
      if (address == 0) continue;  // nothing is there to be read
      auto a = memory.find(address);
      if (a == nullptr) problem = "its buffer " + b.name + " is in no live allocation";
      if (a != nullptr) list.push_back({std::move(a), b.read, b.written, address});
    }
  } else if (const auto* c = std::get_if<CopyWork>(&work.what)) {
    for (const bool to : {false, true}) {
      auto a = memory.range(to ? c->to : c->from, c->bytes);
      const bool host = to ? c->to_host : c->from_host;
      if (a == nullptr && !host) problem = "it is not within one live allocation";
      if (a != nullptr) list.push_back({std::move(a), !to, to, to ? c->to : c->from});
    }
  }
  return list;
}

namespace {

struct Use {
  uint32_t node;
  bool reads, writes;
};
using Uses = std::vector<Use>;

std::string race(const Allocation& a, const Uses& uses, const std::vector<WorkPtr>& work,
                 const Ancestors& ancestors) {
  for (size_t i = 0; i < uses.size(); ++i) {
    for (size_t j = i + 1; j < uses.size(); ++j) {
      if (!uses[i].writes && !uses[j].writes) continue;
      if (ancestors.ordered(uses[i].node, uses[j].node)) continue;
      const auto what = [&](const Use& u) {
        return work[u.node]->name() + " (node " + std::to_string(u.node) + ", " +
               (u.writes ? "writes" : "reads") + ")";
      };
      return what(uses[i]) + " and " + what(uses[j]) + " share " + a.name() +
             " and no path of the graph orders them";
    }
  }
  return "";
}

/// Whether each node that reads comes after one that writes.
bool written_first(const Uses& uses, const Ancestors& ancestors) {
  return std::all_of(uses.begin(), uses.end(), [&](const Use& r) {
    if (!r.reads) return true;
    return std::any_of(uses.begin(), uses.end(),
                       [&](const Use& w) { return w.writes && ancestors.before(w.node, r.node); });
  });
}

}  // namespace

Analysis analyse(const std::vector<WorkPtr>& work, const Ancestors& ancestors,
                 const Allocations& memory) {
  Analysis result;
  std::map<std::shared_ptr<Allocation>, Uses> by_allocation;
  std::map<std::shared_ptr<Allocation>, uint64_t> lowest;
  for (uint32_t n = 0; n < work.size(); ++n) {
    if (!work[n]->enabled) continue;
    std::string ignored;
    for (Touch& t : touches(*work[n], memory, ignored)) {
      Uses& uses = by_allocation[t.allocation];
      uint64_t& low = lowest.try_emplace(t.allocation, t.address).first->second;
      low = std::min(low, t.address);
      if (uses.empty() || uses.back().node != n) uses.push_back({n, false, false});
      uses.back().reads |= t.reads;
      uses.back().writes |= t.writes;
    }
  }
  for (const auto& [a, uses] : by_allocation) {
    result.touched.push_back(a);
    result.lowest.push_back(lowest[a]);
    const auto writes = [](const Use& u) { return u.writes; };
    const auto reads = [](const Use& u) { return u.reads; };
    if (std::none_of(uses.begin(), uses.end(), writes)) continue;
    if (result.race.empty()) result.race = race(*a, uses, work, ancestors);
    if (a->place != Place::Device || !written_first(uses, ancestors)) continue;
    const bool for_host = std::none_of(uses.begin(), uses.end(), reads);
    (for_host ? result.results : result.overwritten).push_back(a);
  }
  return result;
}

}  // namespace reprise::standin
