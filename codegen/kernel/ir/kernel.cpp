#include "codegen/kernel/ir/kernel.h"

#include <algorithm>

#include "codegen/kernel/ir/shared_memory.h"

namespace reprise::kernel {

std::string_view name_of(Ty t) {
  switch (t) {
    case Ty::Void:
      return "void";
    case Ty::Bool:
      return "bool";
    case Ty::I8:
      return "i8";
    case Ty::U8:
      return "u8";
    case Ty::I16:
      return "i16";
    case Ty::U16:
      return "u16";
    case Ty::I32:
      return "i32";
    case Ty::U32:
      return "u32";
    case Ty::I64:
      return "i64";
    case Ty::U64:
      return "u64";
    case Ty::F16:
      return "f16";
    case Ty::BF16:
      return "bf16";
    case Ty::F32:
      return "f32";
    case Ty::F64:
      return "f64";
  }
  return "invalid";
}

std::string str(Type t) {
  std::string s(name_of(t.ty));
  if (t.lanes != 1) s += "x" + std::to_string(t.lanes);
  return s;
}

Ty compute_type(Ty storage) {
  switch (storage) {
    case Ty::I8:
    case Ty::I16:
      return Ty::I32;
    case Ty::U8:
    case Ty::U16:
      return Ty::U32;
    case Ty::BF16:
      return Ty::F32;
    case Ty::Void:
    case Ty::Bool:
    case Ty::I32:
    case Ty::U32:
    case Ty::I64:
    case Ty::U64:
    case Ty::F16:
    case Ty::F32:
    case Ty::F64:
      return storage;
  }
  return Ty::Void;
}

Ty storage_type(DType t) {
  switch (carrier_of(t)) {
    case DType::F32:
      return Ty::F32;
    case DType::F16:
      return Ty::F16;
    case DType::BF16:
      return Ty::BF16;
    case DType::F64:
      return Ty::F64;
    case DType::I8:
      return Ty::I8;
    case DType::U8:
    case DType::Bool:
      return Ty::U8;
    case DType::I16:
      return Ty::I16;
    case DType::U16:
      return Ty::U16;
    case DType::I32:
      return Ty::I32;
    case DType::U32:
      return Ty::U32;
    case DType::I64:
      return Ty::I64;
    case DType::U64:
      return Ty::U64;
    default:  // String and Invalid
      return Ty::Void;
  }
}

namespace {

void require_type(Requirements& r, Ty t) {
  if (t == Ty::I64 || t == Ty::U64) r.int64 = true;
  if (t == Ty::F16) r.float16 = true;
  if (t == Ty::F64) r.float64 = true;
}

void require_storage(Requirements& r, Ty t) {
  require_type(r, t);
  if (byte_size(t) == 1) r.storage8 = true;
  if (byte_size(t) == 2) r.storage16 = true;
}

/// The verifier refuses matrices of other types.
MmaType mma_type(Ty t) {
  switch (t) {
    case Ty::BF16:
      return MmaType::BF16;
    case Ty::F32:
      return MmaType::F32;
    case Ty::I8:
      return MmaType::I8;
    case Ty::U8:
      return MmaType::U8;
    case Ty::I32:
      return MmaType::I32;
    default:
      return MmaType::F16;
  }
}

constexpr uint32_t kSignalBytes = 8;

/// Sums side by side are one matrix to the device.
void require_product(Requirements& r, const Kernel& k, const TeamOperands& p) {
  const size_t lefts = p.held ? k.matrices.size() : k.shared.size();
  if (p.sum >= k.matrices.size() || p.left.shared >= lefts || p.right.shared >= k.shared.size())
    return;  // the verifier refuses it
  const Ty left = p.held ? k.matrices[p.left.shared].type : k.shared[p.left.shared].type;
  r.matrix.n = k.matrices[p.sum].columns * p.count;
  r.matrix.types.a = mma_type(left);
  r.matrix.types.b = mma_type(k.shared[p.right.shared].type);
  const auto element = static_cast<uint32_t>(byte_size(left));
  r.matrix.k = TeamOperands::kBytes / std::max(element, 1U);
}

/// Whether it stores a sum to an array of narrower elements.
bool rounds_sum(const Kernel& k, const Inst& i) {
  if (i.op != Op::MatrixStore) return false;
  const uint16_t array = MatrixAccess::of(i.imm).shared;
  return array < k.shared.size() && k.shared[array].type != Ty::F32;
}

}  // namespace

SharedLayout shared_layout(const Kernel& k) {
  constexpr uint32_t kBox = 128;  // of boxes without a swizzle
  SharedLayout out;
  out.arrays.resize(k.shared.size());
  for (const bool swizzled : {true, false}) {
    const uint32_t alignment = swizzled          ? SharedLayout::kRepeats
                               : k.views.empty() ? SharedLayout::kAlignment
                                                 : kBox;
    for (size_t n = 0; n < k.shared.size(); ++n) {
      const SharedArray& s = k.shared[n];
      if ((s.swizzle != Swizzle::None) != swizzled) continue;
      out.arrays[n] = (out.bytes + alignment - 1) / alignment * alignment;
      out.bytes = out.arrays[n] + s.count * static_cast<uint32_t>(byte_size(s.type));
    }
  }
  constexpr uint32_t kAlignment = SharedLayout::kAlignment;
  out.bytes = (out.bytes + kAlignment - 1) / kAlignment * kAlignment;
  for (const Signal& s : k.signals) {
    out.signals.push_back(out.bytes);
    out.bytes += s.count * kSignalBytes;
  }
  return out;
}

Requirements requirements(const Kernel& k) {
  Requirements r;
  r.subgroup_size = k.required_subgroup_size;
  r.workgroup_invocations = k.workgroup[0] * k.workgroup[1] * k.workgroup[2];
  for (const BufferParam& b : k.buffers) require_storage(r, b.storage);
  for (const LocalVar& l : k.locals) require_type(r, l.type.ty);
  for (const SharedArray& s : k.shared) {
    require_type(r, s.type);
  }
  r.shared_bytes = shared_layout(k).bytes;
  r.views = static_cast<uint32_t>(k.views.size());
  r.cluster = k.cluster;
  for (const MatrixVar& m : k.matrices) {
    require_type(r, m.type);
    r.matrix.scope = m.scope;
    r.matrix.invocations = m.scope == MmaScope::Workgroup ? r.workgroup_invocations : 0;
    MmaTypes& types = r.matrix.types;
    MmaType& type = m.use == MatrixUse::Left    ? types.a
                    : m.use == MatrixUse::Right ? types.b
                                                : types.sum;
    type = m.type == Ty::F32 && m.use != MatrixUse::Sum ? MmaType::TF32 : mma_type(m.type);
    if (m.use != MatrixUse::Right) r.matrix.m = m.rows;
    if (m.use != MatrixUse::Left) r.matrix.n = m.columns;
    if (m.use == MatrixUse::Left) r.matrix.k = m.columns;
  }
  for (const Inst& i : k.insts) {
    require_type(r, i.type.ty);
    r.async_copies |= i.op == Op::AsyncCopy;
    r.matrix_elements |= i.op == Op::MatrixGet || i.op == Op::MatrixSet ||
                         i.op == Op::MatrixConvert || rounds_sum(k, i);
    r.exact_halves |= rounds_to_half(k, i);
    r.early |= i.op == Op::AwaitLaunches;
    if (i.op == Op::TeamMulAdd) require_product(r, k, TeamOperands::of(i.imm));
    if (i.op != Op::Subgroup) continue;
    r.subgroup_extended_types |=
        i.type.ty == Ty::I64 || i.type.ty == Ty::U64 || i.type.ty == Ty::F16;
    switch (static_cast<SubgroupOp>(i.imm)) {
      case SubgroupOp::Add:
      case SubgroupOp::Max:
      case SubgroupOp::Min:
        r.subgroup_arithmetic = true;
        break;
      case SubgroupOp::Shuffle:
      case SubgroupOp::ShuffleXor:
      case SubgroupOp::Broadcast:
        r.subgroup_shuffle = true;
        break;
    }
  }
  return r;
}

}  // namespace reprise::kernel
