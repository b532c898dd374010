#include "codegen/kernel/legal/index_form.h"

#include <algorithm>
#include <numeric>

namespace reprise::kernel {

namespace {

constexpr int64_t kDivisorOfZero = 1 << 20;

/// The largest power of two, up to a bound, that divides a constant.
int64_t divisor_of(uint32_t bits) {
  const auto value = static_cast<int32_t>(bits);
  return value == 0 ? kDivisorOfZero : std::gcd(kDivisorOfZero, int64_t{value});
}

void add(IndexForm& sum, const IndexForm& other, uint32_t factor) {
  sum.constant += other.constant * factor;
  for (const auto& [value, times] : other.terms) {
    const auto it = sum.terms.try_emplace(value, 0).first;
    it->second += times * factor;
    if (it->second == 0) sum.terms.erase(it);
  }
}

}  // namespace

int64_t IndexForms::divisor(Val v) {
  int64_t& known = divisors_[static_cast<size_t>(v.id)];
  if (known == 0) {
    known = 1;  // of a value that depends on itself
    known = find_divisor(at(v));
  }
  return known;
}

int64_t IndexForms::divisor(const IndexForm& form) {
  int64_t all = kDivisorOfZero;
  for (const auto& [value, times] : form.terms)
    all = std::gcd(all, std::min(kDivisorOfZero, divisor_of(times) * divisor(Val{value})));
  return all;
}

int64_t IndexForms::find_divisor(const Inst& i) {
  if (i.type != kI32) return 1;
  if (i.op == Op::Const) return divisor_of(static_cast<uint32_t>(i.imm));
  if (i.op != Op::Scalar) return 1;
  const auto both = [&](size_t a, size_t b) {
    return std::gcd(divisor(i.args[a]), divisor(i.args[b]));
  };
  switch (static_cast<ScalarOp>(i.imm)) {
    case ScalarOp::Mul:
      return std::min(kDivisorOfZero, divisor(i.args[0]) * divisor(i.args[1]));
    case ScalarOp::Add:
    case ScalarOp::Sub:
    case ScalarOp::Min:
    case ScalarOp::Max:
    case ScalarOp::Rem:
      return both(0, 1);
    case ScalarOp::Where:
      return both(1, 2);
    default:
      return 1;
  }
}

const IndexForm& IndexForms::form(Val v) {
  std::optional<IndexForm>& known = forms_[static_cast<size_t>(v.id)];
  if (!known) known = find_form(v);
  return *known;
}

IndexForm IndexForms::find_form(Val v) {
  const Inst& i = at(v);
  const auto is_index = [&](Val a) { return at(a).type == kI32 || at(a).type == kU32; };
  IndexForm sum;
  if (i.op == Op::Const) {
    sum.constant = static_cast<uint32_t>(i.imm);
    return sum;
  }
  if (i.op == Op::Convert && is_index(v) && is_index(i.args[0])) return form(i.args[0]);
  const auto op = static_cast<ScalarOp>(i.imm);
  if (i.op == Op::Scalar && (op == ScalarOp::Add || op == ScalarOp::Sub)) {
    add(sum, form(i.args[0]), 1);
    add(sum, form(i.args[1]), op == ScalarOp::Add ? 1 : ~uint32_t{0});
    return sum;
  }
  if (i.op == Op::Scalar && op == ScalarOp::Mul && at(i.args[1]).op == Op::Const) {
    add(sum, form(i.args[0]), static_cast<uint32_t>(at(i.args[1]).imm));
    return sum;
  }
  sum.terms[v.id] = 1;
  return sum;
}

}  // namespace reprise::kernel
