#include "codegen/interpreter/demand.h"

#include <algorithm>

namespace reprise::kernel {
namespace {

class Demand {
 public:
  explicit Demand(const Kernel& k)
      : k_(k),
        depends_(k.insts.size()),
        needed_(k.insts.size()),
        local_stores_(k.locals.size()),
        buffer_stores_(k.buffers.size()) {}

  std::vector<bool> run() {
    for (size_t id = 0; id < k_.insts.size(); ++id) {
      const Inst& i = k_.insts[id];
      if (i.op == Op::LocalStore) local_stores_[i.imm].push_back(static_cast<int32_t>(id));
      if (i.op == Op::Store) buffer_stores_[i.imm].push_back(static_cast<int32_t>(id));
    }
    visit(0, false);
    while (!pending_.empty()) {
      const Inst& i = k_.insts[static_cast<size_t>(pending_.back())];
      pending_.pop_back();
      for (const Val v : i.args) need(v.id);
      if (i.op == Op::LocalLoad) need_all(local_stores_[i.imm]);
      if (i.op == Op::Load) need_all(buffer_stores_[i.imm]);
    }
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
      if (is_root(i, conditional)) need(id);
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
      case Op::SharedStore:
      case Op::MatrixZero:
      case Op::MatrixLoad:
      case Op::MatrixStore:
      case Op::MatrixMulAdd:
        return true;
      case Op::Load:
      case Op::Store:
        return conditional || depends_[static_cast<size_t>(i.args[0].id)];
      default:
        return false;
    }
  }

  const Kernel& k_;
  std::vector<bool> depends_;  // by instruction: on data that the kernel reads
  std::vector<bool> needed_;
  std::vector<std::vector<int32_t>> local_stores_;  // by local, until they are needed
  // By buffer, until they are needed. An invocation reads only its own stores.
  std::vector<std::vector<int32_t>> buffer_stores_;
  std::vector<int32_t> pending_;
};

}  // namespace

bool exchanges_lanes(const Kernel& k) {
  return !k.matrices.empty() ||
         std::ranges::any_of(k.insts, [](const Inst& i) { return i.op == Op::Subgroup; });
}

std::vector<bool> needed_everywhere(const Kernel& k) {
  return Demand(k).run();
}

}  // namespace reprise::kernel
