#include "codegen/interpreter/demand.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace reprise::kernel {
namespace {

class Demand {
 public:
  Demand(const Kernel& k, Wanted wanted, bool loads)
      : k_(k),
        wanted_(wanted),
        loads_(loads),
        depends_(k.insts.size()),
        needed_(k.insts.size()),
        needed_always_(k.insts.size()),
        local_stores_(k.locals.size()),
        shared_stores_(k.shared.size()),
        buffer_stores_(k.buffers.size()) {}

  /// `also`: stores that are needed besides.
  std::vector<bool> run(std::span<const StoreOf> also) {
    for (size_t id = 0; id < k_.insts.size(); ++id) {
      const Inst& i = k_.insts[id];
      if (i.op == Op::LocalStore)
        local_stores_[i.imm][element(i, 1)].push_back(static_cast<int32_t>(id));
      if (i.op == Op::SharedStore) shared_stores_[i.imm].push_back(static_cast<int32_t>(id));
      if (i.op == Op::Store) buffer_stores_[i.imm].push_back(static_cast<int32_t>(id));
    }
    visit(0, false);
    if (!also.empty()) find_loops(0, -1);
    for (const StoreOf& s : also) note_loops(s);
    for (const StoreOf& s : also) need(s.instruction, loop_of_.at(s.instruction) < 0);
    while (!pending_.empty()) {
      const auto [id, always] = pending_.back();
      const Inst& i = k_.insts[static_cast<size_t>(id)];
      pending_.pop_back();
      for (const Val v : i.args) need(v.id, always);
      if (i.op == Op::LocalLoad) need_local(i, always);
      if (i.op == Op::SharedLoad) need_all(shared_stores_[i.imm]);
      if (i.op == Op::Load) need_all(buffer_stores_[i.imm]);
    }
    for (const int32_t id : without_value_) needed_[static_cast<size_t>(id)] = true;
    return std::move(needed_);
  }

 private:
  static bool reads_data(Op op) {
    return op == Op::Load || op == Op::LocalLoad || op == Op::SharedLoad || op == Op::Subgroup;
  }

  /// `always`: in all iterations of the loop around it, not only in those of needed stores.
  void need(int32_t id, bool always = true) {
    const auto at = static_cast<size_t>(id);
    if (always ? needed_always_[at] : needed_[at]) return;
    needed_[at] = true;
    needed_always_[at] = always;
    pending_.emplace_back(id, always);
  }

  void find_loops(int32_t block, int32_t loop) {
    for (const int32_t id : k_.blocks[static_cast<size_t>(block)].insts) {
      const Inst& i = k_.insts[static_cast<size_t>(id)];
      if (i.op == Op::Store || i.op == Op::For) loop_of_[id] = loop;
      for (const int32_t inner : i.blocks) find_loops(inner, i.op == Op::For ? id : loop);
    }
  }

  void note_loops(const StoreOf& s) {
    const int32_t loop = loop_of_.at(s.instruction);
    if (loop < 0) return;
    loops_[loop].iterations.insert(s.iteration);
    for (int32_t outer = loop_of_.at(loop); outer >= 0; outer = loop_of_.at(outer))
      loops_[outer].knows_all = false;
  }

  /// The element of a local that an instruction accesses, or kAnyElement.
  int64_t element(const Inst& i, size_t index) const {
    if (i.args.size() <= index) return 0;
    const Inst& at = k_.insts[static_cast<size_t>(i.args[index].id)];
    return at.op == Op::Const ? static_cast<int64_t>(at.imm) : kAnyElement;
  }

  void need_local(const Inst& load, bool always) {
    auto& stores = local_stores_[load.imm];
    const int64_t wanted = element(load, 0);
    const auto loop = wanted == kAnyElement ? loops_.find(load.args[0].id) : loops_.end();
    const bool few = !always && loop != loops_.end() && loop->second.knows_all;
    for (auto& [at, list] : stores) {
      const bool matches = few ? loop->second.iterations.contains(static_cast<uint32_t>(at))
                               : wanted == kAnyElement || at == wanted;
      if (at == kAnyElement || matches) need_all(list);
    }
  }

  void need_all(std::vector<int32_t>& stores) {
    for (const int32_t id : stores) need(id);
    stores.clear();
  }

  /// `conditional`: whether data decides if the block is executed.
  void visit(int32_t block, bool conditional) {
    for (const int32_t id : k_.blocks[static_cast<size_t>(block)].insts) {
      const Inst& i = k_.insts[static_cast<size_t>(id)];
      const bool depends = std::ranges::any_of(
          i.args, [&](Val v) { return bool{depends_[static_cast<size_t>(v.id)]}; });
      depends_[static_cast<size_t>(id)] = depends || reads_data(i.op);
      if (wanted_ != Wanted::Values && i.op == Op::Store) {
        need(i.args[0].id);
        if (i.args.size() == 3) need(i.args[2].id);
        without_value_.push_back(id);
      } else if (wanted_ == Wanted::Accessed && i.op == Op::Load) {
        need(i.args[0].id);
        without_value_.push_back(id);
      } else if (is_root(i, conditional)) {
        need(id);
      }
      for (const int32_t inner : i.blocks) visit(inner, conditional || depends);
    }
  }

  bool is_root(const Inst& i, bool conditional) const {
    switch (i.op) {
      case Op::SharedStore:
        return wanted_ == Wanted::Values;
      case Op::SharedLoad:
        return loads_;
      case Op::Load:
        if (loads_) return true;
        if (wanted_ == Wanted::Stored) return false;
        [[fallthrough]];
      case Op::Store:
        return conditional || depends_[static_cast<size_t>(i.args[0].id)];
      case Op::LocalStore:
        return false;
      default:
        return !is_value(i.op);
    }
  }

  const Kernel& k_;
  Wanted wanted_;
  bool loads_;
  std::vector<bool> depends_;  // by instruction: on data that the kernel reads
  std::vector<bool> needed_;
  std::vector<bool> needed_always_;  // see need()
  struct Loop {
    std::set<uint32_t> iterations;  // of needed stores directly in it
    bool knows_all = true;          // no needed store is in an inner loop
  };
  std::map<int32_t, Loop> loops_;       // by the For: those around needed stores
  std::map<int32_t, int32_t> loop_of_;  // the For around a Store or For, or -1
  static constexpr int64_t kAnyElement = -1;
  std::vector<std::map<int64_t, std::vector<int32_t>>> local_stores_;  // by local and element,
                                                                       // until they are needed
  std::vector<std::vector<int32_t>> shared_stores_;  // by shared array, until they are needed
  // By buffer parameter, until they are needed. An invocation reads only its own stores, and
  // through another parameter of the same memory only before it stores
  // (codegen/kernel/ir/semantics.md).
  std::vector<std::vector<int32_t>> buffer_stores_;
  std::vector<int32_t> without_value_;  // accesses whose element is needed, not the value
  std::vector<std::pair<int32_t, bool>> pending_;
};

}  // namespace

bool exchanges_lanes(const Kernel& k) {
  return !k.matrices.empty() ||
         std::ranges::any_of(k.insts, [](const Inst& i) { return i.op == Op::Subgroup; });
}

std::vector<bool> needed_everywhere(const Kernel& k, Wanted wanted, bool loads) {
  return Demand(k, wanted, loads).run({});
}

std::vector<bool> needed_for(const Kernel& k, std::span<const StoreOf> stores, bool loads) {
  if (stores.empty()) return std::vector<bool>(k.insts.size(), true);
  return Demand(k, Wanted::Values, loads).run(stores);
}

}  // namespace reprise::kernel
