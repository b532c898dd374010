#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/host/cases.h"

namespace reprise::test {
namespace {

AttrMap axes(Dims a, int64_t keepdims = 1) {
  return attrs({{"axes", ints(std::move(a))}, {"keepdims", keepdims}});
}

TEST(HostReduce, FormsAndEdges) {
  const HostTensor x = counting({2, 3}, 1);
  run_cases({
      {"attribute", "ReduceSum", {x}, {f32({2, 1}, {6, 15})}, axes({-1}), 11},
      {"input",
       "ReduceSum",
       {x, i64({1}, {0})},
       {f32({3}, {5, 7, 9})},
       attrs({{"keepdims", int64_t{0}}}),
       13},
      {"all", "ReduceMean", {x}, {f32({1, 1}, {3.5F})}},
      {"no axes, no operation",
       "ReduceMax",
       {x, i64({0}, {})},
       {x},
       attrs({{"noop_with_empty_axes", int64_t{1}}}),
       18},
      {"rank 0", "ReduceSum", {f32({}, {4})}, {f32({}, {4})}},
      {"empty sum", "ReduceSum", {f32({2, 0}, {})}, {f32({2, 1}, {0, 0})}, axes({1})},
      {"empty product", "ReduceProd", {f32({2, 0}, {})}, {f32({2, 1}, {1, 1})}, axes({1})},
      {"empty maximum", "ReduceMax", {f32({1, 0}, {})}, {f32({1, 1}, {-kInf})}, axes({1})},
      {"empty integer minimum", "ReduceMin", {i8({0}, {})}, {i8({1}, {127})}, axes({0})},
      {"empty unsigned maximum", "ReduceMax", {u8({0}, {})}, {u8({1}, {0})}, axes({0})},
      {"empty mean", "ReduceMean", {f32({0}, {})}, {f32({1}, {kNaN})}, axes({0})},
      {"NaN wins", "ReduceMax", {f32({3}, {1, kNaN, 2})}, {f32({1}, {kNaN})}},
      {"bool", "ReduceMax", {boolean({2, 2}, {0, 1, 0, 0})}, {boolean({2, 1}, {1, 0})}, axes({1})},
      {"no overflow",
       "ReduceLogSumExp",
       {f32({2}, {1000, 1000})},
       {f32({1}, {1000.6931F})},
       {},
       0,
       1e-7},
      {"all -inf", "ReduceLogSumExp", {f32({2}, {-kInf, -kInf})}, {f32({1}, {-kInf})}},
      // In float32 each 1 would be lost.
      {"double sum", "ReduceSum", {f32({4}, {16777216, 1, 1, -16777216})}, {f32({1}, {2})}},
      {"integers wrap",
       "ReduceSum",
       {i64({2}, {kMax64, 1})},
       {i64({1}, {std::numeric_limits<int64_t>::min()})}},
      {"norm", "ReduceL2", {f32({2}, {3, 4})}, {f32({1}, {5})}},
      {"magnitudes", "ReduceL1", {i32({2}, {-3, 4})}, {i32({1}, {7})}},
      {"first",
       "ArgMax",
       {f32({2, 3}, {1, 3, 3, 2, 2, 1})},
       {i64({2, 1}, {1, 0})},
       attrs({{"axis", int64_t{1}}})},
      {"last",
       "ArgMax",
       {f32({3}, {1, 3, 3})},
       {i64({}, {2})},
       attrs({{"select_last_index", int64_t{1}}, {"keepdims", int64_t{0}}})},
      {"NaN", "ArgMin", {f32({3}, {1, kNaN, 0})}, {i64({1}, {1})}},
  });
  run_error_cases({
      {"axis", "ReduceSum", {x}, Code::InvalidModel, "axis 2", axes({2})},
      {"twice", "ReduceSum", {x}, Code::InvalidModel, "twice", axes({1, -1})},
      {"nothing", "ArgMax", {f32({0}, {})}, Code::InvalidInput, "empty", {}, 13},
      {"strings", "ReduceMax", {strings({1}, {"a"})}, Code::Unsupported, "numbers"},
  });
}

TEST(HostMatMul, ShapesAndBatches) {
  run_cases({
      {"vectors", "MatMul", {f32({2}, {1, 2}), f32({2}, {3, 4})}, {f32({}, {11})}},
      {"vector by matrix",
       "MatMul",
       {f32({2}, {1, 2}), f32({2, 2}, {1, 0, 0, 1})},
       {f32({2}, {1, 2})}},
      {"batches broadcast",
       "MatMul",
       {counting({2, 1, 1, 2}), counting({3, 2, 1})},
       {f32({2, 3, 1, 1}, {1, 3, 5, 3, 13, 23})}},
      {"inner 0", "MatMul", {f32({2, 0}, {}), f32({0, 1}, {})}, {f32({2, 1}, {0, 0})}},
      {"no batch", "MatMul", {f32({0, 2, 2}, {}), f32({2, 2}, {1, 2, 3, 4})}, {f32({0, 2, 2}, {})}},
      {"integers wrap",
       "MatMul",
       {i64({1, 2}, {kMax64, 1}), i64({2, 1}, {1, 1})},
       {i64({1, 1}, {std::numeric_limits<int64_t>::min()})}},
      {"transposed, scaled",
       "Gemm",
       {f32({2, 1}, {1, 2}), f32({3, 2}, {1, 2, 3, 4, 5, 6}), f32({3}, {1, 1, 1})},
       {f32({1, 3}, {12, 24, 36})},
       attrs({{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 2.0F}, {"beta", 2.0F}})},
      {"C is left out",
       "Gemm",
       {f32({1, 1}, {2}), f32({1, 2}, {3, 4}), f32({2}, {INFINITY, NAN})},
       {f32({1, 2}, {6, 8})},
       attrs({{"beta", 0.0F}})},
      {"column bias",
       "Gemm",
       {f32({2, 1}, {1, 2}), f32({1, 2}, {1, 1}), f32({2, 1}, {10, 20})},
       {f32({2, 2}, {11, 11, 22, 22})}},
      {"8-bit",
       "MatMulInteger",
       {u8({1, 2}, {11, 7}), u8({2, 1}, {1, 255}), u8({}, {12}), u8({}, {0})},
       {i32({1, 1}, {-1276})}},
  });
  run_error_cases({
      {"inner",
       "MatMul",
       {f32({1, 2}, {1, 2}), f32({1, 1}, {1})},
       Code::InvalidInput,
       "[1,2] x [1,1]"},
      {"batch",
       "MatMul",
       {counting({2, 1, 1}), counting({3, 1, 1})},
       Code::InvalidInput,
       "do not broadcast"},
      {"rank 0", "MatMul", {f32({}, {1}), f32({1}, {1})}, Code::InvalidInput, "rank 0"},
      {"bias",
       "Gemm",
       {f32({1, 1}, {1}), f32({1, 1}, {1}), f32({2}, {1, 1})},
       Code::InvalidInput,
       "does not broadcast"},
      {"rank", "Gemm", {f32({1}, {1}), f32({1, 1}, {1})}, Code::InvalidInput, "rank must be 2"},
  });
}

// Every block size of the blocked product is crossed: the result is compared with the plain sum.
TEST(HostMatMul, BlockedEqualsPlain) {
  for (const auto& [m, k, n] :
       {std::array<int64_t, 3>{5, 7, 3}, {67, 300, 9}, {3, 513, 261}, {1030, 3, 5}}) {
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n));
    HostTensor a(DType::F32, {m, k});
    HostTensor b(DType::F32, {k, n});
    HostTensor want(DType::F32, {m, n});
    for (int64_t i = 0; i < a.count(); ++i)
      a.mutable_data<float>()[i] = static_cast<float>(i % 17 - 8);
    for (int64_t i = 0; i < b.count(); ++i)
      b.mutable_data<float>()[i] = static_cast<float>(i % 13 - 5);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;  // small integers: exact
        for (int64_t p = 0; p < k; ++p)
          sum += a.data<float>()[i * k + p] * b.data<float>()[p * n + j];
        want.mutable_data<float>()[i * n + j] = sum;
      }
    }
    run_cases({{"blocked", "MatMul", {a, b}, {want}}});
  }
}

TEST(HostNormalization, RowsAndGroups) {
  run_cases({
      {"layer",
       "LayerNormalization",
       {f32({2, 2}, {1, 3, 5, 5}), f32({2}, {2, 1}), f32({2}, {0, 1})},
       {f32({2, 2}, {-2, 2, 0, 1}), f32({2, 1}, {2, 5}), f32({2, 1}, {1, 316.22777F})},
       {},
       17,
       1e-4},
      {"no cancellation",
       "LayerNormalization",
       {f32({4}, {1e6F, 1e6F + 1, 1e6F, 1e6F + 1}), f32({4}, {1, 1, 1, 1})},
       {f32({4}, {-1, 1, -1, 1})},
       {},
       17,
       1e-4},
      {"rms",
       "RMSNormalization",
       {f32({1, 2}, {3, 4}), f32({2}, {1, 1})},
       {f32({1, 2}, {0.8485281F, 1.1313709F})},
       {},
       23,
       1e-5},
      {"instance",
       "InstanceNormalization",
       {f32({1, 2, 2}, {1, 3, 10, 30}), f32({2}, {1, 2}), f32({2}, {0, 1})},
       {f32({1, 2, 2}, {-1, 1, -1, 3})},
       {},
       0,
       1e-4},
      {"group, factors per channel",
       "GroupNormalization",
       {f32({1, 2, 1}, {1, 3}), f32({2}, {1, 2}), f32({2}, {0, 0})},
       {f32({1, 2, 1}, {-1, 2})},
       attrs({{"num_groups", int64_t{1}}}),
       21,
       1e-4},
      {"group, factors per group",
       "GroupNormalization",
       {f32({1, 2, 1}, {1, 3}), f32({1}, {2}), f32({1}, {5})},
       {f32({1, 2, 1}, {3, 7})},
       attrs({{"num_groups", int64_t{1}}}),
       18,
       1e-4},
      {"batch",
       "BatchNormalization",
       {f32({1, 2, 1}, {4, 8}), f32({2}, {1, 2}), f32({2}, {0, 1}), f32({2}, {2, 4}),
        f32({2}, {4, 16})},
       {f32({1, 2, 1}, {1, 3})},
       attrs({{"epsilon", 0.0F}})},
      {"local",
       "LRN",
       {f32({1, 2, 1}, {1, 2})},
       {f32({1, 2, 1}, {1 / 3.5F, 2 / 3.5F})},
       attrs({{"size", int64_t{3}}, {"alpha", 1.5F}, {"beta", 1.0F}}),
       0,
       1e-6},
      {"zero stays zero",
       "LpNormalization",
       {f32({2, 2}, {3, 4, 0, 0})},
       {f32({2, 2}, {0.6F, 0.8F, 0, 0})}},
      {"squares too small for 32 bits",
       "LpNormalization",
       {f32({1, 2}, {3e-30F, 4e-30F})},
       {f32({1, 2}, {0, 0})}},
  });
  run_error_cases({
      {"scale",
       "LayerNormalization",
       {f32({1, 2}, {1, 2}), f32({3}, {1, 1, 1})},
       Code::InvalidInput,
       "Scale"},
      {"groups",
       "GroupNormalization",
       {counting({1, 3, 1}), f32({1}, {1}), f32({1}, {1})},
       Code::InvalidModel,
       "num_groups",
       attrs({{"num_groups", int64_t{2}}})},
      {"mean",
       "BatchNormalization",
       {counting({1, 2}), f32({2}, {1, 1}), f32({2}, {1, 1}), f32({1}, {1}), f32({2}, {1, 1})},
       Code::InvalidInput,
       "input_mean"},
      {"axis", "LayerNormalization", {f32({}, {1}), f32({}, {1})}, Code::InvalidModel, "axis"},
  });
}

TEST(HostSoftmax, VersionsAndLimits) {
  const float third = 1.0F / 3;
  run_cases({
      {"one axis",
       "Softmax",
       {f32({2, 2}, {0, 0, 1000, 0})},
       {f32({2, 2}, {0.5F, 0.5F, 1, 0})},
       {},
       13},
      {"flattened",
       "Softmax",
       {f32({1, 2, 2}, {0, 0, 0, 0})},
       {f32({1, 2, 2}, {0.25F, 0.25F, 0.25F, 0.25F})},
       {},
       12},
      {"middle axis",
       "Softmax",
       {f32({1, 3, 1}, {2, 2, 2})},
       {f32({1, 3, 1}, {third, third, third})},
       attrs({{"axis", int64_t{1}}}),
       13},
      {"logarithm of a tiny value",
       "LogSoftmax",
       {f32({2}, {0, 1000})},
       {f32({2}, {-1000, 0})},
       {},
       13},
      {"masked row", "Softmax", {f32({2}, {-kInf, -kInf})}, {f32({2}, {kNaN, kNaN})}, {}, 13},
      {"first of equal ones", "Hardmax", {f32({3}, {1, 2, 2})}, {f32({3}, {0, 1, 0})}, {}, 13},
      {"empty", "Softmax", {f32({2, 0}, {})}, {f32({2, 0}, {})}, {}, 13},
  });
}

TEST(HostQuantize, RoundsAndSaturates) {
  run_cases({
      {"halves to even",
       "QuantizeLinear",
       {f32({5}, {0.5F, 1.5F, -1, 1000, kNaN}), f32({}, {1}), u8({}, {0})},
       {u8({5}, {0, 2, 0, 255, 0})}},
      {"float32 quotient",
       "QuantizeLinear",
       {f32({1}, {5.001F}), f32({}, {2}), u8({}, {0})},
       {u8({1}, {3})}},
      {"float16 quotient",
       "QuantizeLinear",
       {f32({1}, {5.001F}), f32({}, {2}), u8({}, {0})},
       {u8({1}, {2})},
       attrs({{"precision", int64_t{10}}})},
      {"four bits saturate",
       "QuantizeLinear",
       {f32({4}, {-9, 8, kNaN, 2.5F}), f32({}, {1}), HostTensor(DType::I4, {})},
       {HostTensor::from<int8_t>(DType::I4, {4}, {-8, 7, 0, 2})}},
      {"float8 is rounded once",
       "QuantizeLinear",
       {f32({3}, {1000, 2.6F, -kInf}), f32({}, {2})},
       {HostTensor::from<uint8_t>(DType::F8E4M3FN, {3}, {0x7e, 0x3a, 0xfe})},
       attrs({{"output_dtype", int64_t{17}}})},
      {"per axis",
       "QuantizeLinear",
       {f32({1, 2}, {4, 4}), f32({2}, {1, 2}), i8({2}, {0, -1})},
       {i8({1, 2}, {4, 1})}},
      {"per axis",
       "DequantizeLinear",
       {i8({2, 1}, {10, 10}), f32({2}, {1, 0.5F}), i8({2}, {0, 8})},
       {f32({2, 1}, {10, 1})},
       attrs({{"axis", int64_t{0}}})},
      {"blocks",
       "DequantizeLinear",
       {i8({1, 3}, {1, 1, 1}), f32({1, 2}, {2, 3})},
       {f32({1, 3}, {2, 2, 3})},
       attrs({{"axis", int64_t{1}}, {"block_size", int64_t{2}}})},
      {"range holds zero",
       "DynamicQuantizeLinear",
       {f32({2}, {1, 2})},
       {u8({2}, {127, 255}), f32({}, {2.0F / 255}), u8({}, {0})}},
      {"all zero",
       "DynamicQuantizeLinear",
       {f32({2}, {0, 0})},
       {u8({2}, {0, 0}), f32({}, {1}), u8({}, {0})}},
  });
  run_error_cases({
      {"scale",
       "QuantizeLinear",
       {f32({1, 2}, {1, 2}), f32({3}, {1, 1, 1})},
       Code::InvalidInput,
       "does not fit"},
      {"target",
       "QuantizeLinear",
       {f32({1}, {1}), f32({}, {1}), f32({}, {1})},
       Code::Unsupported,
       "float32"},
      {"zero point",
       "DequantizeLinear",
       {i8({1}, {1}), f32({}, {1}), u8({}, {1})},
       Code::InvalidInput,
       "different dtypes"},
  });
}

// The values of PyTorch's grid_sample and ONNX Runtime 1.32: taps are clamped one by one.
TEST(HostGridSample, CubicTapsAtTheBorder) {
  std::vector<float> image(16);
  std::iota(image.begin(), image.end(), 0.0F);
  run_cases(
      {{"border",
        "GridSample",
        {f32({1, 1, 4, 4}, image), f32({1, 1, 4, 2}, {-1, -1, 1, -1, -1.5F, 3, 0.125F, 1.25F})},
        {f32({1, 1, 1, 4}, {-0.46875F, 2.71875F, 12, 13.703125F})},
        attrs({{"mode", text("bicubic")}, {"padding_mode", text("border")}}),
        16}});
}

TEST(HostResize, ModesAndErrors) {
  const HostTensor x = f32({1, 1, 1, 2}, {1, 3});
  const HostTensor twice = f32({4}, {1, 1, 1, 2});
  run_cases({
      {"nearest", "Resize", {x, kOmitted, twice}, {f32({1, 1, 1, 4}, {1, 1, 3, 3})}, {}, 13},
      {"linear",
       "Resize",
       {x, kOmitted, twice},
       {f32({1, 1, 1, 4}, {1, 1.5F, 2.5F, 3})},
       attrs({{"mode", text("linear")}}),
       13},
      {"corners",
       "Resize",
       {x, kOmitted, kOmitted, i64({4}, {1, 1, 1, 3})},
       {f32({1, 1, 1, 3}, {1, 2, 3})},
       attrs({{"mode", text("linear")}, {"coordinate_transformation_mode", text("align_corners")}}),
       13},
      {"tf half pixel copies axes that keep their size",
       "Resize",
       {f32({2, 1, 2}, {1, 2, 3, 4}), kOmitted, f32({3}, {1, 1, 2})},
       {f32({2, 1, 4}, {2, 2, 2, 2, 4, 4, 4, 4})},
       attrs({{"coordinate_transformation_mode", text("tf_half_pixel_for_nn")},
              {"nearest_mode", text("ceil")}}),
       11},
      {"old",
       "Upsample",
       {x, twice},
       {f32({1, 1, 1, 4}, {1, 1, 3, 3})},
       attrs({{"mode", text("nearest")}}),
       9},
      {"integers",
       "Resize",
       {u8({1, 2}, {1, 3}), kOmitted, f32({2}, {2, 1})},
       {u8({2, 2}, {1, 3, 1, 3})},
       {},
       13},
      {"antialiased integers are rounded",
       "Resize",
       {u8({1, 8}, {0, 1, 2, 4, 9, 11, 255, 254}), kOmitted, f32({2}, {1, 0.5F})},
       {u8({1, 4}, {1, 4, 40, 224})},
       attrs({{"mode", text("linear")}, {"antialias", int64_t{1}}}),
       18},
      {"down to nothing",
       "Resize",
       {f32({2}, {1, 2}), kOmitted, f32({1}, {0.1F})},
       {f32({0}, {})},
       {},
       13},
  });
  run_error_cases({
      {"count",
       "Resize",
       {x, kOmitted, f32({1}, {2})},
       Code::InvalidInput,
       "need 4 numbers",
       {},
       13},
      {"scale",
       "Resize",
       {x, kOmitted, f32({4}, {1, 1, 1, -2})},
       Code::InvalidInput,
       "not positive",
       {},
       13},
      {"absurd",
       "Resize",
       {x, kOmitted, f32({4}, {1, 1, 1e18F, 1e18F})},
       Code::InvalidModel,
       "2^40",
       {},
       13},
      {"mode",
       "Resize",
       {x, kOmitted, twice},
       Code::InvalidModel,
       "'area'",
       attrs({{"mode", text("area")}}),
       13},
  });
}

TEST(HostEinsum, Equations) {
  const HostTensor a = counting({2, 2}, 1);
  run_cases({
      {"product",
       "Einsum",
       {a, a},
       {f32({2, 2}, {7, 10, 15, 22})},
       attrs({{"equation", text("ij,jk->ik")}})},
      {"implicit",
       "Einsum",
       {a, a},
       {f32({2, 2}, {7, 10, 15, 22})},
       attrs({{"equation", text("ij, jk")}})},
      {"diagonal", "Einsum", {a}, {f32({2}, {1, 4})}, attrs({{"equation", text("ii->i")}})},
      {"broadcast",
       "Einsum",
       {counting({2, 1, 2}), a},
       {f32({2, 2, 2}, {0, 2, 0, 4, 2, 6, 6, 12})},
       attrs({{"equation", text("...j,...j->...j")}})},
  });
  run_error_cases({
      {"clash",
       "Einsum",
       {a, counting({3})},
       Code::InvalidInput,
       "clashes",
       attrs({{"equation", text("ij,j->i")}})},
      {"operands",
       "Einsum",
       {a},
       Code::InvalidModel,
       "2 operands",
       attrs({{"equation", text("ij,jk->ik")}})},
      {"label",
       "Einsum",
       {a},
       Code::InvalidModel,
       "no operand",
       attrs({{"equation", text("ij->k")}})},
      {"rank",
       "Einsum",
       {a},
       Code::InvalidInput,
       "does not fit",
       attrs({{"equation", text("i->i")}})},
  });
}

}  // namespace
}  // namespace reprise::test
