#include "tests/emit/row_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/scalar_eval.h"
#include "tests/emit/agreement.h"

namespace reprise::test {

using kernel::Access;
using kernel::Builtin;
using kernel::ScalarOp;
using kernel::ScalarRow;
using kernel::Ty;
using kernel::Val;

namespace {

constexpr uint32_t kRowGroup = 64;
constexpr size_t kRandom = 192;

/// Whether the row has a SPIR-V form for floats, signed and unsigned integers, and Bool.
struct Native {
  bool by_float, by_signed, by_unsigned, by_bool;
};
constexpr std::array kNative = {
#define SPV(n) true
#define EXT(n) true
#define NOSPV false
#define SCALAR_OP(name, arity, operands, result, leaves, cost, sensitivity, expanded, ulp, abs, f, \
                  s, u, b, ...)                                                                    \
  Native{f, s, u, b},
#include "codegen/kernel/ir/scalar_ops.def"
#undef SCALAR_OP
#undef SPV
#undef EXT
#undef NOSPV
};

bool is_float_type(Ty t) {
  return t == Ty::F16 || t == Ty::F32 || t == Ty::F64;
}

bool is_native(const ScalarRow& r, Ty t) {
  const Native& n = kNative[static_cast<size_t>(r.op)];
  if (t == Ty::Bool) return n.by_bool;
  if (t == Ty::F32) return n.by_float;
  const bool rounds = r.op == ScalarOp::Round || r.op == ScalarOp::Floor ||
                      r.op == ScalarOp::Ceil || r.op == ScalarOp::Trunc;
  if (rounds && t == Ty::F64) return false;  // workarounds::kRoundedDoubles
  // Other widths: the table states no error for them, so only exact and correctly rounded rows.
  if (is_float_type(t)) return n.by_float && r.f32_ulp <= 0.5 && r.f32_abs == 0;
  return kernel::class_of(t) == kernel::kSigned ? n.by_signed : n.by_unsigned;
}

/// Rows that are undefined for some operands, which expansion keeps away from them: the *Native
/// ones, division by zero or past the largest integer, shifts by the width or more.
bool defined(ScalarOp op, Ty t, bool expanded, const std::vector<uint64_t>& operands) {
  const double x = kernel::number_of(operands[0], t);
  switch (op) {
    case ScalarOp::SqrtNative:
      return x >= 0;
    case ScalarOp::RsqrtNative:
    case ScalarOp::LogNative:
    case ScalarOp::Log2Native:
      return x > 0;
    case ScalarOp::ExpNative:
    case ScalarOp::Exp2Native:
      return !std::isnan(x);
    case ScalarOp::IDiv:
    case ScalarOp::IRem:
      return operands[1] != 0 &&
             !(kernel::integer_of(operands[1], t) == -1 && kernel::class_of(t) == kernel::kSigned);
    case ScalarOp::ShiftLeft:
    case ScalarOp::ShiftRight:
      return expanded || operands[1] < 8 * static_cast<uint64_t>(kernel::byte_size(t));
    case ScalarOp::Sin:
    case ScalarOp::Cos:
    case ScalarOp::Tan:
      // The expansion gives NaN for larger angles; scalar_accuracy_test.cpp covers that.
      return !(std::fabs(x) >= 0x1p22) || std::isinf(x);
    default:
      return true;
  }
}

std::vector<uint64_t> edges(Ty t) {
  std::vector<uint64_t> out;
  if (t == Ty::Bool) return {0, 1};
  if (is_float_type(t)) {
    const double inf = std::numeric_limits<double>::infinity();
    for (const double v : {0.0,          1.0,        0.5,         1.5,
                           2.0,          2.5,        3.14159274,  1e-3,
                           1e4,          88.0,       120.0,       0.75,
                           1.0009765625, 4096.5,     65504.0,     6.103515625e-05,
                           1e10,         1e-10,      3.4e38,      1.2e-38,
                           16777217.0,   inf,        1e-40,       0x1p-149,
                           16777216.5,   3e9 + 0.75, 0x1p52 - 0.5}) {
      for (const double s : {v, -v}) out.push_back(kernel::bits_of(s, t));
    }
    out.push_back(kernel::bits_of(std::numeric_limits<double>::quiet_NaN(), t));
    return out;
  }
  const int width = 8 * kernel::byte_size(t);
  const uint64_t top = uint64_t{1} << (width - 1);
  for (const uint64_t v :
       {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{5}, uint64_t{31}, uint64_t{32},
        uint64_t{33}, uint64_t{64}, uint64_t{1000}, top, top - 1, top + 1, ~uint64_t{0},
        ~uint64_t{1}, ~uint64_t{6}, uint64_t{0x12345678}, uint64_t{0x89ABCDEF}}) {
    out.push_back(kernel::mask_bits(v, t));
  }
  return out;
}

uint64_t random_value(Ty t, std::mt19937_64& random) {
  const uint64_t bits = random();
  if (t == Ty::Bool) return bits & 1;
  if (!is_float_type(t)) return kernel::mask_bits(bits >> (bits % 32), t);
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
  return kernel::bits_of(std::ldexp(unit, static_cast<int>(bits % 24) - 8), t);
}

/// Most operations may take a subnormal operand as zero, so those are not tried.
bool keeps_subnormals(ScalarOp op, bool expanded) {
  return expanded && (op == ScalarOp::Log || op == ScalarOp::Log2);
}

bool is_subnormal(Ty t, uint64_t bits) {
  if (!is_float_type(t)) return false;
  const double v = std::fabs(kernel::number_of(bits, t));
  const double normal = t == Ty::F16   ? 0x1p-14
                        : t == Ty::F32 ? 0x1p-126
                                       : std::numeric_limits<double>::min();
  return v != 0 && v < normal;
}

Ty operand_type(ScalarOp op, Ty t, size_t n) {
  return op == ScalarOp::Where && n == 0 ? Ty::Bool : t;
}

/// Operand tuples: every combination of edge values (three operands: a slice), then random ones.
std::vector<std::vector<uint64_t>> tuples(const ScalarRow& r, Ty t, bool expanded) {
  const auto arity = static_cast<size_t>(r.arity);
  std::vector<std::vector<uint64_t>> out{{}};
  for (size_t n = 0; n < arity; ++n) {
    std::vector<std::vector<uint64_t>> longer;
    const std::vector<uint64_t> values = edges(operand_type(r.op, t, n));
    for (size_t p = 0; p < out.size(); ++p) {
      const size_t step = arity == 3 && n == 2 ? 7 : 1;
      for (size_t v = p % step; v < values.size(); v += step) {
        longer.push_back(out[p]);
        longer.back().push_back(values[v]);
      }
    }
    out = std::move(longer);
  }
  std::mt19937_64 random(static_cast<uint64_t>(r.op) * 16 + static_cast<uint64_t>(t));
  for (size_t k = 0; k < kRandom; ++k) {
    out.emplace_back();
    for (size_t n = 0; n < arity; ++n) {
      out.back().push_back(random_value(operand_type(r.op, t, n), random));
    }
  }
  std::erase_if(out, [&](const std::vector<uint64_t>& x) {
    for (size_t n = 0; n < x.size(); ++n) {
      const bool kept = keeps_subnormals(r.op, expanded);
      if (!kept && is_subnormal(operand_type(r.op, t, n), x[n])) return true;
    }
    return !defined(r.op, t, expanded, x);
  });
  while (out.size() % kRowGroup != 0) out.push_back(out[out.size() % 7]);
  return out;
}

std::string lower_case(std::string_view s) {
  std::string out;
  for (const char c : s) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

Ty in_memory(Ty t) {
  return t == Ty::Bool ? Ty::U32 : t;
}

enum class Form { Native, Expanded, Exact };

RowKernel make(const ScalarRow& r, Ty t, Form form) {
  RowKernel out{r.op, t, {}, -1, {}, 0};
  kernel::Builder b("row_" + lower_case(r.name) + "_" + std::string(kernel::name_of(t)));
  b.set_workgroup(kRowGroup);
  std::vector<int> buffers;
  for (int n = 0; n < r.arity; ++n) {
    const Ty operand = operand_type(r.op, t, static_cast<size_t>(n));
    buffers.push_back(b.buffer("x" + std::to_string(n), in_memory(operand), Access::Read));
  }
  const Ty result = r.result == kernel::ResultKind::Boolean ? Ty::Bool : t;
  const int y = b.buffer("y", in_memory(result), Access::Write);
  const Val i = b.builtin(Builtin::GlobalId);
  std::vector<Val> args;
  for (size_t n = 0; n < buffers.size(); ++n) {
    const Val v = b.load(buffers[n], i);
    args.push_back(operand_type(r.op, t, n) == Ty::Bool ? b.convert(v, Ty::Bool) : v);
  }
  const Val v = b.scalar_op(r.op, args);
  out.value = v.id;
  b.store(y, i, result == Ty::Bool ? b.convert(v, Ty::U32) : v);
  auto k = b.finish();
  if (k.ok()) out.kernel = *std::move(k);
  if (form != Form::Native) {
    out.value = -1;
    if (!kernel::expand(out.kernel, {.exact = form == Form::Exact}).ok()) out.kernel = {};
  }
  const auto inputs = tuples(r, t, form != Form::Native);
  out.count = inputs.size();
  out.launch.grid = {static_cast<uint32_t>(out.count / kRowGroup), 1, 1};
  out.launch.buffers.resize(buffers.size() + 1);
  for (size_t e = 0; e < out.count; ++e) {
    for (size_t n = 0; n < buffers.size(); ++n) {
      set_element(out.launch.buffers[n], operand_storage(out, n), e, inputs[e][n]);
    }
  }
  const auto bytes = static_cast<size_t>(kernel::byte_size(result_storage(out)));
  out.launch.buffers.back().assign(out.count * bytes, std::byte{0xCD});
  return out;
}

std::vector<RowKernel> make_expanded() {
  std::vector<RowKernel> out;
  for (int n = 0; n < kernel::scalar_op_count(); ++n) {
    const ScalarRow& r = kernel::row(static_cast<ScalarOp>(n));
    for (const Ty t : {Ty::F32, Ty::I32, Ty::U32, Ty::Bool}) {
      const bool takes = (kernel::class_of(t) & r.operands) != 0;
      if (takes && (r.expanded || is_native(r, t))) out.push_back(make(r, t, Form::Expanded));
    }
    // tests/kernel/double_accuracy_test.cpp measures the others.
    const bool exact = r.f32_ulp == 0 && r.f32_abs == 0 && (r.leaves & kernel::kFloat) == 0;
    if (exact && (kernel::kFloat & r.operands) != 0 && r.op != ScalarOp::RoundBF16)
      out.push_back(make(r, Ty::F64, Form::Expanded));
  }
  return out;
}

std::vector<RowKernel> make_native() {
  std::vector<RowKernel> out;
  for (int n = 0; n < kernel::scalar_op_count(); ++n) {
    const ScalarRow& r = kernel::row(static_cast<ScalarOp>(n));
    for (const Ty t : {Ty::F32, Ty::I32, Ty::U32, Ty::Bool, Ty::I64, Ty::U64, Ty::F16, Ty::F64}) {
      if ((kernel::class_of(t) & r.operands) != 0 && is_native(r, t))
        out.push_back(make(r, t, Form::Native));
    }
  }
  return out;
}

std::vector<RowKernel> make_exact() {
  std::vector<RowKernel> out;
  for (int n = 0; n < kernel::scalar_op_count(); ++n) {
    const ScalarRow& r = kernel::row(static_cast<ScalarOp>(n));
    if ((r.operands & kernel::kFloat) != 0) out.push_back(make(r, Ty::F32, Form::Exact));
  }
  return out;
}

}  // namespace

Ty operand_storage(const RowKernel& k, size_t n) {
  return in_memory(operand_type(k.op, k.type, n));
}

Ty result_storage(const RowKernel& k) {
  const bool boolean = kernel::row(k.op).result == kernel::ResultKind::Boolean;
  return in_memory(boolean ? Ty::Bool : k.type);
}

const std::vector<RowKernel>& native_row_kernels() {
  static const std::vector<RowKernel> all = make_native();
  return all;
}

const std::vector<RowKernel>& expanded_row_kernels() {
  static const std::vector<RowKernel> all = make_expanded();
  return all;
}

const std::vector<RowKernel>& exact_row_kernels() {
  static const std::vector<RowKernel> all = make_exact();
  return all;
}

std::vector<uint64_t> row_results(const RowKernel& k, size_t n) {
  std::vector<uint64_t> x;
  for (int a = 0; a < kernel::row(k.op).arity; ++a) {
    const auto operand = static_cast<size_t>(a);
    x.push_back(element(k.launch.buffers[operand], operand_storage(k, operand), n));
  }
  std::vector<uint64_t> out{kernel::scalar_function(k.op, k.type)(x.data())};
  const auto number = [&](size_t a) { return kernel::number_of(x[a], k.type); };
  if (k.op == ScalarOp::Fma) {
    out.push_back(kernel::bits_of(std::fma(number(0), number(1), number(2)), k.type));
    const uint64_t product = kernel::bits_of(number(0) * number(1), k.type);
    if (is_subnormal(k.type, product)) out.push_back(x[2]);
  }
  const bool choice = k.op == ScalarOp::MinNum || k.op == ScalarOp::MaxNum;
  if (choice && is_float_type(k.type) &&
      (number(0) == number(1) || std::isnan(number(0) + number(1)))) {
    out.insert(out.end(), {x[0], x[1]});
  }
  return out;
}

std::string wrong_element(const RowKernel& k, const Launch& got) {
  const kernel::ScalarRow& r = kernel::row(k.op);
  // An expansion's intermediate results may be flushed, too.
  const Tolerance tolerance{r.f32_ulp, r.f32_abs + (k.value < 0 ? 0x1p-125 : 0)};
  const Ty t = result_storage(k);
  for (size_t n = 0; n < k.count; ++n) {
    const uint64_t g = element(got.buffers.back(), t, n);
    const auto expected = row_results(k, n);
    if (std::any_of(expected.begin(), expected.end(),
                    [&](uint64_t e) { return agrees(t, e, g, tolerance); })) {
      continue;
    }
    std::string s = k.kernel.name + "(";
    for (size_t a = 0; a + 1 < got.buffers.size(); ++a) {
      s += " " + std::to_string(element(k.launch.buffers[a], operand_storage(k, a), n));
    }
    return s + " ) is " + std::to_string(g) + ", expected " + std::to_string(expected[0]) +
           " (as bits)";
  }
  return "";
}

}  // namespace reprise::test
