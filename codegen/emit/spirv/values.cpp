#include <array>
#include <bit>
#include <span>

#include "codegen/emit/access.h"
#include "codegen/emit/spirv/emitter.h"

namespace reprise::emit {

using kernel::Builtin;
using kernel::ScalarOp;
using kernel::SubgroupOp;

namespace {

constexpr size_t kMaxOperands = 4;  // of an instruction: the capacity of Inst::args

/// The code of a row for one operand class: a core opcode, a GLSL.std.450 number, or neither.
struct RowCode {
  enum Kind : uint8_t { None, Core, Ext } kind;
  uint32_t number;
};
struct RowCodes {
  RowCode by_float, by_signed, by_unsigned, by_bool;
};

constexpr std::array kOpcodes = {
#define SPV(opcode)       \
  RowCode {               \
    RowCode::Core, opcode \
  }
#define EXT(number)      \
  RowCode {              \
    RowCode::Ext, number \
  }
#define NOSPV        \
  RowCode {          \
    RowCode::None, 0 \
  }
#define SCALAR_OP(name, arity, operands, result, leaves, cost, sensitivity, expanded, ulp, abs, \
                  on_float, on_signed, on_unsigned, on_bool, cuda_float, cuda_int, ...)         \
  RowCodes{on_float, on_signed, on_unsigned, on_bool},
#include "codegen/kernel/ir/scalar_ops.def"
#undef SCALAR_OP
#undef SPV
#undef EXT
#undef NOSPV
};

RowCode code_for(ScalarOp op, kernel::Ty t) {
  const RowCodes& row = kOpcodes[static_cast<size_t>(op)];
  if (t == kernel::Ty::Bool) return row.by_bool;
  if (is_float(t)) return row.by_float;
  return is_signed(t) ? row.by_signed : row.by_unsigned;
}

/// Whether a driver may contract or reassociate the instruction unless it is decorated.
bool may_contract(uint32_t opcode) {
  return opcode == spv::OpFAdd || opcode == spv::OpFSub || opcode == spv::OpFMul ||
         opcode == spv::OpFDiv || opcode == spv::OpFNegate;
}

uint64_t float_bits(kernel::Ty t, double v) {
  if (t == kernel::Ty::F16) return float_to_f16(static_cast<float>(v));
  if (t == kernel::Ty::F32) return std::bit_cast<uint32_t>(static_cast<float>(v));
  return std::bit_cast<uint64_t>(v);
}

bool orders(ScalarOp op) {
  return op == ScalarOp::Less || op == ScalarOp::LessOrEqual || op == ScalarOp::Greater ||
         op == ScalarOp::GreaterOrEqual;
}

}  // namespace

Id SpirvEmitter::type(Type t) {
  Id& known = types_[static_cast<size_t>(t.ty)][t.lanes];
  if (known == 0) known = make_type(t);
  return known;
}

Id SpirvEmitter::make_type(Type t) {
  const auto scalar = [&]() -> Id {
    switch (t.ty) {
      case Ty::Void:
        return m_.void_type();
      case Ty::Bool:
        return m_.bool_type();
      case Ty::I32:
      case Ty::U32:
        return m_.int_type(32, t.ty == Ty::I32);
      case Ty::I64:
      case Ty::U64:
        m_.capability(spv::CapabilityInt64);
        return m_.int_type(64, t.ty == Ty::I64);
      case Ty::F16:
        return m_.float_type(16);
      case Ty::F32:
        return m_.float_type(32);
      case Ty::F64:
        m_.capability(spv::CapabilityFloat64);
        return m_.float_type(64);
      case Ty::I8:
      case Ty::U8:
      case Ty::I16:
      case Ty::U16:
      case Ty::BF16:
        break;  // kernel::verify refuses them in registers
    }
    return 0;
  };
  return m_.vector_type(scalar(), t.lanes);
}

Id SpirvEmitter::constant(Type t, uint64_t bits) {
  const Id scalar_type = type(t.ty, 1);
  Id scalar = 0;
  if (t.ty == Ty::Bool) {
    scalar = m_.constant_bool(bits != 0);
  } else {
    const uint32_t words[] = {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
    const size_t count = kernel::byte_size(t.ty) == 8 ? 2 : 1;
    scalar = m_.constant(scalar_type, std::span(words, count));
  }
  if (t.lanes == 1) return scalar;
  const std::vector<Id> lanes(t.lanes, scalar);
  return m_.constant_composite(type(t), lanes);
}

Id SpirvEmitter::number(Type t, double v) {
  if (is_float(t.ty)) return constant(t, float_bits(t.ty, v));
  return constant(t, static_cast<uint64_t>(static_cast<int64_t>(v)));
}

Result<Id> SpirvEmitter::scalar(const Inst& i) {
  const auto op = static_cast<ScalarOp>(i.imm);
  const Type operand = arg_type(i, i.args.size() - 1);
  std::array<Id, kMaxOperands + 2> words{};  // two more for an extended instruction
  const std::span<Id> operands(words.data() + 2, i.args.size());
  for (size_t n = 0; n < i.args.size(); ++n) operands[n] = arg(i, n);
  RowCode code = code_for(op, operand.ty);
  // workarounds::kOrderedInt64: flipping both sign bits and comparing as unsigned integers gives
  // the same result, and the driver does not recognise it as a signed comparison.
  if (operand.ty == Ty::I64 && orders(op)) {
    code = code_for(op, Ty::U64);
    const Id sign = constant(operand, uint64_t{1} << 63U);
    for (Id& v : operands) v = m_.value(spv::OpBitwiseXor, type(operand), {v, sign});
  }
  switch (code.kind) {
    case RowCode::Core: {
      const Id v = m_.value(static_cast<spv::Op>(code.number), type(i.type), operands);
      if (may_contract(code.number)) {
        m_.decorate(v, spv::DecorationNoContraction);
      }
      return v;
    }
    case RowCode::Ext:
      words[0] = m_.glsl();
      words[1] = code.number;
      return m_.value(spv::OpExtInst, type(i.type), std::span(words.data(), operands.size() + 2));
    case RowCode::None:
      break;
  }
  return internal_error("SPIR-V emitter: kernel " + k_.name + ": " +
                        std::string(kernel::row(op).name) + " on " + str(arg_type(i, 0)) +
                        " must be expanded before it is emitted");
}

/// Whether the F32 is NaN, by its bits: drivers may assume that no float is NaN.
Id SpirvEmitter::is_nan(Id v, uint8_t lanes) {
  const Type t{Ty::U32, lanes};
  const Id bits = m_.value(spv::OpBitcast, type(t), {v});
  const Id magnitude = m_.value(spv::OpBitwiseAnd, type(t), {bits, constant(t, 0x7FFFFFFF)});
  return m_.value(spv::OpUGreaterThan, type(Ty::Bool, lanes), {magnitude, constant(t, 0x7F800000)});
}

Id SpirvEmitter::convert_ints(Id v, Type from, Ty to) {
  const int before = kernel::byte_size(from.ty), after = kernel::byte_size(to);
  const Id out = type(to, from.lanes);
  if (before == after) return m_.value(spv::OpBitcast, out, {v});
  if (is_signed(from.ty) || after < before) return m_.value(spv::OpSConvert, out, {v});
  const Id wide = m_.value(spv::OpUConvert, type(Ty::U64, from.lanes), {v});
  return to == Ty::U64 ? wide : m_.value(spv::OpBitcast, out, {wide});
}

/// workarounds::kOrderedInt64: the driver replaces a comparison of the float by one of the integer,
/// unless a magnitude and a sign bit hide the integer. Rounding to F32 first does not change an
/// F16, because integers that F16 can hold are exact in F32.
Id SpirvEmitter::float_of_int64(Id v, Type to) {
  const bool is_f64 = to.ty == Ty::F64;
  const Type wide{Ty::I64, to.lanes};
  const Type bits{is_f64 ? Ty::U64 : Ty::U32, to.lanes};
  const Id i64 = type(wide), word = type(bits), result = type(is_f64 ? Ty::F64 : Ty::F32, to.lanes);
  const Id mask = m_.value(spv::OpShiftRightArithmetic, i64, {v, constant(wide, 63)});
  const Id flipped = m_.value(spv::OpBitwiseXor, i64, {v, mask});
  const Id magnitude = m_.value(spv::OpISub, i64, {flipped, mask});
  const Id positive = m_.value(spv::OpConvertUToF, result, {magnitude});
  const Id sign_bit = constant(bits, uint64_t{1} << (is_f64 ? 63U : 31U));
  const Id sign = m_.value(spv::OpBitwiseAnd, word, {convert_ints(mask, wide, bits.ty), sign_bit});
  const Id magnitude_bits = m_.value(spv::OpBitcast, word, {positive});
  const Id all_bits = m_.value(spv::OpBitwiseOr, word, {magnitude_bits, sign});
  const Id f = m_.value(spv::OpBitcast, result, {all_bits});
  return to.ty == Ty::F16 ? m_.value(spv::OpFConvert, type(to), {f}) : f;
}

Result<Id> SpirvEmitter::convert(const Inst& i) {
  const Id v = arg(i, 0);
  const Type from = arg_type(i, 0), to = i.type;
  if (from == to) return v;
  if (from.ty == Ty::Bool) return select(v, number(to, 1), number(to, 0), to);
  if (to.ty == Ty::Bool) {
    const auto differs = is_float(from.ty) ? spv::OpFUnordNotEqual : spv::OpINotEqual;
    return m_.value(differs, type(to), {v, number(from, 0)});
  }
  if (is_float(from.ty) && is_float(to.ty)) return m_.value(spv::OpFConvert, type(to), {v});
  if (is_float(from.ty)) {
    if (i.imm == 0) {
      return internal_error("SPIR-V emitter: kernel " + k_.name + ": conversion of " +
                            kernel::str(from) + " to " + kernel::str(to) +
                            " must be expanded before it is emitted");
    }
    return m_.value(is_signed(to.ty) ? spv::OpConvertFToS : spv::OpConvertFToU, type(to), {v});
  }
  if (is_float(to.ty) && from.ty == Ty::I64) return float_of_int64(v, to);
  if (is_float(to.ty)) {
    const auto op = is_signed(from.ty) ? spv::OpConvertSToF : spv::OpConvertUToF;
    return m_.value(op, type(to), {v});
  }
  return convert_ints(v, from, to.ty);
}

Id SpirvEmitter::builtin(const Inst& i) {
  struct Source {
    spv::BuiltIn builtin;
    bool vector, subgroup;
  };
  const auto source = [&]() -> Source {
    switch (static_cast<Builtin>(i.imm & 0xFF)) {
      case Builtin::GlobalId:
        return {spv::BuiltInGlobalInvocationId, true, false};
      case Builtin::LocalId:
        return {spv::BuiltInLocalInvocationId, true, false};
      case Builtin::LocalIndex:
        return {spv::BuiltInLocalInvocationIndex, false, false};
      case Builtin::WorkgroupId:
        return {spv::BuiltInWorkgroupId, true, false};
      case Builtin::SubgroupLane:
        return {spv::BuiltInSubgroupLocalInvocationId, false, true};
      case Builtin::SubgroupSize:
        return {spv::BuiltInSubgroupSize, false, true};
      case Builtin::SubgroupIndex:
        return {spv::BuiltInSubgroupId, false, true};
      case Builtin::TeamIndex:  // no device has teams or clusters
      case Builtin::ClusterRank:
        break;
    }
    return {spv::BuiltInMax, false, false};
  };
  const Source s = source();
  const Id u32 = m_.int_type(32, false);
  const Id t = s.vector ? m_.vector_type(u32, 3) : u32;
  if (s.subgroup) m_.capability(spv::CapabilityGroupNonUniform);
  auto [it, is_new] = builtins_.try_emplace(s.builtin, 0);
  if (is_new) {
    it->second = m_.global(m_.pointer_type(spv::StorageClassInput, t), spv::StorageClassInput);
    m_.decorate(it->second, spv::DecorationBuiltIn, {static_cast<uint32_t>(s.builtin)});
  }
  const Id v = m_.value(spv::OpLoad, t, {it->second});
  if (!s.vector) return v;
  const auto component = static_cast<uint32_t>(i.imm >> 8);
  return m_.value(spv::OpCompositeExtract, u32, {v, component});
}

Result<Id> SpirvEmitter::subgroup_reduce(SubgroupOp op, Id v, Type t) {
  struct Codes {
    spv::Op on_float, on_signed, on_unsigned;
  };
  const auto codes = [&]() -> Codes {
    switch (op) {
      case SubgroupOp::Add:
        return {spv::OpGroupNonUniformFAdd, spv::OpGroupNonUniformIAdd, spv::OpGroupNonUniformIAdd};
      case SubgroupOp::Max:
        return {spv::OpGroupNonUniformFMax, spv::OpGroupNonUniformSMax, spv::OpGroupNonUniformUMax};
      case SubgroupOp::Min:
        return {spv::OpGroupNonUniformFMin, spv::OpGroupNonUniformSMin, spv::OpGroupNonUniformUMin};
      case SubgroupOp::Shuffle:
      case SubgroupOp::ShuffleXor:
      case SubgroupOp::Broadcast:
        break;
    }
    return {spv::OpNop, spv::OpNop, spv::OpNop};
  };
  if (t.ty == Ty::Bool) {
    return unsupported("SPIR-V emitter: kernel " + k_.name +
                       ": subgroup reduction of bool; convert it to u32 first");
  }
  const Codes c = codes();
  const spv::Op code = is_float(t.ty) ? c.on_float : is_signed(t.ty) ? c.on_signed : c.on_unsigned;
  m_.capability(spv::CapabilityGroupNonUniformArithmetic);
  return m_.value(code, type(t),
                  {m_.constant_u32(spv::ScopeSubgroup), spv::GroupOperationReduce, v});
}

Result<Id> SpirvEmitter::subgroup(const Inst& i) {
  const auto op = static_cast<SubgroupOp>(i.imm);
  m_.capability(spv::CapabilityGroupNonUniform);
  const auto exchange = [&](spv::Op code, spv::Capability capability) {
    m_.capability(capability);
    const bool is_u32 = arg_type(i, 1).ty == Ty::U32;
    const Id lane = is_u32 ? arg(i, 1) : convert_ints(arg(i, 1), arg_type(i, 1), Ty::U32);
    return m_.value(code, type(i.type), {m_.constant_u32(spv::ScopeSubgroup), arg(i, 0), lane});
  };
  switch (op) {
    case SubgroupOp::Add:
    case SubgroupOp::Max:
    case SubgroupOp::Min:
      return subgroup_reduce(op, arg(i, 0), i.type);
    case SubgroupOp::Shuffle:
      return exchange(spv::OpGroupNonUniformShuffle, spv::CapabilityGroupNonUniformShuffle);
    case SubgroupOp::ShuffleXor:
      return exchange(spv::OpGroupNonUniformShuffleXor, spv::CapabilityGroupNonUniformShuffle);
    case SubgroupOp::Broadcast: {
      // A shuffle with a constant lane needs one capability less and is faster
      // (workarounds::kBroadcasts).
      const Inst& lane = k_.insts[static_cast<size_t>(i.args[1].id)];
      m_.capability(spv::CapabilityGroupNonUniformShuffle);
      return m_.value(spv::OpGroupNonUniformShuffle, type(i.type),
                      {m_.constant_u32(spv::ScopeSubgroup), arg(i, 0),
                       m_.constant_u32(static_cast<uint32_t>(lane.imm))});
    }
  }
  return internal_error("SPIR-V emitter: unknown subgroup operation in kernel " + k_.name);
}

}  // namespace reprise::emit
