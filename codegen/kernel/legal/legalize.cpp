#include "codegen/kernel/legal/legalize.h"

#include <algorithm>
#include <limits>

#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {
namespace {

/// The type that replaces t on a target that lacks it.
Ty narrowed(Ty t, const LegalizeFor& target) {
  if (!target.int64 && t == Ty::I64) return Ty::I32;
  if (!target.int64 && t == Ty::U64) return Ty::U32;
  if (!target.float16 && t == Ty::F16) return Ty::F32;
  return t;
}

bool is_packed(Ty storage, const LegalizeFor& target) {
  return (!target.storage8 && byte_size(storage) == 1) ||
         (!target.storage16 && byte_size(storage) == 2);
}

/// Whether a kernel only reads a buffer, as 16-bit elements or as whole words of 8-bit ones.
bool reads_words(const Kernel& k, size_t buffer) {
  const int size = byte_size(k.buffers[buffer].storage);
  if (size > 2) return false;
  return std::all_of(k.insts.begin(), k.insts.end(), [&](const Inst& i) {
    if ((i.op != Op::Load && i.op != Op::Store) || i.imm != buffer) return true;
    return i.op == Op::Load && (size == 2 || (i.type.lanes == 4 && i.align % 4 == 0));
  });
}

bool has_long_vectors(const Kernel& k) {
  return std::ranges::any_of(k.insts, [](const Inst& i) { return is_long(i.type); });
}

/// Whether a kernel moves long vectors from or to a buffer, and accesses only whole words of it.
bool moves_words(const Kernel& k, size_t buffer) {
  const int size = byte_size(k.buffers[buffer].storage);
  if (size > 2) return false;
  const auto per_word = static_cast<uint32_t>(4 / size);
  bool any = false, whole = true;
  for (const Inst& i : k.insts) {
    if ((i.op != Op::Load && i.op != Op::Store) || i.imm != buffer % k.item_buffers()) continue;
    const Type t = i.op == Op::Load ? i.type : k.insts[static_cast<size_t>(i.args[1].id)].type;
    any |= is_long(t);
    whole &= t.lanes % per_word == 0 && i.align % per_word == 0;
  }
  return any && whole;
}

/// Which buffers become buffers of words that hold several elements.
std::vector<bool> packed_buffers(const Kernel& k, const LegalizeFor& target) {
  const bool splits = !target.long_vectors && has_long_vectors(k);
  std::vector<bool> out;
  for (size_t i = 0; i < k.buffers.size(); ++i) {
    out.push_back(is_packed(k.buffers[i].storage, target) ||
                  (target.word_loads && reads_words(k, i)) || (splits && moves_words(k, i)));
  }
  return out;
}

Ty stored(Ty storage, bool packed, const LegalizeFor& target) {
  if (packed || (!target.int64 && is_int64(storage))) return Ty::U32;
  if (!target.float16 && storage == Ty::F16) return Ty::U16;
  return storage;
}

Kernel interface_for(const Kernel& k, const std::vector<bool>& packed, const LegalizeFor& target) {
  Kernel out = k;
  for (size_t i = 0; i < out.buffers.size(); ++i) {
    BufferParam& b = out.buffers[i];
    b.storage = stored(b.storage, packed[i], target);
    b.align = std::max(b.align, static_cast<uint32_t>(byte_size(b.storage)));
  }
  for (LocalVar& l : out.locals) l.type.ty = narrowed(l.type.ty, target);
  for (SharedArray& s : out.shared) s.type = narrowed(s.type, target);
  return out;
}

bool fits(const Inst& i) {
  if (i.type.ty == Ty::U64) return i.imm < std::numeric_limits<uint32_t>::max();
  const auto v = static_cast<int64_t>(i.imm);
  return v > std::numeric_limits<int32_t>::min() && v < std::numeric_limits<int32_t>::max();
}

/// Whether an operand is a constant that does not fit 32 bits. Unused constants do not count, as
/// structure() omits them too.
bool has_extremes(const Kernel& k) {
  const auto is_extreme = [&](Val v) {
    const Inst& i = k.insts[static_cast<size_t>(v.id)];
    return i.op == Op::Const && is_int64(i.type.ty) && !fits(i);
  };
  return std::any_of(k.insts.begin(), k.insts.end(), [&](const Inst& i) {
    return std::any_of(i.args.begin(), i.args.end(), is_extreme);
  });
}

class Legalizer : public Rebuilder {
 public:
  Legalizer(const Kernel& k, const LegalizeFor& target)
      : Rebuilder(k, Builder::like(interface_for(k, packed_buffers(k, target), target))),
        target_(target),
        packed_(packed_buffers(k, target)),
        integers_(to_, has_extremes(k)),
        lost_(to_, k) {
    if (!target.int64) lost_.add_locals();
    const bool splits = !target.long_vectors && target.float16 && has_long_vectors(k);
    for (size_t b = 0; b < k.buffers.size(); ++b)
      keeps_halves_.push_back(splits && k.buffers[b].storage == Ty::F16 && moves_words(k, b));
  }

 protected:
  Val rewrite(const Inst& i, std::span<const Val> args) override {
    if (target_.int64) return rewritten(i, args);
    lost_.report_operands(i);
    if (i.op == Op::LocalStore) lost_.store_local(i, args);
    if (const Val r = lost_.ordered(i, args)) return r;
    const Val r = rewritten(i, args);
    lost_.made(i, args, i.op == Op::Load ? std::exchange(loaded_, {}) : integers_.take());
    return r;
  }

  void branch(const Inst& i) override {
    if (!target_.int64) lost_.report_operands(i);
  }

 private:
  Val rewritten(const Inst& i, std::span<const Val> args) {
    if (i.op == Op::Const) return constant(i);
    if (i.op == Op::Scalar) return scalar(i, args);
    if (i.op == Op::Convert) return convert(i, args[0]);
    if (i.op == Op::Bitcast) return bitcast(i, args[0]);
    if (i.op == Op::Load) return load(i, args[0]);
    if (i.op == Op::Subgroup) return subgroup(i, args);
    if (i.op == Op::SharedLoad && splits(i.type, from_.shared[i.imm].type))
      return shared_load_parts(i, args[0]);
    if (i.op == Op::SharedStore && splits(to_.type(args[1]), from_.shared[i.imm].type)) {
      shared_store_parts(i, args);
      return {};
    }
    if (i.op != Op::Store || i.args.size() == 3) return copy(i, args);
    store(i, args[0], args[1]);
    return {};
  }

  bool replaces(Ty t) const { return narrowed(t, target_) != t; }
  Type original(Val v) const { return from_.insts[static_cast<size_t>(v.id)].type; }

  void refuse(const std::string& what) {
    fail(unsupported("kernel '" + from_.name + "': " + what));
  }

  Val constant(const Inst& i) {
    if (!replaces(i.type.ty)) return copy(i, {});
    const Type t{narrowed(i.type.ty, target_), i.type.lanes};
    if (!is_int64(i.type.ty)) return to_.constant(t, number_of(i.imm, i.type.ty));
    if (i.type.ty == Ty::U64) {
      return to_.constant_bits(t, std::min<uint64_t>(i.imm, 0xffffffffU));
    }
    const int64_t v =
        std::clamp<int64_t>(static_cast<int64_t>(i.imm), std::numeric_limits<int32_t>::min(),
                            std::numeric_limits<int32_t>::max());
    return to_.constant_bits(t, static_cast<uint64_t>(v));
  }

  Val scalar(const Inst& i, std::span<const Val> args) {
    const Ty operand = original(i.args.back()).ty;
    const auto op = static_cast<ScalarOp>(i.imm);
    if (operand == Ty::F16 && !target_.float16) {
      // Rounding to F16 is part of the meaning, even if the value stays F32.
      const Val r = copy(i, args);
      const bool rounds = (row(op).leaves & kFloat) != 0;
      return rounds ? FloatMath(to_, to_.type(r)).round_to_half(r) : r;
    }
    if (!is_int64(operand) || target_.int64) return copy(i, args);
    const Val r = integers_.scalar(op, operand == Ty::I64, args);
    if (!r) {
      refuse(std::string(row(op).name) +
             " of uint64 needs 64-bit integers, which the device lacks");
    }
    return r;
  }

  Val convert(const Inst& i, Val v) {
    const Ty from = original(i.args[0]).ty;
    const bool in_range = i.imm != 0;
    if (!target_.int64 && (is_int64(from) || is_int64(i.type.ty))) {
      const bool half = i.type.ty == Ty::F16 && !target_.float16;
      const Val r = integers_.convert(v, from, half ? Ty::F32 : i.type.ty, in_range);
      return half ? FloatMath(to_, to_.type(r)).round_to_half(r) : r;
    }
    if (target_.float16 || i.type.ty != Ty::F16) return copy(i, std::span(&v, 1));
    // Rounding to F16 is part of the meaning, even if the value stays F32.
    if (from == Ty::F64 && !in_range) v = FloatMath(to_, to_.type(v)).to_f32_odd(v);
    const Val number = to_.convert(v, Ty::F32);
    return in_range ? number : FloatMath(to_, to_.type(number)).round_to_half(number);
  }

  Val bitcast(const Inst& i, Val v) {
    const Ty from = original(i.args[0]).ty;
    if (!replaces(from) && !replaces(i.type.ty)) return copy(i, std::span(&v, 1));
    if (is_int64(from) && is_int64(i.type.ty)) return integers_.convert(v, from, i.type.ty, false);
    refuse("bitcast from " + std::string(name_of(from)) + " to " + str(i.type) +
           " needs a type that the device lacks");
    return {};
  }

  Val subgroup(const Inst& i, std::span<const Val> args) {
    const bool sum = static_cast<SubgroupOp>(i.imm) == SubgroupOp::Add;
    if (sum && is_int64(i.type.ty) && !target_.int64) {
      refuse("a subgroup sum of 64-bit integers needs 64-bit integers, which the device lacks");
      return {};
    }
    return copy(i, args);
  }

  /// The index of a 64-bit element's first word.
  Val word_index(Val index, int lane) {
    const Val at = to_.convert(index, Ty::U32);
    return to_.mul(to_.add(at, to_.u32(static_cast<uint64_t>(lane))), to_.u32(2));
  }

  /// Whether an access to elements that are stored as `storage` has to be split into parts.
  bool splits(Type t, Ty storage) const {
    return is_long(t) && (!target_.long_vectors || stored(storage, false, target_) != storage);
  }

  /// The index of a part of a long vector.
  Val part_index(Val index, int n) {
    return to_.add(index,
                   to_.constant_bits(to_.type(index), static_cast<uint64_t>(n) * kPartLanes));
  }

  /// Calls `access` for each part of an access, which is an access of its own.
  void each_part(const Inst& i, Type t,
                 const std::function<void(const Inst& part, int n)>& access) {
    Inst part = i;
    part.align = kPartLanes;
    if (is_long(i.type)) part.type = vec(i.type, kPartLanes);
    for (int n = 0; n < t.lanes / kPartLanes; ++n) access(part, n);
  }

  Val load_parts(const Inst& i, Val index) {
    std::vector<Val> parts;
    each_part(i, i.type,
              [&](const Inst& part, int n) { parts.push_back(load(part, part_index(index, n))); });
    return to_.compose(parts);
  }

  Val shared_load_parts(const Inst& i, Val index) {
    std::vector<Val> parts;
    each_part(i, i.type, [&](const Inst& part, int n) {
      parts.push_back(
          to_.shared_load(static_cast<int>(part.imm), part_index(index, n), part.type.lanes));
    });
    return to_.compose(parts);
  }

  void shared_store_parts(const Inst& i, std::span<const Val> args) {
    each_part(i, to_.type(args[1]), [&](const Inst& part, int n) {
      to_.shared_store(static_cast<int>(part.imm), part_index(args[0], n), to_.part(args[1], n));
    });
  }

  Val load(const Inst& i, Val index) {
    const int buffer = static_cast<int>(i.imm);
    const Ty storage = from_.buffers[i.imm].storage;
    const bool packed = packed_[i.imm];
    if (!packed && splits(i.type, storage)) return load_parts(i, index);
    const Ty now = stored(storage, packed, target_);
    if (now == storage) return to_.load(buffer, index, i.type.lanes, i.align);
    if (keeps_halves_[i.imm])
      return PackedElements(to_, storage).load_halves(buffer, index, i.type.lanes, i.align);
    Val r;
    if (packed) {
      r = PackedElements(to_, storage).load(buffer, index, i.type.lanes, i.align);
    } else if (storage == Ty::F16) {
      const Val bits = to_.load(buffer, index, i.type.lanes, i.align);
      return FloatMath(to_, {Ty::F32, i.type.lanes}).from_half_bits(bits);
    } else {
      std::vector<Val> lanes;
      std::vector<LostLanes> lost;
      for (int l = 0; l < i.type.lanes; ++l) {
        const Val words = to_.load(buffer, word_index(index, l), 2, 2);
        lanes.push_back(integers_.from_words(words, storage == Ty::I64));
        lost.push_back(integers_.take());
      }
      loaded_ = lanes.size() == 1 ? lost[0] : lost_.of_lanes(lost, lanes);
      return to_.compose(lanes);
    }
    return storage == Ty::F16 && target_.float16 ? converted(r, Ty::F16, true) : r;
  }

  /// A float, which may be a long vector, as another type.
  Val converted(Val v, Ty to, bool in_range) {
    if (!is_long(to_.type(v))) return to_.convert(v, to, in_range);
    std::vector<Val> parts;
    for (int n = 0; n < to_.type(v).lanes / kPartLanes; ++n)
      parts.push_back(to_.convert(to_.part(v, n), to, in_range));
    return to_.compose(parts);
  }

  void store(const Inst& i, Val index, Val value) {
    const int buffer = static_cast<int>(i.imm);
    const Ty storage = from_.buffers[i.imm].storage;
    const bool packed = packed_[i.imm];
    if (!packed && splits(to_.type(value), storage)) {
      return each_part(i, to_.type(value), [&](const Inst& part, int n) {
        store(part, part_index(index, n), to_.part(value, n));
      });
    }
    if (stored(storage, packed, target_) == storage)
      return to_.store(buffer, index, value, i.align);
    if (keeps_halves_[i.imm])
      return PackedElements(to_, storage).store_halves(buffer, index, value, i.align);
    if (packed) {
      if (storage == Ty::F16) value = converted(value, Ty::F32, false);
      PackedElements(to_, storage).store(buffer, index, value, i.align);
      return;
    }
    if (storage == Ty::F16) {
      const Val bits = FloatMath(to_, to_.type(value)).half_bits(value);
      return to_.store(buffer, index, bits, i.align);
    }
    for (int l = 0; l < to_.type(value).lanes; ++l) {
      const Val words = integers_.to_words(to_.extract(value, l), storage == Ty::I64);
      lost_.report(integers_.take());
      to_.store(buffer, word_index(index, l), words, 2);
    }
  }

  const LegalizeFor target_;
  const std::vector<bool> packed_;  // by buffer
  /// By buffer: it is of words that hold halves, which the target computes with.
  std::vector<bool> keeps_halves_;
  CheckedIntegers integers_;
  LostValues lost_;
  LostLanes loaded_;  // the lanes that the load being written has lost
};

}  // namespace

LegalizeFor relevant(const LegalizeFor& target, const Kernel& k) {
  bool wide = false, half = false, single = false, bytes = false, halves = false;
  const auto use = [&](Ty t) {
    wide |= is_int64(t);
    half |= t == Ty::F16;
    single |= t == Ty::F32;
  };
  for (const Inst& i : k.insts) use(i.type.ty);
  for (const LocalVar& l : k.locals) use(l.type.ty);
  for (const SharedArray& s : k.shared) use(s.type);
  for (const MatrixVar& m : k.matrices) use(m.type);
  for (const BufferParam& b : k.buffers) {
    use(b.storage);
    bytes |= byte_size(b.storage) == 1;
    halves |= byte_size(b.storage) == 2;
  }
  LegalizeFor out = target;
  out.int64 |= !wide;
  out.float16 |= !half;
  out.storage8 |= !bytes;
  out.storage16 |= !halves;
  out.word_loads &= bytes || halves;
  out.exact |= !half && !single;
  out.exact_halves |= !half;
  const bool narrow = bytes || halves || half;
  out.long_vectors |= !narrow;
  out.joins_accesses &= narrow;
  return out;
}

static bool lacks_something(const LegalizeFor& t, const Kernel& k) {
  return !t.int64 || !t.float16 || !t.storage8 || !t.storage16 || t.word_loads ||
         (!t.long_vectors && has_long_vectors(k));
}

Status legalize(Kernel& k, const LegalizeFor& target) {
  RP_TRY(verify_in_debug(k));
  RP_TRY(drop_wraps(k));
  if (!target.int64) RP_TRY(expand_wide_powers(k));
  if (target.joins_accesses) RP_TRY(join_accesses(k));
  if (lacks_something(relevant(target, k), k)) {
    RP_ASSIGN(k, Legalizer(k, target).run());
  }
  RP_TRY(expand(k, target));
  // Folding and reuse in the builder have left dead instructions.
  remove_dead(k);
  return {};
}

}  // namespace reprise::kernel
