#include "codegen/interpreter/demand.h"

#include <algorithm>
#include <map>

namespace reprise::kernel {
namespace {

class Demand {
 public:
  Demand(const Kernel& k, Wanted wanted)
      : k_(k),
        wanted_(wanted),
        depends_(k.insts.size()),
        needed_(k.insts.size()),
        local_stores_(k.locals.size()),
        shared_stores_(k.shared.size()),
        buffer_stores_(k.buffers.size()) {}

  /// `also`: instructions that are needed besides.
  std::vector<bool> run(std::span<const int32_t> also) {
    for (size_t id = 0; id < k_.insts.size(); ++id) {
      const Inst& i = k_.insts[id];
      if (i.op == Op::LocalStore)
        local_stores_[i.imm][element(i, 1)].push_back(static_cast<int32_t>(id));
      if (i.op == Op::SharedStore) shared_stores_[i.imm].push_back(static_cast<int32_t>(id));
      if (i.op == Op::Store) buffer_stores_[i.imm].push_back(static_cast<int32_t>(id));
    }
    visit(0, false);
    for (const int32_t id : also) need(id);
    while (!pending_.empty()) {
      const Inst& i = k_.insts[static_cast<size_t>(pending_.back())];
      pending_.pop_back();
      for (const Val v : i.args) need(v.id);
      if (i.op == Op::LocalLoad) need_local(i);
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

  void need(int32_t id) {
    const auto at = static_cast<size_t>(id);
    if (needed_[at]) return;
    needed_[at] = true;
    pending_.push_back(id);
  }

  /// The element of a local that an instruction accesses, or kAnyElement.
  int64_t element(const Inst& i, size_t index) const {
    if (i.args.size() <= index) return 0;
    const Inst& at = k_.insts[static_cast<size_t>(i.args[index].id)];
    return at.op == Op::Const ? static_cast<int64_t>(at.imm) : kAnyElement;
  }

  void need_local(const Inst& load) {
    auto& stores = local_stores_[load.imm];
    const int64_t wanted = element(load, 0);
    for (auto& [at, list] : stores)
      if (wanted == kAnyElement || at == kAnyElement || at == wanted) need_all(list);
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
      } else if (is_root(i, conditional)) {
        need(id);
      }
      for (const int32_t inner : i.blocks) visit(inner, conditional || depends);
    }
  }

  bool is_root(const Inst& i, bool conditional) const {
    switch (i.op) {
      case Op::If:
      case Op::For:
      case Op::Barrier:
      case Op::SelectItem:
      case Op::SetError:
      case Op::MatrixZero:
      case Op::MatrixLoad:
      case Op::MatrixStore:
      case Op::MatrixMulAdd:
      case Op::AsyncCopy:
      case Op::CopyCommit:
      case Op::CopyWait:
        return true;
      case Op::SharedStore:
        return wanted_ == Wanted::Values;
      case Op::Load:
        if (wanted_ == Wanted::Stored) return false;
        if (wanted_ == Wanted::Accessed) return true;
        [[fallthrough]];
      case Op::Store:
        return conditional || depends_[static_cast<size_t>(i.args[0].id)];
      default:
        return false;
    }
  }

  const Kernel& k_;
  Wanted wanted_;
  std::vector<bool> depends_;  // by instruction: on data that the kernel reads
  std::vector<bool> needed_;
  static constexpr int64_t kAnyElement = -1;
  std::vector<std::map<int64_t, std::vector<int32_t>>> local_stores_;  // by local and element,
                                                                       // until they are needed
  std::vector<std::vector<int32_t>> shared_stores_;  // by shared array, until they are needed
  // By buffer parameter, until they are needed. An invocation reads only its own stores, and
  // through another parameter of the same memory only before it stores
  // (codegen/kernel/ir/semantics.md).
  std::vector<std::vector<int32_t>> buffer_stores_;
  std::vector<int32_t> without_value_;  // stores whose element is needed, but not what they store
  std::vector<int32_t> pending_;
};

}  // namespace

bool exchanges_lanes(const Kernel& k) {
  return !k.matrices.empty() ||
         std::ranges::any_of(k.insts, [](const Inst& i) { return i.op == Op::Subgroup; });
}

std::vector<bool> needed_everywhere(const Kernel& k, Wanted wanted) {
  return Demand(k, wanted).run({});
}

std::vector<bool> needed_for(const Kernel& k, std::span<const int32_t> stores) {
  if (stores.empty()) return std::vector<bool>(k.insts.size(), true);
  return Demand(k, Wanted::Values).run(stores);
}

}  // namespace reprise::kernel
