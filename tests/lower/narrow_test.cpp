// Integers of 8 and 16 bits give in a fused kernel what they give alone: every scalar operation
// between loads and operators that read its upper bits, against the host kernels.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "codegen/kernel/ir/scalar_ops.h"
#include "codegen/ops/row/support.h"
#include "tests/lower/model_on_variants.h"

namespace reprise {
namespace {

constexpr DType kIntegers[] = {DType::I8,  DType::U8,  DType::I16, DType::U16,
                               DType::I32, DType::U32, DType::I64};

/// Every pair of these, the second without zeros where it divides.
std::vector<int64_t> edges(DType t) {
  const int bits = std::min(static_cast<int>(size_of(t)) * 8, 32);
  const bool is_signed = is_signed_int(t);
  const int64_t most = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  // Where int64 is computed in 32 bits, results beyond them are errors of the run.
  if (t == DType::I64) return {0, 1, 2, 7, 8, 15, 100, 255, 30000, -1, -2, -100, -30000};
  std::vector<int64_t> out{0, 1, 2, 3, 7, 8, 9, 15, 16, 31, 32, 100, most / 2, most - 1, most};
  if (is_signed) out.insert(out.end(), {-1, -2, -7, -100, -most / 2, -most, -most - 1});
  return out;
}

void set(HostTensor& t, int64_t at, int64_t v) {
  const size_t size = size_of(t.dtype());
  std::memcpy(t.mutable_bytes().data() + static_cast<size_t>(at) * size, &v, size);
}

struct Case {
  std::string name;
  std::string text;  // of a graph with inputs x, y, d (not zero) and f
  DType dtype;
};

std::string name(DType t) {
  return std::string(name_of(t));
}

std::string graph_text(DType t, const std::string& body) {
  const std::string n = std::to_string(edges(t).size());
  return "graph narrow\ninput x: " + name(t) + "[" + n + ",1]\ninput y: " + name(t) + "[1," + n +
         "]\ninput d: " + name(t) + "[1," + n + "]\n" + body;
}

/// What reads all bits of a value: a wider integer, a float, a comparison, a shift, a quotient.
std::string readers(const std::string& v, DType t, std::string& outputs) {
  const auto add = [&](const std::string& to, const std::string& definition) {
    outputs += (outputs.empty() ? "" : ", ") + v + to;
    return v + to + " = " + definition + "\n";
  };
  const DType wide = t == DType::U32 || t == DType::I64 ? DType::F32 : DType::I64;
  std::string text =
      add("_same", "Min(" + v + ", " + v + ")") +
      add("_wide", "Cast<to=" + std::to_string(ops::dtype_to_onnx(wide)) + ">(" + v + ")");
  text += add("_float", "Cast<to=1>(" + v + ")") + add("_less", "Less(" + v + ", y)") +
          add("_quotient", "Div(" + v + ", d)");
  if (t != DType::I64) {
    text += add("_right", "ShiftRight(" + v + ", y)");
    for (const DType to : kIntegers) {
      if (to == t || size_of(to) > 2) continue;
      const std::string narrow = v + "_" + name(to);
      text += narrow + " = Cast<to=" + std::to_string(ops::dtype_to_onnx(to)) + ">(" + v + ")\n" +
              narrow + "_wide = Cast<to=7>(" + narrow + ")\n";
      outputs += ", " + narrow + "_wide";
    }
  }
  return text;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const DType t : kIntegers) {
    const uint8_t of_type = is_signed_int(t) ? kernel::kSigned : kernel::kUnsigned;
    for (int i = 0; i < kernel::scalar_op_count(); ++i) {
      const kernel::ScalarRow& r = kernel::row(static_cast<kernel::ScalarOp>(i));
      if ((r.operands & of_type) == 0 || r.result == kernel::ResultKind::Boolean) continue;
      // The host has neither of a lone condition nor of unsigned numbers below zero.
      if (r.op == kernel::ScalarOp::Where) continue;
      // They take operands that are proven not to overflow (codegen/kernel/semantics.md).
      if (r.op == kernel::ScalarOp::IDiv || r.op == kernel::ScalarOp::IRem) continue;
      if (r.op == kernel::ScalarOp::Neg && !is_signed_int(t)) continue;
      // Powers of int64 leave 32 bits, which is an error there.
      if (r.op == kernel::ScalarOp::Pow && t == DType::I64) continue;
      const bool shift = r.op == kernel::ScalarOp::ShiftLeft;
      if (shift && t == DType::I64) continue;
      const bool divides = r.name == "Div" || r.name == "Rem" || r.name == "Mod";
      std::string outputs;
      const std::string operands = r.arity == 1 ? "x" : divides ? "x, d" : "x, y";
      std::string body = "v = " + std::string(r.name) + "(" + operands + ")\n";
      body += readers("v", t, outputs);
      out.push_back(
          {std::string(r.name) + "_" + name(t), graph_text(t, body + "output " + outputs), t});
    }
    std::string outputs;
    const std::string chain =
        "a = Add(x, y)\nb = Mul(a, y)\nc = Sub(b, x)\ne = Max(c, y)\n" + readers("e", t, outputs);
    if (t != DType::I64)
      out.push_back({"Chain_" + name(t), graph_text(t, chain + "output " + outputs), t});
    out.push_back({"Sum_" + name(t),
                   graph_text(t,
                              "a = Add(x, y)\ns = ReduceSum<axes=[1]>(a)\n"
                              "p = ReduceMax<axes=[1]>(a)\nw = Cast<to=1>(s)\nz = Sub(s, p)\n"
                              "v = Cast<to=1>(z)\noutput w, v"),
                   t});
  }
  return out;
}

class Narrow : public test::ModelOnVariants, public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::vector<int64_t> values = edges(GetParam().dtype);
    const auto n = static_cast<int64_t>(values.size());
    std::vector<HostTensor> inputs;
    for (int i = 0; i < 3; ++i) {
      inputs.emplace_back(GetParam().dtype,
                          i == 0 ? std::vector<int64_t>{n, 1} : std::vector<int64_t>{1, n});
      for (int64_t at = 0; at < n; ++at) {
        const int64_t v = values[static_cast<size_t>(at)];
        set(inputs.back(), at, i == 2 && v == 0 ? 5 : v);
      }
    }
    load(GetParam().text, std::move(inputs));
  }

  void compare(size_t output, std::span<const std::byte> actual, const std::string& what) override {
    const HostTensor& e = expected_[output];
    const size_t size = size_of(e.dtype());
    for (int64_t i = 0; i < e.count(); ++i) {
      const size_t at = static_cast<size_t>(i) * size;
      ASSERT_EQ(std::memcmp(e.bytes().data() + at, actual.data() + at, size), 0)
          << what << ": " << model_->value(model_->outputs[output]).name << "[" << i << "]";
    }
  }
};

TEST_P(Narrow, InterpreterOfEveryVariant) {
  interpret_every_variant();
}

TEST_P(Narrow, Devices) {
  run_on_devices();
}

INSTANTIATE_TEST_SUITE_P(Rows, Narrow, testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace reprise
