// Builder: memory, barriers and control flow.
#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {

Value Builder::load(int buffer, Val index, int lanes, uint32_t align) {
  if (buffer < 0 || static_cast<size_t>(buffer) >= k_.buffers.size()) {
    fail("load", "no buffer " + std::to_string(buffer));
    return {};
  }
  const BufferParam& b = k_.buffers[static_cast<size_t>(buffer)];
  if (!check_access(b, index, lanes, align, "load")) return {};
  const Type t{compute_type(b.storage), static_cast<uint8_t>(lanes)};
  Inst inst{Op::Load, t, static_cast<uint64_t>(buffer), {index}, {}, align};
  return bound(b.access == Access::Read ? emit_shared(inst, false) : emit(inst));
}

void Builder::store(int buffer, Val index, Val value, uint32_t align) {
  if (buffer < 0 || static_cast<size_t>(buffer) >= k_.buffers.size()) {
    fail("store", "no buffer " + std::to_string(buffer));
    return;
  }
  const BufferParam& b = k_.buffers[static_cast<size_t>(buffer)];
  if (!usable(value, "store")) return;
  const Type t = type(value);
  if (!check_access(b, index, t.lanes, align, "store")) return;
  if (t.ty != compute_type(b.storage)) {
    fail("store",
         "of " + str(t) + " to buffer '" + b.name + "' of " + std::string(name_of(b.storage)));
    return;
  }
  // The store rounds.
  if (b.storage == Ty::BF16 && is_rounded_bf16(value)) value = inst(value).args[0];
  emit({Op::Store, {}, static_cast<uint64_t>(buffer), {index, value}, {}, align});
}

void Builder::store_bits(int buffer, Val index, Val value, Val mask) {
  if (buffer < 0 || static_cast<size_t>(buffer) >= k_.buffers.size()) {
    fail("store_bits", "no buffer " + std::to_string(buffer));
    return;
  }
  const BufferParam& b = k_.buffers[static_cast<size_t>(buffer)];
  if (!usable(value, "store_bits") || !usable(mask, "store_bits")) return;
  if (!check_access(b, index, 1, 1, "store_bits")) return;
  if (b.storage != Ty::U32 || type(value) != kU32 || type(mask) != kU32) {
    fail("store_bits", "buffer '" + b.name + "', the value and the mask must be u32");
    return;
  }
  emit({Op::Store, {}, static_cast<uint64_t>(buffer), {index, value, mask}, {}, 1});
}

Value Builder::local_load(int local, Val index) {
  if (local < 0 || static_cast<size_t>(local) >= k_.locals.size()) {
    fail("local_load", "no local " + std::to_string(local));
    return {};
  }
  if (index && !integer_index(index, "local_load")) return {};
  Inst inst{Op::LocalLoad,
            k_.locals[static_cast<size_t>(local)].type,
            static_cast<uint64_t>(local),
            {},
            {},
            1};
  if (index) inst.args.push_back(index);
  return bound(emit(inst));
}

void Builder::local_store(int local, Val value, Val index) {
  if (local < 0 || static_cast<size_t>(local) >= k_.locals.size()) {
    fail("local_store", "no local " + std::to_string(local));
    return;
  }
  if (!usable(value, "local_store")) return;
  const LocalVar& l = k_.locals[static_cast<size_t>(local)];
  if (type(value) != l.type) {
    fail("local_store", "of " + str(type(value)) + " to '" + l.name + "' of " + str(l.type));
    return;
  }
  if (index && !integer_index(index, "local_store")) return;
  Inst inst{Op::LocalStore, {}, static_cast<uint64_t>(local), {value}, {}, 1};
  if (index) inst.args.push_back(index);
  emit(inst);
}

Value Builder::shared_load(int shared, Val index, int lanes, Val rank) {
  if (shared < 0 || static_cast<size_t>(shared) >= k_.shared.size()) {
    fail("shared_load", "no shared array " + std::to_string(shared));
    return {};
  }
  if (!integer_index(index, "shared_load")) return {};
  if (rank && !integer_index(rank, "shared_load")) return {};
  const Type t{compute_type(k_.shared[static_cast<size_t>(shared)].type),
               static_cast<uint8_t>(lanes)};
  Inst inst{Op::SharedLoad, t, static_cast<uint64_t>(shared), {index}, {}, 1};
  if (rank) inst.args.push_back(rank);
  return bound(emit(inst));
}

void Builder::shared_store(int shared, Val index, Val value) {
  if (shared < 0 || static_cast<size_t>(shared) >= k_.shared.size()) {
    fail("shared_store", "no shared array " + std::to_string(shared));
    return;
  }
  if (!integer_index(index, "shared_store") || !usable(value, "shared_store")) return;
  const SharedArray& s = k_.shared[static_cast<size_t>(shared)];
  if (type(value).ty != compute_type(s.type)) {
    fail("shared_store",
         "of " + str(type(value)) + " to '" + s.name + "' of " + std::string(name_of(s.type)));
    return;
  }
  emit({Op::SharedStore, {}, static_cast<uint64_t>(shared), {index, value}, {}, 1});
}

void Builder::async_copy(int buffer, Val from, int shared, Val to, int lanes, Val count) {
  if (!integer_index(from, "async_copy") || !integer_index(to, "async_copy")) return;
  if (buffer < 0 || static_cast<size_t>(buffer) >= k_.item_buffers()) {
    fail("async_copy", "no buffer " + std::to_string(buffer));
    return;
  }
  if (shared < 0 || static_cast<size_t>(shared) >= k_.shared.size()) {
    fail("async_copy", "no shared array " + std::to_string(shared));
    return;
  }
  const CopyAccess access{static_cast<uint16_t>(buffer), static_cast<uint16_t>(shared),
                          static_cast<uint8_t>(lanes)};
  emit({Op::AsyncCopy, {}, access.imm(), {from, to, count}, {}, static_cast<uint32_t>(lanes)});
}

void Builder::copy_commit() {
  emit({Op::CopyCommit, {}, 0, {}, {}, 1});
}

void Builder::copy_wait(uint32_t unfinished) {
  emit({Op::CopyWait, {}, unfinished, {}, {}, 1});
}

void Builder::barrier(BarrierScope scope) {
  emit({Op::Barrier, {}, static_cast<uint64_t>(scope), {}, {}, 1});
}

bool Builder::check_signal(int signal, Val at, const char* op) {
  if (!integer_index(at, op)) return false;
  const bool known = signal >= 0 && static_cast<size_t>(signal) < k_.signals.size();
  return known || fail(op, "no signal " + std::to_string(signal));
}

bool Builder::check_box(BoxAccess names, Val coordinates, Val index, const char* op) {
  if (!integer_index(index, op) || !usable(coordinates, op)) return false;
  if (names.view >= k_.views.size()) return fail(op, "no view " + std::to_string(names.view));
  const bool known = names.shared < k_.shared.size();
  return known || fail(op, "no shared array " + std::to_string(names.shared));
}

void Builder::box_copy(BoxAccess names, Val coordinates, Val to, Val at, uint32_t align) {
  if (!check_signal(names.signal, at, "box_copy")) return;
  if (!check_box(names, coordinates, to, "box_copy")) return;
  emit({Op::BoxCopy, {}, names.imm(), {to, at, coordinates}, {}, align});
}

void Builder::box_store(BoxAccess names, Val coordinates, Val from, uint32_t align) {
  if (!check_box(names, coordinates, from, "box_store")) return;
  emit({Op::BoxStore, {}, names.imm(), {from, coordinates}, {}, align});
}

void Builder::box_drain(uint32_t unfinished) {
  emit({Op::BoxDrain, {}, unfinished, {}, {}, 1});
}

void Builder::arrive(int signal, Val at, Val rank) {
  if (!check_signal(signal, at, "arrive")) return;
  if (rank && !integer_index(rank, "arrive")) return;
  Inst inst{Op::Arrive, {}, static_cast<uint64_t>(signal), {at}, {}, 1};
  if (rank) inst.args.push_back(rank);
  emit(inst);
}

void Builder::await(int signal, Val at, Val parity) {
  if (!check_signal(signal, at, "await") || !usable(parity, "await")) return;
  emit({Op::Await, {}, static_cast<uint64_t>(signal), {at, parity}, {}, 1});
}

bool Builder::check_matrix(int matrix, const char* op) {
  if (!error_.empty()) return false;
  const bool known = matrix >= 0 && static_cast<size_t>(matrix) < k_.matrices.size();
  return known || fail(op, "no matrix " + std::to_string(matrix));
}

void Builder::matrix_zero(int matrix) {
  if (!check_matrix(matrix, "matrix_zero")) return;
  emit({Op::MatrixZero, {}, static_cast<uint64_t>(matrix), {}, {}, 1});
}

void Builder::matrix_access(Op op, int matrix, int shared, Val index, MatrixAccess lines,
                            uint32_t align) {
  const char* name = op == Op::MatrixLoad ? "matrix_load" : "matrix_store";
  if (!check_matrix(matrix, name) || !integer_index(index, name)) return;
  if (shared < 0 || static_cast<size_t>(shared) >= k_.shared.size()) {
    fail(name, "no shared array " + std::to_string(shared));
    return;
  }
  lines.matrix = static_cast<uint16_t>(matrix);
  lines.shared = static_cast<uint16_t>(shared);
  emit({op, {}, lines.imm(), {index}, {}, align});
}

void Builder::matrix_load(int matrix, int shared, Val index, uint32_t stride, bool by_columns,
                          uint32_t align) {
  matrix_access(Op::MatrixLoad, matrix, shared, index, {0, 0, stride, by_columns}, align);
}

void Builder::matrix_store(int matrix, int shared, Val index, uint32_t stride, bool by_columns,
                           uint32_t align) {
  matrix_access(Op::MatrixStore, matrix, shared, index, {0, 0, stride, by_columns}, align);
}

void Builder::matrix_mul_add(int sum, int left, int right) {
  for (int m : {sum, left, right}) {
    if (!check_matrix(m, "matrix_mul_add")) return;
  }
  const MatrixOperands operands{static_cast<uint16_t>(sum), static_cast<uint16_t>(left),
                                static_cast<uint16_t>(right)};
  emit({Op::MatrixMulAdd, {}, operands.imm(), {}, {}, 1});
}

Value Builder::matrix_get(int matrix, uint32_t slot) {
  if (!check_matrix(matrix, "matrix_get")) return {};
  const HeldElement e{static_cast<uint16_t>(matrix), static_cast<uint16_t>(slot)};
  return bound(emit({Op::MatrixGet, kF32, e.imm(), {}, {}, 1}));
}

void Builder::matrix_set(int matrix, uint32_t slot, Val value) {
  if (!check_matrix(matrix, "matrix_set") || !usable(value, "matrix_set")) return;
  const HeldElement e{static_cast<uint16_t>(matrix), static_cast<uint16_t>(slot)};
  emit({Op::MatrixSet, {}, e.imm(), {value}, {}, 1});
}

void Builder::matrix_convert(int left, int sum, uint32_t column) {
  if (!check_matrix(left, "matrix_convert") || !check_matrix(sum, "matrix_convert")) return;
  const MatrixConversion c{static_cast<uint16_t>(left), static_cast<uint16_t>(sum),
                           static_cast<uint16_t>(column)};
  emit({Op::MatrixConvert, {}, c.imm(), {}, {}, 1});
}

void Builder::team_mul_add(const TeamOperands& operands, Val left_at, Val right_at) {
  if (!check_matrix(operands.sum, "team_mul_add")) return;
  Inst inst{Op::TeamMulAdd, {}, operands.imm(), {}, {}, 1};
  if (!operands.held) inst.args.push_back(left_at);
  inst.args.push_back(right_at);
  for (const Val at : inst.args)
    if (!integer_index(at, "team_mul_add")) return;
  emit(inst);
}

void Builder::matrix_commit() {
  emit({Op::MatrixCommit, {}, 0, {}, {}, 1});
}

void Builder::matrix_await(uint32_t unfinished) {
  emit({Op::MatrixAwait, {}, unfinished, {}, {}, 1});
}

Value Builder::subgroup(SubgroupOp op, Val v, Val lane) {
  if (!usable(v, "subgroup")) return {};
  const bool takes_lane =
      op == SubgroupOp::Shuffle || op == SubgroupOp::ShuffleXor || op == SubgroupOp::Broadcast;
  if ((class_of(type(v).ty) & kNumber) == 0 || takes_lane != static_cast<bool>(lane)) {
    fail("subgroup", takes_lane ? "this operation takes a number and a lane"
                                : "this operation takes a number and no lane");
    return {};
  }
  Inst inst{Op::Subgroup, type(v), static_cast<uint64_t>(op), {v}, {}, 1};
  if (takes_lane) {
    if (!integer_index(lane, "subgroup")) return {};
    inst.args.push_back(lane);
  }
  return bound(emit(inst));
}

void Builder::select_item(Val item) {
  if (!usable(item, "select_item")) return;
  emit({Op::SelectItem, {}, 0, {item}, {}, 1});
}

void Builder::set_error(Val condition, ErrorCode code) {
  if (!usable(condition, "set_error")) return;
  if (type(condition) != kBool) {
    fail("set_error", "the condition is " + str(type(condition)));
    return;
  }
  if (as_const(condition) == 0) return;
  emit({Op::SetError, {}, static_cast<uint64_t>(code), {condition}, {}, 1});
}

void Builder::await_launches() {
  emit({Op::AwaitLaunches, {}, 0, {}, {}, 1});
}

Val Builder::no_error() {
  return emit({Op::NoError, kBool, 0, {}, {}, 1});
}

// --- Control flow

int32_t Builder::new_block() {
  k_.blocks.emplace_back();
  depth_.push_back(-1);
  return static_cast<int32_t>(k_.blocks.size()) - 1;
}

void Builder::write_block(int32_t block, bool loop, const std::function<void()>& write) {
  Scope scope;
  scope.block = block;
  scope.loop = loop;
  depth_[static_cast<size_t>(block)] = static_cast<int32_t>(open_.size());
  open_.push_back(std::move(scope));
  write();
  for (const int32_t id : open_.back().shared) end_sharing(id);
  open_.pop_back();
  depth_[static_cast<size_t>(block)] = -1;
}

void Builder::if_then(Val cond, const std::function<void()>& then) {
  if_else(cond, then, {});
}

void Builder::if_else(Val cond, const std::function<void()>& then,
                      const std::function<void()>& otherwise) {
  if (!usable(cond, "if")) return;
  if (type(cond) != kBool) {
    fail("if", "the condition is " + str(type(cond)));
    return;
  }
  if (const auto known = as_const(cond)) {
    if (*known != 0) {
      then();
    } else if (otherwise) {
      otherwise();
    }
    return;
  }
  Inst inst{Op::If, {}, 0, {cond}, {new_block()}, 1};
  write_block(inst.blocks[0], false, then);
  if (otherwise) {
    inst.blocks.push_back(new_block());
    write_block(inst.blocks[1], false, otherwise);
    if (k_.blocks[static_cast<size_t>(inst.blocks[1])].insts.empty()) inst.blocks.pop_back();
  }
  const bool empty =
      inst.blocks.size() == 1 && k_.blocks[static_cast<size_t>(inst.blocks[0])].insts.empty();
  if (!empty) emit(inst);
}

void Builder::run_roles(std::span<const std::function<void()>> blocks) {
  if (!error_.empty()) return;
  if (k_.roles.size() != blocks.size()) {
    fail("run_roles", "each role has one block");
    return;
  }
  Inst inst{Op::Roles, {}, 0, {}, {}, 1};
  for (const auto& write : blocks) {
    inst.blocks.push_back(new_block());
    write_block(inst.blocks.back(), false, write);
  }
  emit(inst);
}

void Builder::for_loop(Val start, Val end, Val step, const std::function<void(Value i)>& body) {
  for (Val v : {start, end, step}) {
    if (!usable(v, "for")) return;
    if (type(v) != kI32) {
      fail("for", "a bound is " + str(type(v)) + ", not i32");
      return;
    }
  }
  const auto from = as_const(start);
  const auto to = as_const(end);
  const auto by = as_const(step);
  if (by && *by <= 0) {
    fail("for", "the step is " + std::to_string(*by));
    return;
  }
  if (from && to && *from >= *to) return;
  if (from && to && by && *from + *by >= *to) {
    body(bound(start));
    return;
  }
  // The loop is appended to its block when it is complete, so that hoisted instructions precede it.
  const int32_t block = new_block();
  const Val i{static_cast<int32_t>(k_.insts.size())};
  k_.insts.push_back({Op::For, kI32, 0, {start, end, step}, {block}, 1});
  block_of_.push_back(block);
  write_block(block, true, [&] { body(bound(i)); });
  if (!error_.empty() || k_.blocks[static_cast<size_t>(block)].insts.empty()) return;
  k_.blocks[static_cast<size_t>(open_.back().block)].insts.push_back(i.id);
}

Result<Kernel> Builder::finish() {
  if (!error_.empty()) return internal_error("kernel '" + k_.name + "': " + error_);
  auto& body = k_.blocks[0].insts;
  body.insert(body.begin(), head_.begin(), head_.end());
  RP_TRY(verify_in_debug(k_));
  return std::move(k_);
}

}  // namespace reprise::kernel
