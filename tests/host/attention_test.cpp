#include <gtest/gtest.h>

#include <cmath>

#include "tests/host/cases.h"

namespace reprise::test {
namespace {

// Equal keys give equal probabilities, so every output row is the mean of the visible values.
TEST(HostAttention, MasksAndHeads) {
  const HostTensor q = f32({1, 1, 2, 1}, {0, 0});
  const HostTensor k = f32({1, 1, 2, 1}, {0, 0});
  const HostTensor v = f32({1, 1, 2, 1}, {2, 4});
  run_cases({
      {"no mask", "Attention", {q, k, v}, {f32({1, 1, 2, 1}, {3, 3})}},
      {"causal",
       "Attention",
       {q, k, v},
       {f32({1, 1, 2, 1}, {2, 3})},
       attrs({{"is_causal", int64_t{1}}})},
      {"bool mask, one row hidden",
       "Attention",
       {q, k, v, boolean({2, 2}, {0, 1, 0, 0})},
       {f32({1, 1, 2, 1}, {4, 0})}},
      {"short mask hides the rest",
       "Attention",
       {q, k, v, f32({1, 1}, {0})},
       {f32({1, 1, 2, 1}, {2, 2})}},
      {"infinite values",
       "Attention",
       {q, k, f32({1, 1, 2, 1}, {2, INFINITY})},
       {f32({1, 1, 2, 1}, {INFINITY, INFINITY})}},
      {"a hidden infinite value is multiplied by 0",
       "Attention",
       {q, k, f32({1, 1, 2, 1}, {2, INFINITY})},
       {f32({1, 1, 2, 1}, {NAN, INFINITY})},
       attrs({{"is_causal", int64_t{1}}})},
      {"causal over a cache",
       "Attention",
       {f32({1, 1, 1, 1}, {0}), f32({1, 1, 1, 1}, {0}), f32({1, 1, 1, 1}, {6}), kOmitted, k, v},
       {f32({1, 1, 1, 1}, {4}), f32({1, 1, 3, 1}, {0, 0, 0}), f32({1, 1, 3, 1}, {2, 4, 6})},
       attrs({{"is_causal", int64_t{1}}})},
      {"grouped heads, flat layout",
       "Attention",
       {f32({1, 1, 2}, {0, 0}), f32({1, 2, 1}, {0, 0}), f32({1, 2, 1}, {2, 4})},
       {f32({1, 1, 2}, {3, 3})},
       attrs({{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{1}}})},
      {"scale",
       "Attention",
       {f32({1, 1, 1, 1}, {1}), f32({1, 1, 2, 1}, {0, 1}), v},
       {f32({1, 1, 1, 1}, {(2 + 4 * std::exp(2.0F)) / (1 + std::exp(2.0F))})},
       attrs({{"scale", 2.0F}}),
       23,
       1e-6},
  });
  run_error_cases({
      {"lengths",
       "Attention",
       {q, k, f32({1, 1, 1, 1}, {1})},
       Code::InvalidInput,
       "do not fit together"},
      {"heads", "Attention", {f32({1, 1, 2}, {0, 0}), k, v}, Code::InvalidModel, "q_num_heads"},
      {"mask",
       "Attention",
       {q, k, v, boolean({3, 2}, {1, 1, 1, 1, 1, 1})},
       Code::InvalidInput,
       "does not broadcast"},
  });
}

TEST(HostAttention, RotaryEmbedding) {
  const HostTensor x = f32({1, 1, 1, 4}, {1, 2, 3, 4});
  const HostTensor cosine = f32({2, 2}, {1, 1, 0, 0});
  const HostTensor sine = f32({2, 2}, {0, 0, 1, 1});
  run_cases({
      {"halves",
       "RotaryEmbedding",
       {x, cosine, sine, i64({1, 1}, {1})},
       {f32({1, 1, 1, 4}, {-3, -4, 1, 2})}},
      {"from the end",
       "RotaryEmbedding",
       {x, cosine, sine, i64({1, 1}, {-1})},
       {f32({1, 1, 1, 4}, {-3, -4, 1, 2})}},
      {"interleaved",
       "RotaryEmbedding",
       {x, cosine, sine, i64({1, 1}, {1})},
       {f32({1, 1, 1, 4}, {-2, 1, -4, 3})},
       attrs({{"interleaved", int64_t{1}}})},
      {"a part",
       "RotaryEmbedding",
       {x, f32({1, 1, 1}, {0}), f32({1, 1, 1}, {1})},
       {f32({1, 1, 1, 4}, {-2, 1, 3, 4})},
       attrs({{"rotary_embedding_dim", int64_t{2}}})},
  });
  run_error_cases({
      {"position",
       "RotaryEmbedding",
       {x, cosine, sine, i64({1, 1}, {2})},
       Code::InvalidInput,
       "position 2"},
      {"negative position",
       "RotaryEmbedding",
       {x, cosine, sine, i64({1, 1}, {-3})},
       Code::InvalidInput,
       "position -3"},
      {"cache", "RotaryEmbedding", {x, cosine, sine}, Code::InvalidInput, "cos_cache"},
  });
}

/// Dims of tensors without elements may have any size, and nothing is allocated for them.
TEST(HostRecurrent, WeightsWithoutElements) {
  const auto is_prepared = [](const Dims& w, const Dims& r) {
    const HostTensor weights(DType::F32, w);
    const HostTensor recurrence(DType::F32, r);
    const HostTensor* inputs[] = {nullptr, &weights, &recurrence};
    const AttrMap none;
    const auto state = host::prepare({.op = "RNN", .attrs = none, .inputs = inputs});
    EXPECT_TRUE(state.ok()) << state.status().message();
    return state.ok() && *state != nullptr;
  };
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_TRUE(is_prepared({1, 2, 3}, {1, 2, 2}));
  EXPECT_TRUE(is_prepared({2, 2, 3}, {2, 2, 2}));
  EXPECT_FALSE(is_prepared({3, 2, 3}, {3, 2, 2}));
  EXPECT_FALSE(is_prepared({kHuge, 0, 0}, {kHuge, 0, 0}));
  EXPECT_FALSE(is_prepared({1, kHuge, 0}, {1, kHuge, 0}));
  EXPECT_FALSE(is_prepared({1, 0, kHuge}, {1, 0, 0}));
  run_cases({
      {"no states",
       "LSTM",
       {f32({0, 1, kHuge}, {}), f32({1, 0, kHuge}, {}), f32({1, 0, 0}, {})},
       {f32({0, 1, 1, 0}, {}), f32({1, 1, 0}, {}), f32({1, 1, 0}, {})}},
      {"no steps of many rows",
       "RNN",
       {f32({0, kHuge, 1}, {}), f32({1, 0, 1}, {}), f32({1, 0, 0}, {})},
       {f32({0, 1, kHuge, 0}, {}), f32({1, kHuge, 0}, {})}},
      {"no inputs",
       "RNN",
       {f32({1, 1, 0}, {}), f32({1, 1, 0}, {}), f32({1, 1, 1}, {1})},
       {f32({1, 1, 1, 1}, {0}), f32({1, 1, 1}, {0})}},
  });
}

TEST(HostRecurrent, LengthsAndErrors) {
  const HostTensor x = f32({2, 1, 1}, {1, 1});
  const HostTensor one = f32({1, 1, 1}, {1});
  const auto relu = [](const char* direction) {
    return attrs(
        {{"activations", Attr(std::vector<std::string>{"Relu"})}, {"direction", text(direction)}});
  };
  run_cases({
      {"sums",
       "RNN",
       {x, one, one},
       {f32({2, 1, 1, 1}, {1, 2}), f32({1, 1, 1}, {2})},
       relu("forward")},
      {"from the end",
       "RNN",
       {x, one, one},
       {f32({2, 1, 1, 1}, {2, 1}), f32({1, 1, 1}, {2})},
       relu("reverse")},
      {"a short row",
       "RNN",
       {x, one, one, kOmitted, i32({1}, {1}), f32({1, 1, 1}, {5})},
       {f32({2, 1, 1, 1}, {6, 0}), f32({1, 1, 1}, {6})},
       relu("forward")},
  });
  run_error_cases({
      {"weights", "LSTM", {x, one, one}, Code::InvalidInput, "W"},
      {"length",
       "RNN",
       {x, one, one, kOmitted, i32({1}, {3})},
       Code::InvalidInput,
       "sequence length 3"},
      {"activation",
       "RNN",
       {x, one, one},
       Code::Unsupported,
       "'Swish'",
       attrs({{"activations", Attr(std::vector<std::string>{"Swish"})}})},
  });
}

TEST(HostBoxes, SuppressionAndErrors) {
  const HostTensor boxes = f32({1, 3, 4}, {0, 0, 1, 1, 0, 0, 1, 0.9F, 2, 2, 3, 3});
  const HostTensor scores = f32({1, 1, 3}, {0.5F, 0.9F, 0.7F});
  run_cases({
      {"overlap",
       "NonMaxSuppression",
       {boxes, scores, i64({}, {3}), f32({}, {0.5F})},
       {i64({2, 3}, {0, 0, 1, 0, 0, 2})}},
      {"none wanted", "NonMaxSuppression", {boxes, scores}, {i64({0, 3}, {})}},
      {"share equal to the threshold",
       "NonMaxSuppression",
       {f32({1, 2, 4}, {0, 0, 1, 3, 0, 0, 1, 1.5F}), f32({1, 1, 2}, {1, 1}), i64({1}, {5}),
        f32({1}, {0.5F})},
       {i64({2, 3}, {0, 0, 0, 0, 0, 1})}},
      {"scores that are equal or no numbers",
       "NonMaxSuppression",
       {f32({1, 4, 4}, {0, 0, 1, 1, 3, 3, 4, 4, 6, 6, 7, 7, 9, 9, 8, 8}),
        f32({1, 1, 4}, {0, -0.0F, NAN, 0}), i64({}, {9})},
       {i64({4, 3}, {0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 0, 3})}},
      {"scores above the threshold",
       "NonMaxSuppression",
       {boxes, f32({1, 2, 3}, {NAN, 0.5F, 0.25F, 1, 1, 1}), i64({}, {9}), f32({}, {0.5F}),
        f32({}, {0.25F})},
       {i64({3, 3}, {0, 0, 1, 0, 1, 0, 0, 1, 2})}},
      {"boxes by their centres",
       "NonMaxSuppression",
       {f32({1, 3, 4}, {1, 1, 2, 2, 1.5F, 1, 2, 2, 1, 1, 0, 2}), f32({1, 1, 3}, {3, 2, 1}),
        i64({}, {9}), f32({}, {0.5F})},
       {i64({2, 3}, {0, 0, 0, 0, 0, 2})},
       attrs({{"center_point_box", int64_t{1}}})},
      {"as many rows as there may be",
       "SelectBoxes",
       {boxes, scores, i64({}, {7}), f32({}, {0.5F})},
       {i64({3, 3}, {0, 0, 1, 0, 0, 2, 0, 0, 0}), i32({1}, {2})},
       attrs({{"most", ints({3})}})},
      {"size of data", "CountedRows", {i32({1}, {2})}, {HostTensor(DType::Bool, {2, 0})}},
      {"target ignored",
       "NegativeLogLikelihoodLoss",
       {f32({2, 2}, {-1, -2, -3, -4}), i64({2}, {1, 9})},
       {f32({}, {2})},
       attrs({{"ignore_index", int64_t{9}}})},
  });
  run_error_cases({
      {"shapes",
       "NonMaxSuppression",
       {boxes, f32({1, 1, 2}, {1, 1})},
       Code::InvalidInput,
       "do not fit"},
      {"batch",
       "RoiAlign",
       {counting({1, 1, 2, 2}), f32({1, 4}, {0, 0, 1, 1}), i64({1}, {1})},
       Code::InvalidInput,
       "batch index 1"},
      {"target",
       "NegativeLogLikelihoodLoss",
       {f32({1, 2}, {0, 0}), i64({1}, {2})},
       Code::InvalidInput,
       "target 2"},
      {"grid",
       "GridSample",
       {counting({1, 1, 2, 2}), counting({1, 1, 1, 3})},
       Code::InvalidInput,
       "does not fit"},
  });
}

// Dims beside a zero dim may be anything; nothing may be allocated for them.
TEST(HostKernels, HugeDimsBesideZero) {
  const int64_t huge = int64_t{1} << 40;
  const HostTensor x = f32({0, huge}, {});
  run_cases({
      {"transpose", "Transpose", {x}, {f32({huge, 0}, {})}},
      {"softmax", "Softmax", {x}, {x}},
      {"gemm", "Gemm", {x, f32({huge, 0}, {})}, {f32({0, 0}, {})}},
  });
  run_error_cases({
      {"normalisation", "LayerNormalization", {x, f32({}, {1})}, Code::InvalidModel, "2^40"},
      {"reduction", "ReduceSum", {x}, Code::InvalidModel, "2^40", attrs({{"axes", ints({0})}})},
  });
}

TEST(HostKernels, NamesAreSortedUniqueAndFound) {
  const auto names = host::names();
  EXPECT_GT(names.size(), 180U);
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_NE(host::find(names[i]), nullptr) << names[i];
    if (i > 0) {
      EXPECT_LT(names[i - 1], names[i]);
    }
  }
  EXPECT_EQ(host::find("NoSuchOperator"), nullptr);
}

}  // namespace
}  // namespace reprise::test
