// Prepares a kernel for execution: decodes its instructions and allocates its values.
#include <algorithm>
#include <numeric>
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

/// How many workgroups are executed in lockstep. Several would select several items.
uint32_t workgroups_together(const Kernel& k, const PartialLaunch& launch, uint32_t subgroup_size) {
  const uint32_t size = k.workgroup[0] * k.workgroup[1] * k.workgroup[2];
  const bool several = size % subgroup_size == 0 && k.items == 1 && k.roles.empty();
  return several ? std::max(launch.together, 1U) : 1;
}

}  // namespace

bool Interpreter::can_combine(const Kernel& k, const PartialLaunch& launch,
                              uint32_t subgroup_size) {
  if (!k.roles.empty()) return false;
  if (k.required_subgroup_size != 0) subgroup_size = k.required_subgroup_size;
  const size_t size = size_t{k.workgroup[0]} * k.workgroup[1] * k.workgroup[2];
  const uint32_t together = workgroups_together(k, launch, subgroup_size);
  const size_t workgroups = launch.workgroups.size();
  return size * together % WordRows::kChunk == 0 && workgroups != 0 && workgroups % together == 0 &&
         (size % subgroup_size == 0 || !exchanges_lanes(k));
}

Interpreter::Interpreter(const Kernel& k, const PartialLaunch& launch,
                         std::span<const InterpretOptions> variants, size_t first, size_t copies)
    : k_(k),
      launch_(launch),
      variants_(variants),
      first_variant_(first),
      copies_(copies),
      memory_(*launch.memory),
      size_(k.workgroup[0] * k.workgroup[1] * k.workgroup[2]),
      subgroup_size_(k.required_subgroup_size != 0 ? k.required_subgroup_size
                                                   : variants[0].subgroup_size),
      together_(workgroups_together(k, launch, subgroup_size_)),
      stride_(padded(size_t{size_} * together_) * copies_),
      has_copies_(std::ranges::any_of(k.insts,
                                      [](const Inst& i) {
                                        return i.op == Op::AsyncCopy || i.op == Op::CopyCommit ||
                                               i.op == Op::CopyWait;
                                      })),
      partial_(is_partial()),
      begins_early_(
          std::ranges::any_of(k.insts, [](const Inst& i) { return i.op == Op::AwaitLaunches; })),
      matrices_(k, static_cast<uint32_t>(size_ / subgroup_size_ * together_ * copies_)),
      cluster_{this},
      stored_boxes_(boxes_of_launch_),
      instructions_(instructions_of_launch_) {
  others_.reserve(k.cluster);
  for (uint32_t rank = 1; rank < k.cluster; ++rank) {
    others_.emplace_back(new Interpreter(*this, rank));  // NOLINT(modernize-make-unique): private
    cluster_.push_back(others_.back().get());
  }
  for (const auto& other : others_) other->cluster_ = cluster_;
}

Interpreter::Interpreter(Interpreter& lead, uint32_t rank)
    : k_(lead.k_),
      launch_(lead.launch_),
      variants_(lead.variants_),
      first_variant_(lead.first_variant_),
      copies_(lead.copies_),
      memory_(lead.memory_),
      size_(lead.size_),
      subgroup_size_(lead.subgroup_size_),
      together_(lead.together_),
      stride_(lead.stride_),
      has_copies_(lead.has_copies_),
      partial_(lead.partial_),
      begins_early_(lead.begins_early_),
      matrices_(k_, size_ / subgroup_size_),
      rank_(rank),
      stored_boxes_(lead.stored_boxes_),
      instructions_(lead.instructions_) {}

void Interpreter::prepare(size_t workgroups) {
  find_needed();
  allocate();
  order_invocations(workgroups);
  decode();
}

void Interpreter::find_needed() {
  if (!partial_) return;
  const bool values = launch_.wanted == Wanted::Values;
  const bool checks = launch_.check_shared && first_variant_ == 0;
  everywhere_ = needed_everywhere(k_, launch_.wanted, checks && !values);
  if (checks && values) {
    checked_everywhere_ = needed_everywhere(k_, launch_.wanted, true);
    used_in_checks_ = used_by(checked_everywhere_);
  }
  if (!values) {
    needed_ = everywhere_;
    used_ = used_by(needed_);
  } else if (!launch_.stores.empty()) {
    needed_ = needed_for(k_, launch_.stores, checks);
  }
}

/// By instruction: whether its value is an operand of one of these. What a Store stores does not
/// count: it is not one of them if its value is wanted.
std::vector<bool> Interpreter::used_by(const std::vector<bool>& users) const {
  std::vector<bool> used(k_.insts.size());
  for (size_t id = 0; id < k_.insts.size(); ++id) {
    const Inst& i = k_.insts[id];
    for (size_t a = 0; a < i.args.size() && users[id]; ++a)
      if (i.op != Op::Store || a != 1) used[static_cast<size_t>(i.args[a].id)] = true;
  }
  return used;
}

void Interpreter::allocate() {
  allocate_words();
  for (const LocalVar& l : k_.locals) {
    Local& local = locals_.emplace_back();
    local.memory.allocate(l.type.ty, l.count * words(l.type));
    local.cells = local.memory.row;
    local.filled.resize(l.count);
    local.unneeded.resize(l.count);
    local.written.resize(l.count * stride_);
  }
  for (const SharedArray& s : k_.shared) {
    const size_t count = size_t{s.count} * together_ * copies_;
    shared_.emplace_back().allocate(s.type, count);
    shared_touches_.emplace_back(count);
    read_by_many_.emplace_back(count);
  }
  epochs_.resize(together_ * copies_);
  for (size_t id = 0; id < k_.insts.size(); ++id) {
    const Inst& i = k_.insts[id];
    if (i.op != Op::LocalStore || is_needed(id)) continue;
    const Inst* at = i.args.size() > 1 ? &k_.insts[static_cast<size_t>(i.args[1].id)] : nullptr;
    std::vector<uint8_t>& unneeded = locals_[i.imm].unneeded;
    if (at == nullptr || (at->op == Op::Const && at->imm < unneeded.size()))
      unneeded[at == nullptr ? 0 : at->imm] = 1;
  }
}

void Interpreter::allocate_words() {
  const auto has_words = [&](size_t id) {
    const Inst& i = k_.insts[id];
    return i.type.ty != Ty::Void && is_needed(id) &&
           (i.args.empty() || !is_alias(i, type(i.args[0])));
  };
  size_t u32 = 0, u64 = 0;
  for (size_t id = 0; id < k_.insts.size(); ++id) {
    const Type t = k_.insts[id].type;
    if (has_words(id)) (takes_two_words(t.ty) ? u64 : u32) += words(t);
  }
  u32_ = std::make_unique_for_overwrite<uint32_t[]>(u32);
  u64_ = std::make_unique_for_overwrite<uint64_t[]>(u64);
  values_.resize(k_.insts.size());
  uint32_t* next = u32_.get();
  uint64_t* next_u64 = u64_.get();
  for (size_t id = 0; id < k_.insts.size(); ++id) {
    if (!has_words(id)) continue;
    const Type t = k_.insts[id].type;
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
  if (!k_.matrices.empty() || has_copies_ || !k_.roles.empty()) return false;
  if (launch_.wanted != Wanted::Values) return true;
  if (launch_.counted.empty()) return false;
  if (exchanges_lanes(k_) && size_ % subgroup_size_ != 0) return false;
  return together_ >= launch_.workgroups.size();
}

size_t Interpreter::put_counted_first(std::vector<uint32_t>& order) const {
  if (launch_.wanted != Wanted::Values) return 0;
  const uint32_t unit = exchanges_lanes(k_) ? subgroup_size_ : 1;
  std::vector<bool> counts(order.size() / unit);
  for (const uint32_t n : launch_.counted)
    if (n < order.size()) counts[n / unit] = true;
  auto counted = static_cast<size_t>(std::ranges::count(counts, true));
  // With several options, others also count until the rows of each fill whole chunks.
  for (size_t i = 0; copies_ > 1 && counted * unit % WordRows::kChunk != 0; ++i) {
    counted += counts[i] ? 0 : 1;
    counts[i] = true;
  }
  std::stable_partition(order.begin(), order.end(), [&](uint32_t n) { return counts[n / unit]; });
  return counted * unit;
}

void Interpreter::place(std::span<const uint32_t> numbers, size_t variant,
                        std::vector<Part>& parts) {
  const size_t begin = numbers_.size();
  if (!numbers.empty()) parts.push_back({begin, numbers.size(), variant});
  const auto groups = static_cast<uint32_t>((variant - first_variant_) * together_);
  for (const uint32_t n : numbers) {
    numbers_.push_back(n);
    variant_of_.push_back(static_cast<uint8_t>(variant));
    group_of_.push_back(groups + n / size_);
  }
}

void Interpreter::order_invocations(size_t workgroups) {
  const size_t count = workgroups * size_;
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  const size_t counted = partial_ ? put_counted_first(order) : count;
  numbers_.clear();
  variant_of_.clear();
  group_of_.clear();
  counted_parts_.clear();
  for (size_t v = first_variant_; v < first_variant_ + copies_; ++v)
    place(std::span(order).first(counted), v, counted_parts_);
  counted_ = numbers_.size();
  parts_ = counted_parts_;
  for (size_t v = first_variant_; v < first_variant_ + copies_; ++v) {
    place(std::span(order).subspan(counted), v, parts_);
    if (v != first_variant_) continue;
    checked_parts_ = parts_;
    checked_ = numbers_.size();
  }
  all_.resize(numbers_.size());
  std::iota(all_.begin(), all_.end(), 0U);
  if (copies_ != 1) return;
  parts_ = checked_parts_ = {{0, stride_, first_variant_}};
  counted_parts_ = {{0, padded(counted_), first_variant_}};
}

void Interpreter::decode() {
  steps_.resize(k_.blocks.size());
  loops_.assign(k_.blocks.size(), -1);
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
      const int32_t loop = i.op == Op::For ? id : loops_[static_cast<size_t>(index)];
      for (const int32_t inner : i.blocks) loops_[static_cast<size_t>(inner)] = loop;
    }
    decode_block(static_cast<size_t>(index), uses);
  }
}

/// Lets the values of loads share the words of the local if it does not change while the values are
/// used, all in the same block.
void Interpreter::share_locals(size_t index, const std::vector<uint32_t>& uses) {
  const std::vector<int32_t>& list = k_.blocks[index].insts;
  // By instruction: the place of its last use, and its uses in this block.
  last_use_.resize(k_.insts.size());
  uses_here_.resize(k_.insts.size());
  for (const int32_t id : list) uses_here_[static_cast<size_t>(id)] = 0;
  std::vector<size_t> ends(k_.locals.size(), list.size());  // the next store to each local
  size_t barrier = list.size();                             // the next If or For
  for (size_t place = list.size(); place-- > 0;) {
    const auto id = static_cast<size_t>(list[place]);
    const Inst& i = k_.insts[id];
    const bool used_here = uses_here_[id] != 0 && uses_here_[id] == uses[id];
    if (i.op == Op::LocalLoad && used_here) {
      const Inst* at = i.args.empty() ? nullptr : &k_.insts[static_cast<size_t>(i.args[0].id)];
      const bool constant =
          at == nullptr || (at->op == Op::Const && at->imm < k_.locals[i.imm].count);
      if (constant && last_use_[id] <= std::min(ends[i.imm], barrier)) {
        const size_t element = at == nullptr ? 0 : at->imm;
        values_[id] = locals_[i.imm].cells.from(element * words(i.type));
      }
    }
    if (i.op == Op::LocalStore) ends[i.imm] = place;
    if (!i.blocks.empty()) barrier = place;
    // The words of an alias and the operands of a product that is fused with a sum are used later.
    const bool later =
        !i.args.empty() && (is_alias(i, type(i.args[0])) || is_row_of(i, ScalarOp::Mul));
    const size_t used =
        later && uses[id] != 0 ? (used_here ? last_use_[id] : list.size() + 1) : place;
    for (const Val v : i.args) {
      const auto operand = static_cast<size_t>(v.id);
      last_use_[operand] = uses_here_[operand] == 0 ? used : std::max(last_use_[operand], used);
      ++uses_here_[operand];
    }
  }
}

void Interpreter::decode_block(size_t index, const std::vector<uint32_t>& uses) {
  struct Decoded {
    Step step;
    bool fused = false;
  };
  std::vector<Decoded> decoded;
  decoded.reserve(k_.blocks[index].insts.size());
  share_locals(index, uses);
  const bool fuses = std::ranges::all_of(
      own_variants(), [](const InterpretOptions& o) { return mul_add_function(o) != nullptr; });
  std::unordered_map<int32_t, size_t> products;  // that have a single use, in `decoded`
  for (const int32_t id : k_.blocks[index].insts) {
    if (!is_needed(static_cast<size_t>(id))) continue;
    auto step = step_of(id);
    if (!step) continue;
    step->loop = loops_[index];
    const Inst& i = *step->inst;
    bool fused = false;
    if (is_row_of(i, ScalarOp::Mul) && uses[static_cast<size_t>(id)] == 1)
      products.emplace(id, decoded.size());
    if (fuses && is_row_of(i, ScalarOp::Add)) {
      const bool second = !products.contains(i.args[0].id);
      if (const auto product = products.find(i.args[second ? 1 : 0].id);
          product != products.end()) {
        Step& mul = decoded[product->second].step;
        step->rows.in = {mul.rows.in[0], mul.rows.in[1], step->in[second ? 0 : 1].u32};
        mul.execute = nullptr;
        fused = true;
      }
    }
    decoded.push_back({*step, fused});
  }
  std::vector<Step>& steps = steps_[index];
  steps.reserve(decoded.size());
  for (const Decoded& d : decoded)
    if (d.step.execute != nullptr) add_steps(d.step, d.fused, steps);
}

RowFunction Interpreter::function_of(const Inst& i, bool fused,
                                     const InterpretOptions& options) const {
  if (fused) return mul_add_function(options);
  if (i.op == Op::Scalar) {
    const auto op = static_cast<ScalarOp>(i.imm);
    if (op != ScalarOp::IDiv && op != ScalarOp::IRem)
      return row_function(op, type(i.args.back()).ty, options);
    const Inst& divisor = k_.insts[static_cast<size_t>(i.args[1].id)];
    const auto bits = static_cast<uint32_t>(divisor.imm);
    const bool negative = i.type.ty == Ty::I32 && static_cast<int32_t>(bits) < 0;
    const uint32_t magnitude = negative ? 0 - bits : bits;
    const bool constant = divisor.op == Op::Const && magnitude != 0 && magnitude <= kMaxDivisor;
    return constant ? division_function(op, i.type.ty) : nullptr;
  }
  if (i.op != Op::Convert) return nullptr;
  const Ty from = type(i.args[0]).ty;
  const bool rounds = i.type.ty == Ty::F16 && options.native_error != NativeError::None;
  const bool checked = i.imm != 0 && class_of(from) == kFloat;
  return rounds || checked ? nullptr : convert_function(from, i.type.ty);
}

void Interpreter::add_steps(Step s, bool fused, std::vector<Step>& steps) const {
  const size_t lanes = s.inst->type.lanes;
  s.who = executed_by(static_cast<size_t>(s.id));
  const std::vector<Part>& parts = parts_of(s.who);
  s.width = parts.empty() ? 0 : parts.back().begin + parts.back().count;
  const size_t first = steps.size();
  const RowFunction exact = function_of(*s.inst, fused, {});
  for (const Part& part : parts) {
    const InterpretOptions& options = variants_[part.variant];
    Step one = s;
    one.function = function_of(*s.inst, fused, options);
    if (one.function == nullptr) {  // Some options have no function.
      steps.resize(first);
      steps.push_back(s);
      return;
    }
    // A function for this part alone reads the seed.
    one.rows = s.rows.from(part.begin);
    one.rows.seed = one.function == exact ? 0 : options.error_seed;
    one.rows.count = part.count;
    if (steps.size() != first && steps.back().function == one.function &&
        steps.back().rows.seed == one.rows.seed) {
      steps.back().rows.count += part.count;
    } else {
      steps.push_back(one);
    }
  }
  for (size_t i = first; i < steps.size(); ++i) {
    Step& one = steps[i];
    const bool whole = one.rows.count == stride_;
    one.runs = whole ? 1 : static_cast<uint32_t>(lanes);
    if (whole) one.rows.count *= lanes;
  }
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
    case Op::AsyncCopy:
      return &Interpreter::async_copy;
    case Op::CopyCommit:
      return &Interpreter::copy_commit;
    case Op::CopyWait:
      return &Interpreter::copy_wait;
    case Op::Barrier:
      return &Interpreter::barrier;
    case Op::MatrixZero:
    case Op::MatrixLoad:
    case Op::MatrixStore:
    case Op::MatrixMulAdd:
    case Op::MatrixConvert:
      return &Interpreter::matrix;
    case Op::MatrixGet:
    case Op::MatrixSet:
      return &Interpreter::held_element;
    case Op::Subgroup:
      return &Interpreter::subgroup;
    case Op::AwaitLaunches:
      return &Interpreter::await_launches;
    case Op::SetError:
      return &Interpreter::set_error;
    case Op::If:
      return &Interpreter::branch;
    case Op::For:
      return &Interpreter::loop;
    default:
      return execute_of_role(op);
  }
}

Interpreter::Execute Interpreter::execute_of_role(Op op) {
  switch (op) {
    case Op::Roles:
      return &Interpreter::roles;
    case Op::BoxCopy:
      return &Interpreter::box_copy;
    case Op::BoxStore:
      return &Interpreter::box_store;
    case Op::BoxDrain:
      return &Interpreter::box_drain;
    case Op::Arrive:
      return &Interpreter::arrive;
    case Op::Await:
      return &Interpreter::await;
    case Op::TeamMulAdd:
      return &Interpreter::team_mul_add;
    case Op::MatrixCommit:
      return &Interpreter::matrix_commit;
    case Op::MatrixAwait:
      return &Interpreter::matrix_await;
    default:
      return nullptr;
  }
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
  if (i.op == Op::Scalar)
    s.scalar = scalar_function(static_cast<ScalarOp>(i.imm), type(i.args.back()).ty);
  s.rows.out = s.out.u32;
  for (size_t a = 0; a < 3; ++a) s.rows.in[a] = s.in[a < i.args.size() ? a : 0].u32;
  return s;
}

}  // namespace reprise::kernel
