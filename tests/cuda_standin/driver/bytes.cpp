#include "tests/cuda_standin/driver/bytes.h"

#include <algorithm>
#include <cstring>

#include "runtime/plan/block_layout.h"
#include "tests/cuda_shim/group_runner.h"

namespace reprise::standin {

namespace {
constexpr uint64_t kCell = 4;
}

void ByteCheck::begin(uint32_t node, bool early, const Work& work,
                      const std::vector<Touch>& touched, const Allocations& memory) {
  node_ = node;
  early_ = early;
  name_ = work.name();
  allowed_.clear();
  next_set_.clear();
  const auto allow = [&](const std::shared_ptr<Allocation>& a, bool in_order) {
    const auto same = [&](const Allowed& other) { return other.allocation == a.get(); };
    if (std::any_of(allowed_.begin(), allowed_.end(), same)) return;
    held_.push_back(a);
    std::vector<Cell>* cells = nullptr;
    if (in_order && ancestors_ != nullptr) {
      cells = &cells_[a.get()];
      if (cells->empty()) cells->resize(a->bytes / kCell + 1);
    }
    allowed_.push_back({a->address(), a->address() + a->bytes, a.get(), cells});
  };
  for (const Touch& t : touched) allow(t.allocation, true);
  if (const auto* k = std::get_if<KernelWork>(&work.what)) {
    uint64_t error = 0;
    std::memcpy(&error, k->block.data() + plan::BlockLayout::kErrorAddress, sizeof error);
    if (const auto a = memory.find(error); a != nullptr) allow(a, false);
  }
}

std::string ByteCheck::describe(uint64_t address, uint64_t bytes, uint32_t kind) const {
  std::string text = name_ + " (node " + std::to_string(node_) + ") " +
                     (kind == test::kReads ? "reads " : "writes ") + std::to_string(bytes) +
                     " bytes ";
  for (const Allowed& a : allowed_) {
    if (address < a.begin || address >= a.end) continue;
    return text + "at " + std::to_string(address - a.begin) + " of " + a.allocation->name();
  }
  // What it was given that lies nearest.
  const Allowed* nearest = nullptr;
  const auto distance = [&](const Allowed& a) {
    return address < a.begin ? a.begin - address : address - a.end;
  };
  for (const Allowed& a : allowed_) {
    if (nearest == nullptr || distance(a) < distance(*nearest)) nearest = &a;
  }
  if (nearest == nullptr) return text + "of nothing that it was given";
  return text + std::to_string(distance(*nearest)) +
         (address < nearest->begin ? " before " : " behind ") + nearest->allocation->name();
}

/// The set with this node in place of all that come before it.
uint32_t ByteCheck::with_reader(uint32_t readers) {
  const auto known = next_set_.find(readers);
  if (known != next_set_.end()) return known->second;
  std::vector<uint32_t> set;
  for (const uint32_t r : reader_sets_[readers]) {
    if (!ordered(r)) set.push_back(r);
  }
  set.insert(std::upper_bound(set.begin(), set.end(), node_), node_);
  const auto [it, fresh] = set_numbers_.emplace(set, static_cast<uint32_t>(reader_sets_.size()));
  if (fresh) reader_sets_.push_back(set);
  next_set_[readers] = it->second;
  return it->second;
}

bool ByteCheck::order(Cell& cell, uint64_t address, uint32_t kind) {
  const auto collides = [&](uint32_t other, const char* did) {
    problem_ = {Code::Device, describe(address, kCell, kind) + ", which " +
                                  (*work_)[other]->name() + " (node " + std::to_string(other) +
                                  ") " + did + ", and no path of the graph orders them"};
    return false;
  };
  if (cell.writer != 0 && !ordered(cell.writer - 1)) return collides(cell.writer - 1, "wrote");
  if (kind == test::kReads) {
    cell.readers = with_reader(cell.readers);
    return true;
  }
  for (const uint32_t r : reader_sets_[cell.readers]) {
    if (!ordered(r)) return collides(r, "read");
  }
  cell = {node_ + 1, 0};
  return true;
}

bool ByteCheck::check(uint64_t address, uint64_t bytes, uint32_t kind) {
  for (const Allowed& a : allowed_) {
    if (address < a.begin || address + bytes > a.end) continue;
    if (a.cells == nullptr || kind == test::kAtomic) return true;
    const uint64_t first = (address - a.begin) / kCell,
                   last = (address + bytes - 1 - a.begin) / kCell;
    for (uint64_t c = first; c <= last; ++c) {
      Cell& cell = (*a.cells)[c];
      if (kind == test::kWrites && cell.writer == node_ + 1 && cell.readers == 0) continue;
      if (!order(cell, a.begin + c * kCell, kind)) return false;
    }
    return true;
  }
  problem_ = {Code::Device, describe(address, bytes, kind)};
  return false;
}

void ByteCheck::range(uint64_t address, size_t bytes, uint32_t kind) {
  static_cast<void>(check(address, bytes, kind));
}

void ByteCheck::access(test::Shim* shim, uint64_t address, uint64_t bytes, uint32_t kind) {
  auto* const check = static_cast<ByteCheck*>(shim->checker);
  if (check == nullptr) return;
  if (check->early_ && shim->awaited == 0) {
    check->problem_ = {Code::Device, check->describe(address, bytes, kind) +
                                         " before it awaits the launches before it"};
  } else if (check->check(address, bytes, kind)) {
    return;
  }
  test::abandon_workgroup(check->problem_);
}

}  // namespace reprise::standin
