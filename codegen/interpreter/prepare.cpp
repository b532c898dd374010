// Prepares a kernel for execution: decodes its instructions and allocates its values.
#include <algorithm>
#include <unordered_map>

#include "codegen/interpreter/demand.h"
#include "codegen/interpreter/run.h"

namespace reprise::kernel {
namespace {

size_t padded(size_t n) {
  return (n + WordRows::kChunk - 1) / WordRows::kChunk * WordRows::kChunk;
}

/// Whether a value can share the words of its operand. A Val is defined once, so nothing changes
/// the words while the value is visible.
bool is_alias(const Inst& i, Type from) {
  if (i.op == Op::Extract) return true;
  return i.op == Op::Bitcast && i.type.lanes == from.lanes;
}

/// Whether the instruction is this row on F32.
bool is_row_of(const Inst& i, ScalarOp op) {
  return i.op == Op::Scalar && static_cast<ScalarOp>(i.imm) == op && i.type.ty == Ty::F32;
}

}  // namespace

Interpreter::Interpreter(const Kernel& k, const PartialLaunch& launch,
                         const InterpretOptions& options)
    : k_(k),
      launch_(launch),
      options_(options),
      memory_(*launch.memory),
      size_(k.workgroup[0] * k.workgroup[1] * k.workgroup[2]),
      subgroup_size_(k.required_subgroup_size != 0 ? k.required_subgroup_size
                                                   : options.subgroup_size),
      // Workgroups in lockstep would select several items.
      together_(size_ % subgroup_size_ == 0 && k.items == 1 ? std::max(launch.together, 1U) : 1),
      stride_(padded(size_t{size_} * together_)),
      partial_(is_partial()),
      matrices_(k, size_ / subgroup_size_ * together_) {}

void Interpreter::allocate() {
  allocate_words();
  for (const LocalVar& l : k_.locals) {
    Local& local = locals_.emplace_back();
    const size_t count = l.count * words(l.type);
    if (takes_two_words(l.type.ty)) {
      local.u64.resize(count);
      local.cells.u64 = local.u64.data();
    } else {
      local.u32.resize(count);
      local.cells.u32 = local.u32.data();
    }
    local.filled.resize(l.count);
    local.written.resize(l.count * stride_);
  }
  for (const SharedArray& s : k_.shared) {
    shared_.emplace_back(size_t{s.count} * together_);
    shared_touches_.emplace_back(size_t{s.count} * together_);
  }
  epochs_.resize(together_);
}

void Interpreter::allocate_words() {
  size_t u32 = 0, u64 = 0;
  for (const Inst& i : k_.insts) {
    if (i.type.ty != Ty::Void) (takes_two_words(i.type.ty) ? u64 : u32) += words(i.type);
  }
  u32_.resize(u32);
  u64_.resize(u64);
  values_.resize(k_.insts.size());
  uint32_t* next = u32_.data();
  uint64_t* next_u64 = u64_.data();
  for (size_t id = 0; id < k_.insts.size(); ++id) {
    const Type t = k_.insts[id].type;
    if (t.ty == Ty::Void) continue;
    if (takes_two_words(t.ty)) {
      values_[id].u64 = next_u64;
      next_u64 += words(t);
    } else {
      values_[id].u32 = next;
      next += words(t);
    }
  }
}

bool Interpreter::is_partial() const {
  if (!k_.matrices.empty()) return false;
  if (launch_.wanted != Wanted::Values) return true;
  if (launch_.counted.empty()) return false;
  if (exchanges_lanes(k_) && size_ % subgroup_size_ != 0) return false;
  return together_ >= launch_.workgroups.size();
}

void Interpreter::order_invocations(size_t workgroups) {
  const auto count = static_cast<uint32_t>(workgroups * size_);
  all_.resize(count);
  for (uint32_t i = 0; i < count; ++i) all_[i] = i;
  numbers_ = all_;
  counted_ = count;
  if (!partial_) return;
  if (launch_.wanted != Wanted::Values) {
    counted_ = 0;
    return;
  }
  const uint32_t unit = exchanges_lanes(k_) ? subgroup_size_ : 1;
  std::vector<bool> counts(count / unit);
  for (const uint32_t n : launch_.counted)
    if (n < count) counts[n / unit] = true;
  const auto others = std::stable_partition(numbers_.begin(), numbers_.end(),
                                            [&](uint32_t n) { return counts[n / unit]; });
  counted_ = static_cast<size_t>(others - numbers_.begin());
}

void Interpreter::decode() {
  steps_.resize(k_.blocks.size());
  if (partial_) {
    everywhere_ = needed_everywhere(k_, launch_.wanted);
    needed_ = launch_.wanted == Wanted::Values ? needed_for(k_, launch_.stores) : everywhere_;
  }
  std::vector<uint32_t> uses(k_.insts.size());
  for (const Inst& i : k_.insts)
    for (const Val v : i.args) ++uses[static_cast<size_t>(v.id)];
  // A value's definition precedes its uses, in the same block or in an enclosing one.
  std::vector<int32_t> pending{0};
  while (!pending.empty()) {
    const int32_t index = pending.back();
    pending.pop_back();
    for (const int32_t id : k_.blocks[static_cast<size_t>(index)].insts) {
      const Inst& i = k_.insts[static_cast<size_t>(id)];
      pending.insert(pending.end(), i.blocks.begin(), i.blocks.end());
    }
    decode_block(static_cast<size_t>(index), uses);
  }
}

void Interpreter::decode_block(size_t index, const std::vector<uint32_t>& uses) {
  std::vector<Step>& steps = steps_[index];
  const RowFunction mul_add = mul_add_function(options_);
  std::unordered_map<int32_t, size_t> products;  // steps of the products that have a single use
  for (const int32_t id : k_.blocks[index].insts) {
    auto step = step_of(id);
    if (!step) continue;
    const Inst& i = *step->inst;
    if (is_row_of(i, ScalarOp::Mul) && uses[static_cast<size_t>(id)] == 1)
      products.emplace(id, steps.size());
    if (mul_add != nullptr && is_row_of(i, ScalarOp::Add)) {
      const bool second = !products.contains(i.args[0].id);
      if (const auto product = products.find(i.args[second ? 1 : 0].id);
          product != products.end()) {
        Step& mul = steps[product->second];
        step->function = mul_add;
        step->rows.in = {mul.rows.in[0], mul.rows.in[1], step->in[second ? 0 : 1].u32};
        mul.execute = nullptr;
      }
    }
    set_width(*step);
    steps.push_back(*step);
  }
  std::erase_if(steps, [&](const Step& s) {
    return s.execute == nullptr || (partial_ && !needed_[static_cast<size_t>(s.id)]);
  });
}

Interpreter::Execute Interpreter::execute_of(Op op) {
  switch (op) {
    case Op::Const:
    case Op::Builtin:
    case Op::Extract:
    case Op::NoError:
      return nullptr;
    case Op::Param:
      return &Interpreter::item_param;
    case Op::SelectItem:
      return &Interpreter::select_item;
    case Op::Scalar:
      return &Interpreter::scalar;
    case Op::Convert:
      return &Interpreter::convert;
    case Op::Bitcast:
      return &Interpreter::bitcast;
    case Op::Compose:
      return &Interpreter::compose;
    case Op::Load:
    case Op::Store:
      return &Interpreter::buffer_access;
    case Op::LocalLoad:
    case Op::LocalStore:
      return &Interpreter::local_access;
    case Op::SharedLoad:
    case Op::SharedStore:
      return &Interpreter::shared_access;
    case Op::Barrier:
      return &Interpreter::barrier;
    case Op::MatrixZero:
    case Op::MatrixLoad:
    case Op::MatrixStore:
    case Op::MatrixMulAdd:
      return &Interpreter::matrix;
    case Op::Subgroup:
      return &Interpreter::subgroup;
    case Op::SetError:
      return &Interpreter::set_error;
    case Op::If:
      return &Interpreter::branch;
    case Op::For:
      return &Interpreter::loop;
  }
  return nullptr;
}

void Interpreter::set_width(Step& s) const {
  const size_t lanes = s.inst->type.lanes;
  s.counted = !everywhere_.empty() && !everywhere_[static_cast<size_t>(s.id)];
  s.width = s.counted ? padded(counted_) : stride_;
  s.runs = s.width == stride_ ? 1 : lanes;
  s.rows.count = s.runs == 1 ? lanes * s.width : s.width;
}

/// Nothing for values that are known before the kernel runs.
std::optional<Interpreter::Step> Interpreter::step_of(int32_t id) {
  const Inst& i = k_.insts[static_cast<size_t>(id)];
  Row& value = values_[static_cast<size_t>(id)];
  const bool known = i.op == Op::Const || i.op == Op::NoError;
  if (known || (i.op == Op::Param && i.args.empty())) {
    const uint64_t bits = i.op == Op::NoError ? 1 : known ? i.imm : launch_.scalars[i.imm];
    for (size_t n = 0; n < words(i.type); ++n) value.set(n, bits);
    return std::nullopt;
  }
  if (!i.args.empty() && is_alias(i, type(i.args[0]))) {
    value = row(i.args[0]).from(i.op == Op::Extract ? i.imm * stride_ : 0);
    return std::nullopt;
  }
  Step s;
  s.execute = execute_of(i.op);
  if (s.execute == nullptr) return std::nullopt;
  s.inst = &i;
  s.id = id;
  s.out = value;
  for (size_t a = 0; a < i.args.size(); ++a) s.in[a] = row(i.args[a]);
  if (i.op == Op::Scalar) {
    const auto op = static_cast<ScalarOp>(i.imm);
    const Ty operand = type(i.args.back()).ty;
    s.scalar = scalar_function(op, operand);
    s.function = row_function(op, operand, options_);
  } else if (i.op == Op::Convert) {
    const Ty from = type(i.args[0]).ty;
    const bool rounds = i.type.ty == Ty::F16 && options_.native_error != NativeError::None;
    const bool checked = i.imm != 0 && class_of(from) == kFloat;
    if (!rounds && !checked) s.function = convert_function(from, i.type.ty);
  }
  if (s.function == nullptr) return s;
  s.rows.out = s.out.u32;
  for (size_t a = 0; a < 3; ++a) s.rows.in[a] = s.in[a < i.args.size() ? a : 0].u32;
  s.rows.seed = options_.error_seed;
  return s;
}

}  // namespace reprise::kernel
