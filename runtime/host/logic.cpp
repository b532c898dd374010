// Comparisons, logic on Bool, and choice.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

template <typename T>
void compare_loop(std::string_view op, const T* a, const T* b, uint8_t* out, int64_t n) {
  // The name is tested once per chunk, not once per element.
  const auto run = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(f(a[i], b[i]));
  };
  if (op == "Equal") return run([](T x, T y) { return x == y; });
  if (op == "NotEqual") return run([](T x, T y) { return x != y; });
  if (op == "Less") return run([](T x, T y) { return x < y; });
  if (op == "LessOrEqual") return run([](T x, T y) { return x <= y; });
  if (op == "Greater") return run([](T x, T y) { return x > y; });
  run([](T x, T y) { return x >= y; });
}

template <typename T>
void compare_numbers(const Call& c, const Broadcast& bc, HostTensor& y) {
  std::array<T, kChunk> a;
  std::array<T, kChunk> b;
  for_each_chunk(bc, [&](int64_t start, int64_t n, std::span<const int64_t> offsets) {
    load(input(c, 0), offsets[0], bc.strides[0].back(), n, a.data());
    load(input(c, 1), offsets[1], bc.strides[1].back(), n, b.data());
    compare_loop<T>(c.op, a.data(), b.data(), y.mutable_data<uint8_t>() + start, n);
  });
}

KernelResult comparison(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  RP_TRY(require_same_dtype(c, 0, 1));
  const DType t = input(c, 0).dtype();
  const bool equality = c.op == "Equal" || c.op == "NotEqual";
  if (!equality && (t == DType::Bool || t == DType::String)) {
    return wrong_dtype(c, 0, "A", "numbers");
  }
  RP_ASSIGN(const Broadcast bc, broadcast(c.inputs));
  RP_ASSIGN(auto y, allocate(DType::Bool, bc.dims));
  switch (domain_of(t)) {
    case Domain::Float:
      compare_numbers<double>(c, bc, y);
      break;
    case Domain::Signed:
      compare_numbers<int64_t>(c, bc, y);
      break;
    case Domain::Unsigned:
      compare_numbers<uint64_t>(c, bc, y);
      break;
    case Domain::None: {
      const auto& a = input(c, 0).strings();
      const auto& b = input(c, 1).strings();
      for_each_chunk(bc, [&](int64_t start, int64_t n, std::span<const int64_t> offsets) {
        for (int64_t i = 0; i < n; ++i) {
          const auto ia = static_cast<size_t>(offsets[0] + i * bc.strides[0].back());
          const auto ib = static_cast<size_t>(offsets[1] + i * bc.strides[1].back());
          y.mutable_data<uint8_t>()[start + i] =
              static_cast<uint8_t>((a[ia] == b[ib]) == (c.op == "Equal"));
        }
      });
    }
  }
  return one(std::move(y));
}

KernelResult logical(const Call& c) {
  RP_TRY(check_arity(c, 2, 2));
  for (size_t i = 0; i < 2; ++i) {
    if (input(c, i).dtype() != DType::Bool) return wrong_dtype(c, i, i == 0 ? "A" : "B", "bool");
  }
  RP_ASSIGN(const Broadcast bc, broadcast(c.inputs));
  RP_ASSIGN(auto y, allocate(DType::Bool, bc.dims));
  std::array<uint64_t, kChunk> a;
  std::array<uint64_t, kChunk> b;
  for_each_chunk(bc, [&](int64_t start, int64_t n, std::span<const int64_t> offsets) {
    load(input(c, 0), offsets[0], bc.strides[0].back(), n, a.data());
    load(input(c, 1), offsets[1], bc.strides[1].back(), n, b.data());
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      a[i] = c.op == "And" ? a[i] & b[i] : c.op == "Or" ? a[i] | b[i] : a[i] ^ b[i];
    }
    store(y, start, n, a.data());
  });
  return one(std::move(y));
}

KernelResult logical_not(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const HostTensor& x = input(c, 0);
  if (x.dtype() != DType::Bool) return wrong_dtype(c, 0, "X", "bool");
  RP_ASSIGN(auto y, allocate(DType::Bool, x.dims()));
  for (int64_t i = 0; i < x.count(); ++i) {
    set_element<uint8_t>(y, i, static_cast<uint8_t>(element<uint8_t>(x, i) == 0));
  }
  return one(std::move(y));
}

/// IsNaN and IsInf.
KernelResult classify(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_float(c, 0, "X"));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(auto y, allocate(DType::Bool, x.dims()));
  const bool nan = c.op == "IsNaN";
  const bool negative = c.attrs.get_int("detect_negative", 1) != 0;
  const bool positive = c.attrs.get_int("detect_positive", 1) != 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    double v = 0;
    load(x, i, 1, 1, &v);
    const bool inf = std::isinf(v) && (v < 0 ? negative : positive);
    set_element<uint8_t>(y, i, static_cast<uint8_t>(nan ? std::isnan(v) : inf));
  }
  return one(std::move(y));
}

KernelResult where(const Call& c) {
  RP_TRY(check_arity(c, 3, 3));
  if (input(c, 0).dtype() != DType::Bool) return wrong_dtype(c, 0, "condition", "bool");
  RP_TRY(require_same_dtype(c, 1, 2));
  RP_ASSIGN(const Broadcast bc, broadcast(c.inputs));
  RP_ASSIGN(auto y, allocate(input(c, 1).dtype(), bc.dims));
  with_width(y.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for_each_chunk(bc, [&](int64_t start, int64_t n, std::span<const int64_t> offsets) {
      for (int64_t i = 0; i < n; ++i) {
        const bool first =
            element<uint8_t>(input(c, 0), offsets[0] + i * bc.strides[0].back()) != 0;
        const size_t k = first ? 1 : 2;
        set_element<T>(y, start + i,
                       element<T>(input(c, k), offsets[k] + i * bc.strides[k].back()));
      }
    });
  });
  return one(std::move(y));
}

}  // namespace

Table logic_table() {
  static constexpr Entry kTable[] = {
      {"Equal", comparison},
      {"NotEqual", comparison},
      {"Less", comparison},
      {"Greater", comparison},
      {"LessOrEqual", comparison},
      {"GreaterOrEqual", comparison},
      {"And", logical},
      {"Or", logical},
      {"Xor", logical},
      {"Not", logical_not},
      {"IsNaN", classify},
      {"IsInf", classify},
      {"Where", where},
  };
  return kTable;
}

}  // namespace reprise::host
