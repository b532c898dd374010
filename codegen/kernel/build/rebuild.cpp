#include "codegen/kernel/build/rebuild.h"

#include <algorithm>

namespace reprise::kernel {

Rebuilder::Rebuilder(const Kernel& from, Builder to)
    : from_(from), to_(std::move(to)), map_(from.insts.size()) {}

void Rebuilder::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

Result<Kernel> Rebuilder::run() {
  block(0);
  if (!status_.ok()) return status_;
  return to_.finish();
}

void Rebuilder::block(int32_t index) {
  for (int32_t id : from_.blocks[static_cast<size_t>(index)].insts) instruction(id);
}

void Rebuilder::instruction(int32_t id) {
  const Inst& i = from_.insts[static_cast<size_t>(id)];
  InlineList<Val, 4> args;
  for (Val v : i.args) args.push_back(map_[static_cast<size_t>(v.id)]);
  if (i.op == Op::If || i.op == Op::For) branch(i);
  if (i.op == Op::Roles) {
    roles(i);
  } else if (i.op == Op::If) {
    std::function<void()> otherwise;
    if (i.blocks.size() > 1) otherwise = [&] { block(i.blocks[1]); };
    to_.if_else(
        args[0], [&] { block(i.blocks[0]); }, otherwise);
  } else if (i.op == Op::For) {
    to_.for_loop(args[0], args[1], args[2], [&](Val v) {
      map_[static_cast<size_t>(id)] = v;
      block(i.blocks[0]);
    });
  } else {
    map_[static_cast<size_t>(id)] = rewrite(i, args);
  }
}

void Rebuilder::roles(const Inst& i) {
  std::vector<std::function<void()>> blocks;
  for (const int32_t b : i.blocks) blocks.emplace_back([this, b] { block(b); });
  to_.run_roles(blocks);
}

Val Rebuilder::rewrite(const Inst& inst, std::span<const Val> args) {
  return copy(inst, args);
}

Val Rebuilder::copy(const Inst& i, std::span<const Val> args) {
  const int index = static_cast<int>(i.imm);
  const Val second = args.size() > 1 ? args[1] : Val{};
  switch (i.op) {
    case Op::Const:
      return to_.constant_bits(i.type, i.imm);
    case Op::Param:
      return to_.param(index, args.empty() ? Val{} : args[0]);
    case Op::Builtin:
      return to_.builtin(static_cast<Builtin>(i.imm & 0xffU), static_cast<int>(i.imm >> 8U));
    case Op::Scalar:
      return to_.scalar_op(static_cast<ScalarOp>(i.imm), args);
    case Op::Convert:
      return to_.convert(args[0], i.type.ty, i.imm != 0);
    case Op::Bitcast:
      return to_.bitcast(args[0], i.type);
    case Op::Compose:
      return to_.compose(args);
    case Op::Extract:
      return i.type.lanes == 1 ? to_.extract(args[0], index)
                               : to_.part(args[0], index / kPartLanes);
    case Op::Load:
      return to_.load(index, args[0], i.type.lanes, i.align);
    case Op::Store:
      if (args.size() == 3) to_.store_bits(index, args[0], args[1], args[2]);
      if (args.size() == 2) to_.store(index, args[0], args[1], i.align);
      return {};
    case Op::LocalLoad:
      return to_.local_load(index, args.empty() ? Val{} : args[0]);
    case Op::LocalStore:
      to_.local_store(index, args[0], second);
      return {};
    case Op::SharedLoad:
      return to_.shared_load(index, args[0], i.type.lanes, second);
    case Op::SharedStore:
      to_.shared_store(index, args[0], args[1]);
      return {};
    case Op::MatrixGet:
      return to_.matrix_get(HeldElement::of(i.imm).matrix, HeldElement::of(i.imm).slot);
    case Op::Subgroup:
      return to_.subgroup(static_cast<SubgroupOp>(i.imm), args[0], second);
    case Op::SetError:
      to_.set_error(args[0], static_cast<ErrorCode>(i.imm));
      return {};
    case Op::NoError:
      return to_.no_error();
    case Op::If:
    case Op::For:
    case Op::Roles:
      return {};
    default:
      copy_statement(i, args);
      return {};
  }
}

void Rebuilder::copy_statement(const Inst& i, std::span<const Val> args) {
  if (i.op == Op::Barrier) {
    to_.barrier(static_cast<BarrierScope>(i.imm));
  } else if (i.op == Op::BoxCopy) {
    const BoxAccess a = BoxAccess::of(i.imm);
    to_.box_copy(a, args[2], args[0], args[1], i.align);
  } else if (i.op == Op::BoxStore) {
    to_.box_store(BoxAccess::of(i.imm), args[1], args[0], i.align);
  } else if (i.op == Op::BoxDrain) {
    to_.box_drain(static_cast<uint32_t>(i.imm));
  } else if (i.op == Op::Arrive) {
    to_.arrive(static_cast<int>(i.imm), args[0], args.size() > 1 ? args[1] : Val{});
  } else if (i.op == Op::Await) {
    to_.await(static_cast<int>(i.imm), args[0], args[1]);
  } else if (i.op == Op::TeamMulAdd) {
    to_.team_mul_add(TeamOperands::of(i.imm), args[0], args.back());
  } else if (i.op == Op::MatrixCommit) {
    to_.matrix_commit();
  } else if (i.op == Op::MatrixAwait) {
    to_.matrix_await(static_cast<uint32_t>(i.imm));
  } else if (i.op == Op::SelectItem) {
    to_.select_item(args[0]);
  } else if (i.op == Op::AwaitLaunches) {
    to_.await_launches();
  } else if (i.op == Op::CopyCommit) {
    to_.copy_commit();
  } else if (i.op == Op::CopyWait) {
    to_.copy_wait(static_cast<uint32_t>(i.imm));
  } else if (i.op == Op::AsyncCopy) {
    const CopyAccess a = CopyAccess::of(i.imm);
    to_.async_copy(a.buffer, args[0], a.shared, args[1], a.lanes, args[2]);
  } else if (i.op == Op::MatrixZero) {
    to_.matrix_zero(static_cast<int>(i.imm));
  } else if (i.op == Op::MatrixMulAdd) {
    const MatrixOperands m = MatrixOperands::of(i.imm);
    to_.matrix_mul_add(m.sum, m.left, m.right);
  } else if (i.op == Op::MatrixSet) {
    const HeldElement e = HeldElement::of(i.imm);
    to_.matrix_set(e.matrix, e.slot, args[0]);
  } else if (i.op == Op::MatrixConvert) {
    const MatrixConversion c = MatrixConversion::of(i.imm);
    to_.matrix_convert(c.left, c.sum, c.column);
  } else {
    const MatrixAccess a = MatrixAccess::of(i.imm);
    const auto write = i.op == Op::MatrixLoad ? &Builder::matrix_load : &Builder::matrix_store;
    (to_.*write)(a.matrix, a.shared, args[0], a.stride, a.by_columns, i.align);
  }
}

namespace {

class DeadCode {
 public:
  explicit DeadCode(Kernel& k)
      : k_(k),
        live_(k.insts.size()),
        around_(k.insts.size(), -1),
        stores_(k.locals.size()),
        number_(k.insts.size(), -1) {}

  void run() {
    find_effects(0, -1);
    while (!todo_.empty()) {
      const int32_t next = todo_.back();
      todo_.pop_back();
      use(next);
    }
    Kernel out;
    out.insts.reserve(static_cast<size_t>(std::ranges::count(live_, true)));
    out.blocks.emplace_back();
    move_constants(0, out);
    move_block(0, 0, out);
    k_.insts = std::move(out.insts);
    k_.blocks = std::move(out.blocks);
  }

 private:
  Inst& inst(int32_t id) { return k_.insts[static_cast<size_t>(id)]; }

  /// `around`: the If or For that the block belongs to.
  void find_effects(int32_t block, int32_t around) {
    for (const int32_t id : k_.blocks[static_cast<size_t>(block)].insts) {
      const Inst& i = inst(id);
      around_[static_cast<size_t>(id)] = around;
      if (i.op == Op::LocalStore) stores_[i.imm].push_back(id);
      const bool branch = i.op == Op::If || i.op == Op::For;
      const bool effect = !is_value(i.op) && i.op != Op::LocalStore && !branch;
      if (effect) mark(id);
      for (const int32_t b : i.blocks) find_effects(b, id);
    }
  }

  void mark(int32_t id) {
    if (id < 0 || live_[static_cast<size_t>(id)]) return;
    live_[static_cast<size_t>(id)] = true;
    todo_.push_back(id);
  }

  /// Marks what an instruction needs. The stores of a local that is loaded are live.
  void use(int32_t id) {
    const Inst& i = inst(id);
    for (const Val v : i.args) mark(v.id);
    mark(around_[static_cast<size_t>(id)]);
    if (i.op != Op::LocalLoad) return;
    for (const int32_t store : stores_[i.imm]) mark(store);
    stores_[i.imm].clear();
  }

  int32_t append(const Inst& i, int32_t block, Kernel& out) {
    const auto number = static_cast<int32_t>(out.insts.size());
    out.blocks[static_cast<size_t>(block)].insts.push_back(number);
    out.insts.push_back(i);
    return number;
  }

  /// Puts constants first, in the order of their first use.
  void move_constants(int32_t block, Kernel& out) {
    for (const int32_t id : k_.blocks[static_cast<size_t>(block)].insts) {
      if (!live_[static_cast<size_t>(id)]) continue;
      const Inst& user = inst(id);
      for (const Val v : user.args) {
        int32_t& number = number_[static_cast<size_t>(v.id)];
        if (number < 0 && inst(v.id).op == Op::Const) number = append(inst(v.id), 0, out);
      }
      for (const int32_t b : user.blocks) move_constants(b, out);
    }
  }

  void move_block(int32_t from, int32_t to, Kernel& out) {
    for (const int32_t id : k_.blocks[static_cast<size_t>(from)].insts) {
      if (!live_[static_cast<size_t>(id)] || inst(id).op == Op::Const) continue;
      Inst i = inst(id);
      for (Val& v : i.args) v.id = number_[static_cast<size_t>(v.id)];
      const auto blocks = i.blocks;
      i.blocks.clear();
      const int32_t number = append(i, to, out);
      number_[static_cast<size_t>(id)] = number;
      for (const int32_t b : blocks) {
        const auto moved = static_cast<int32_t>(out.blocks.size());
        out.blocks.emplace_back();
        out.insts[static_cast<size_t>(number)].blocks.push_back(moved);
        move_block(b, moved, out);
      }
    }
  }

  Kernel& k_;
  std::vector<bool> live_;
  std::vector<int32_t> around_;               // by instruction: the If or For around it, or -1
  std::vector<std::vector<int32_t>> stores_;  // by local, until it is loaded
  std::vector<int32_t> todo_;                 // live instructions whose needs are not marked
  std::vector<int32_t> number_;
};

}  // namespace

void remove_dead(Kernel& k) {
  DeadCode(k).run();
}

void simplify(Kernel& k) {
  // The builder folds and reuses. A kernel that does not verify is left unchanged.
  if (!verify_in_debug(k).ok()) return;
  if (auto simple = Rebuilder(k, Builder::like(k)).run(); simple.ok()) k = std::move(*simple);
  remove_dead(k);
}

}  // namespace reprise::kernel
