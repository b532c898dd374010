// Steps of a model whose caches grow need no memory of the heap either.
#include "allocations.h"
#include "codegen/compile/compiler.h"
#include "support.h"

namespace reprise::test {
namespace {

/// Attention with a cache and a mask. Names are longer than strings that need no memory.
constexpr const char* kDecoder = R"(graph decoder
input the_hidden_states_of_the_tokens: float32[batch,step,8]
input past_key_values.0.key_of_the_cache: float32[batch,2,past,4]
input past_key_values.0.value_of_the_cache: float32[batch,2,past,4]
input attention_mask_of_all_positions: float32[batch,1,1,past + step]
const heads: int64[4]{0,0,2,4}
const joined: int64[3]{0,0,8}
const two: float32[]{2}
s: float32[batch,step,2,4] = Reshape(the_hidden_states_of_the_tokens, heads) @14
q: float32[batch,2,step,4] = Transpose<perm=[0, 2, 1, 3]>(s) @13
k: float32[batch,2,step,4] = Mul(q, two) @14
v: float32[batch,2,step,4] = Sin(q) @14
present_key: float32[batch,2,past + step,4] = Concat<axis=2>(past_key_values.0.key_of_the_cache, k) @13
present_value: float32[batch,2,past + step,4] = Concat<axis=2>(past_key_values.0.value_of_the_cache, v) @13
kt: float32[batch,2,4,past + step] = Transpose<perm=[0, 1, 3, 2]>(present_key) @13
scores: float32[batch,2,step,past + step] = MatMul(q, kt) @13
masked: float32[batch,2,step,past + step] = Add(scores, attention_mask_of_all_positions) @14
weights: float32[batch,2,step,past + step] = Softmax<axis=-1>(masked) @13
a: float32[batch,2,step,4] = MatMul(weights, present_value) @13
t: float32[batch,step,2,4] = Transpose<perm=[0, 2, 1, 3]>(a) @13
y: float32[batch,step,8] = Reshape(t, joined) @14
const one: int64[1]{1}
shifted: float32[batch,2,step,past + step] = Sin(masked) @14
(largest, where_the_largest_is) = TopK<axis=-1>(shifted, one) @11
output y
output largest
output present_key
output present_value
)";

std::shared_ptr<package::Package> compiled(const std::vector<std::string>& plans) {
  auto g = graph::parse(kDecoder);
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return nullptr;
  CompileOptions options;
  options.grow_states = "auto";
  options.plans = *parse_plans(plans);
  auto p = compile(*std::move(g), options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return p.ok() ? std::make_shared<package::Package>(*std::move(p)) : nullptr;
}

reprise_tensor tensor(const char* name, std::vector<float>& v, const std::vector<int64_t>& dims) {
  reprise_tensor t = REPRISE_TENSOR_INIT;
  t.name = name;
  t.rank = static_cast<uint32_t>(dims.size());
  std::ranges::copy(dims, t.dims);
  t.data = v.data();
  t.bytes = v.size() * sizeof(float);
  return t;
}

struct Decoder {
  explicit Decoder(const std::string& id, const std::vector<std::string>& plans)
      : package(capi::make_handle(std::make_shared<reprise_package>(compiled(plans)))) {
    reprise_device* opened = nullptr;
    EXPECT_EQ(reprise_device_open(id.c_str(), nullptr, &opened, &error), REPRISE_OK)
        << error.message;
    device.reset(opened);
    reprise_session* made = nullptr;
    EXPECT_EQ(reprise_session_create(package.get(), opened, nullptr, &made, &error), REPRISE_OK)
        << error.message;
    session.reset(made);
  }
  /// What a run on `rows` new rows takes from the heap.
  uint64_t step(int64_t rows) {
    std::vector<float> x(static_cast<size_t>(8 * rows), 0.25F), y(x.size()),
        mask(static_cast<size_t>(past + rows)), most(static_cast<size_t>(2 * rows));
    reprise_tensor in[] = {tensor("the_hidden_states_of_the_tokens", x, {1, rows, 8}),
                           tensor("attention_mask_of_all_positions", mask, {1, 1, 1, past + rows})};
    reprise_tensor out[] = {tensor("y", y, {}), tensor("largest", most, {})};
    past += rows;
    reprise_status status = REPRISE_INTERNAL;
    const CountAllocations counting;
    status = reprise_session_run(session.get(), in, 2, out, 2, nullptr, nullptr, &error);
    const uint64_t taken = counting.count();
    EXPECT_EQ(status, REPRISE_OK) << error.message;
    return taken;
  }
  uint64_t recordings() {
    reprise_session_info info = REPRISE_SESSION_INFO_INIT;
    EXPECT_EQ(reprise_session_get_info(session.get(), &info, &error), REPRISE_OK);
    return info.recordings;
  }

  reprise_error error{};
  Owned<reprise_package> package;
  Owned<reprise_device> device;
  Owned<reprise_session> session;
  int64_t past = 0;
};

class GrowingAllocation : public testing::TestWithParam<std::string> {};

TEST_P(GrowingAllocation, AStepTakesNothingFromTheHeap) {
  for (const std::vector<std::string>& plans :
       {std::vector<std::string>{"none"}, std::vector<std::string>{"step=1"}}) {
    SCOPED_TRACE(plans[0]);
    Decoder decoder(GetParam(), plans);
    ASSERT_TRUE(decoder.session);
    ASSERT_EQ(reprise_session_reserve_states(decoder.session.get(), nullptr, 400, &decoder.error),
              REPRISE_OK)
        << decoder.error.message;
    decoder.step(300);
    for (int warm = 0; warm < 2; ++warm) decoder.step(1);
    const uint64_t recordings = decoder.recordings();
    for (int i = 0; i < 40; ++i) EXPECT_EQ(decoder.step(1), 0U) << "step " << i;
    EXPECT_EQ(decoder.recordings(), recordings);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, GrowingAllocation, testing::ValuesIn(soak_devices()), id_as_name);

}  // namespace
}  // namespace reprise::test
