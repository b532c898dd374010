#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "codegen/emit/access.h"
#include "codegen/emit/cuda/emitter.h"

namespace reprise::emit {

using kernel::Builtin;
using kernel::Op;
using kernel::ScalarOp;
using kernel::SubgroupOp;
using kernel::Ty;

namespace {

struct RowText {
  std::string_view on_float, on_int;
};

constexpr std::array kTexts = {
#define SCALAR_OP(name, arity, operands, result, leaves, cost, sensitivity, expanded, ulp, abs, \
                  on_float, on_signed, on_unsigned, on_bool, cuda_float, cuda_int, ...)         \
  RowText{cuda_float, cuda_int},
#include "codegen/kernel/ir/scalar_ops.def"
#undef SCALAR_OP
};

constexpr std::array<std::string_view, 4> kLanes = {".x", ".y", ".z", ".w"};
constexpr std::array<std::string_view, 3> kAxes = {".x", ".y", ".z"};

std::string_view scalar_type(Ty t) {
  switch (t) {
    case Ty::Void:
      return "void";
    case Ty::Bool:
      return "bool";
    case Ty::I8:
      return "signed char";
    case Ty::U8:
      return "unsigned char";
    case Ty::I16:
      return "short";
    case Ty::U16:
      return "unsigned short";
    case Ty::I32:
      return "int";
    case Ty::U32:
      return "unsigned";
    case Ty::I64:
      return "long long";
    case Ty::U64:
      return "unsigned long long";
    case Ty::F16:
      return "rp_f16";
    case Ty::BF16:
      return "rp_bf16";
    case Ty::F32:
      return "float";
    case Ty::F64:
      return "double";
  }
  return "";
}

std::string cast(Ty to, const std::string& v) {
  return "(" + std::string(scalar_type(to)) + ")" + v;
}

/// The shortest digits that parse to the same number, as a C floating-point literal.
template <typename T>
std::string digits(T v, const char* suffix) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), v).ptr;
  std::string s(text.data(), end);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  s += suffix;
  return std::signbit(v) ? "(" + s + ")" : s;
}

std::string hex(uint64_t v, const char* suffix) {
  std::array<char, 20> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), v, 16).ptr;
  return "0x" + std::string(text.data(), end) + suffix;
}

std::string signed_literal(int64_t v, int64_t least, const std::string& suffix) {
  if (v == least) return "(" + std::to_string(v + 1) + suffix + " - 1)";
  const std::string s = std::to_string(v) + suffix;
  return v < 0 ? "(" + s + ")" : s;
}

/// Whether a row of signed integers wraps. It is computed unsigned, as it would overflow in C.
bool wraps(ScalarOp op) {
  return op == ScalarOp::Add || op == ScalarOp::Sub || op == ScalarOp::Mul || op == ScalarOp::Neg ||
         op == ScalarOp::ShiftLeft;
}

std::string substitute(std::string_view text, const std::vector<std::string>& operands) {
  std::string s;
  for (size_t n = 0; n < text.size(); ++n) {
    if (text[n] == '$') {
      s += operands[static_cast<size_t>(text[++n] - '0')];
    } else {
      s += text[n];
    }
  }
  return s;
}

}  // namespace

std::string cuda_type(kernel::Type t) {
  if (t.lanes == 1) return std::string(scalar_type(t.ty));
  return "rp_" + kernel::str(t);
}

std::string cuda_literal(Ty t, uint64_t bits) {
  switch (t) {
    case Ty::Bool:
      return bits != 0 ? "true" : "false";
    case Ty::I32:
      return signed_literal(static_cast<int32_t>(bits), INT32_MIN, "");
    case Ty::U32:
      return std::to_string(static_cast<uint32_t>(bits)) + "u";
    case Ty::I64:
      return signed_literal(static_cast<int64_t>(bits), INT64_MIN, "ll");
    case Ty::U64:
      return std::to_string(bits) + "ull";
    case Ty::F16:
      return "rp_f16{" + hex(bits & 0xFFFF, "") + "}";
    case Ty::F32: {
      const auto v = std::bit_cast<float>(static_cast<uint32_t>(bits));
      return std::isfinite(v) ? digits(v, "f") : "rp_float(" + hex(bits & 0xFFFFFFFF, "u") + ")";
    }
    case Ty::F64: {
      const auto v = std::bit_cast<double>(bits);
      return std::isfinite(v) ? digits(v, "") : "rp_double(" + hex(bits, "ull") + ")";
    }
    case Ty::Void:
    case Ty::I8:
    case Ty::U8:
    case Ty::I16:
    case Ty::U16:
    case Ty::BF16:
      break;  // kernel::verify refuses them in registers
  }
  return "";
}

std::string cuda_convert(const std::string& v, Ty from, Ty to) {
  if (from == to) return v;
  if (to == Ty::Bool) {
    return from == Ty::F16 ? "rp_to_float(" + v + ") != 0.0f" : v + " != 0";
  }
  if (from == Ty::Bool) {
    return to == Ty::F16 ? "rp_to_f16(" + v + " ? 1.0f : 0.0f)" : cast(to, v);
  }
  if (from == Ty::F16 && to == Ty::F32) return "rp_to_float(" + v + ")";
  if (to == Ty::F16) return "rp_to_f16(" + (from == Ty::F32 ? v : cast(Ty::F32, v)) + ")";
  if (from == Ty::F16) return cast(to, "rp_to_float(" + v + ")");
  return cast(to, v);
}

std::string cuda_widen(const std::string& v, Ty storage) {
  if (storage == Ty::BF16) return "rp_to_float(" + v + ")";
  const Ty compute = kernel::compute_type(storage);
  return compute == storage ? v : cast(compute, v);
}

std::string cuda_narrow(const std::string& v, Ty storage) {
  if (storage == Ty::BF16) return "rp_to_bf16(" + v + ")";
  return kernel::compute_type(storage) == storage ? v : cast(storage, v);
}

std::string cuda_narrow_exact(const std::string& v, Ty storage) {
  return storage == Ty::BF16 ? "rp_exact_bf16(" + v + ")" : cuda_narrow(v, storage);
}

std::string cuda_name(char table, uint64_t index, std::string_view name) {
  std::string s = table + std::to_string(index) + "_";
  for (const char c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    s += plain ? c : '_';
  }
  return s;
}

std::string_view cuda_lane(int lane) {
  return kLanes[static_cast<size_t>(lane)];
}

std::string cuda_braces(const std::vector<std::string>& lanes) {
  std::string s = "{";
  for (size_t n = 0; n < lanes.size(); ++n) s += (n == 0 ? "" : ", ") + lanes[n];
  return s + "}";
}

std::string CudaEmitter::arg(const Inst& i, size_t n) const {
  const Inst& a = k_.insts[static_cast<size_t>(i.args[n].id)];
  if (a.op == Op::Param && a.args.empty()) return cuda_name('s', a.imm, k_.scalars[a.imm].name);
  if (a.op != Op::Const) return "v" + std::to_string(i.args[n].id);
  std::string literal = cuda_literal(a.type.ty, a.imm);
  if (a.type.lanes == 1) return literal;
  return cuda_type(a.type) + cuda_braces(std::vector<std::string>(a.type.lanes, literal));
}

std::string CudaEmitter::arg_lane(const Inst& i, size_t n, int lane) const {
  const Inst& a = k_.insts[static_cast<size_t>(i.args[n].id)];
  if (a.type.lanes == 1) return arg(i, n);
  if (a.op == Op::Const) return cuda_literal(a.type.ty, a.imm);
  return arg(i, n) + std::string(kLanes[static_cast<size_t>(lane)]);
}

namespace {

/// A divisor. Compilers warn about a division by a literal zero, so zero is written as its bits;
/// the quotient is infinite or NaN.
std::string divisor(Ty t, uint64_t bits) {
  const bool zero = t == Ty::F32 ? (bits << 33U) == 0 : t == Ty::F64 && (bits << 1U) == 0;
  if (!zero) return cuda_literal(t, bits);
  return t == Ty::F32 ? "rp_float(" + hex(bits & 0xFFFFFFFF, "u") + ")"
                      : "rp_double(" + hex(bits, "ull") + ")";
}

}  // namespace

Result<std::vector<std::string>> CudaEmitter::scalar(const Inst& i) const {
  const auto op = static_cast<ScalarOp>(i.imm);
  const Ty t = arg_type(i, i.args.size() - 1).ty;
  const RowText& row = kTexts[static_cast<size_t>(op)];
  const std::string_view text = is_float(t) ? row.on_float : row.on_int;
  if (text.empty()) {
    return internal_error("CUDA emitter: kernel " + k_.name + ": " +
                          std::string(kernel::row(op).name) + " on " + kernel::str(arg_type(i, 0)) +
                          " must be expanded before it is emitted");
  }
  const bool as_unsigned = wraps(op) && (t == Ty::I32 || t == Ty::I64);
  const Ty work = t == Ty::I32 ? Ty::U32 : Ty::U64;
  std::vector<std::string> lanes;
  for (int lane = 0; lane < i.type.lanes; ++lane) {
    std::vector<std::string> operands;
    for (size_t n = 0; n < i.args.size(); ++n) {
      const Inst& a = k_.insts[static_cast<size_t>(i.args[n].id)];
      if (op == kernel::ScalarOp::Div && n == 1 && a.op == Op::Const) {
        operands.push_back(divisor(t, a.imm));
      } else if (!as_unsigned) {
        operands.push_back(arg_lane(i, n, lane));
      } else if (a.op == Op::Const) {
        operands.push_back(cuda_literal(work, a.imm));
      } else {
        operands.push_back(cast(work, arg_lane(i, n, lane)));
      }
    }
    const std::string e = substitute(text, operands);
    lanes.push_back(as_unsigned ? cast(t, "(" + e + ")") : e);
  }
  return lanes;
}

Result<std::vector<std::string>> CudaEmitter::convert(const Inst& i) const {
  const kernel::Type from = arg_type(i, 0);
  const bool to_int = (kernel::class_of(i.type.ty) & kernel::kInt) != 0;
  if (i.imm == 0 && is_float(from.ty) && to_int) {
    return internal_error("CUDA emitter: kernel " + k_.name + ": conversion of " +
                          kernel::str(from) + " to " + kernel::str(i.type) +
                          " must be expanded before it is emitted");
  }
  std::vector<std::string> lanes;
  lanes.reserve(i.type.lanes);
  for (int n = 0; n < i.type.lanes; ++n) {
    lanes.push_back(cuda_convert(arg_lane(i, 0, n), from.ty, i.type.ty));
  }
  return lanes;
}

/// The local that the instruction accesses, or an element of it.
std::string CudaEmitter::local(const Inst& i, size_t index_arg) const {
  const std::string name = cuda_name('l', i.imm, k_.locals[i.imm].name);
  return i.args.size() > index_arg ? name + "[" + arg(i, index_arg) + "]" : name;
}

/// The invocation's flattened index in its workgroup.
std::string CudaEmitter::local_index() const {
  const auto& w = k_.workgroup;
  std::string s = "threadIdx.x";
  if (w[1] > 1) s += " + threadIdx.y * " + std::to_string(w[0]) + "u";
  if (w[2] > 1) s += " + threadIdx.z * " + std::to_string(w[0] * w[1]) + "u";
  return s;
}

std::string CudaEmitter::builtin(const Inst& i) const {
  const auto component = static_cast<size_t>(i.imm >> 8);
  const std::string axis(kAxes[component < 3 ? component : 0]);
  switch (static_cast<Builtin>(i.imm & 0xFF)) {
    case Builtin::GlobalId:
      return "blockIdx" + axis + " * " + std::to_string(k_.workgroup[component]) + "u + threadIdx" +
             axis;
    case Builtin::LocalId:
      return "threadIdx" + axis;
    case Builtin::LocalIndex:
      return local_index();
    case Builtin::WorkgroupId:
      return "blockIdx" + axis;
    case Builtin::SubgroupLane:
      return "(" + local_index() + ") & 31u";
    case Builtin::SubgroupSize:
      return "32u";
    case Builtin::SubgroupIndex:
      return "(" + local_index() + ") >> 5";
    case Builtin::TeamIndex:
      return "(" + local_index() + ") >> 7";
    case Builtin::ClusterRank:
      return "rp_cluster_rank()";
  }
  return "";
}

std::string CudaEmitter::subgroup(const Inst& i, int lane) const {
  const std::string v = active_ + ", " + arg_lane(i, 0, lane);
  const auto from = [&] { return ", (unsigned)" + arg(i, 1) + ")"; };
  switch (static_cast<SubgroupOp>(i.imm)) {
    case SubgroupOp::Add:
      return "rp_reduce<rp_sum>(" + v + ")";
    case SubgroupOp::Max:
      return "rp_reduce<rp_larger>(" + v + ")";
    case SubgroupOp::Min:
      return "rp_reduce<rp_smaller>(" + v + ")";
    case SubgroupOp::Shuffle:
    case SubgroupOp::Broadcast:
      return "rp_shuffle(" + v + from();
    case SubgroupOp::ShuffleXor:
      return "rp_shuffle_xor(" + v + from();
  }
  return "";
}

}  // namespace reprise::emit
