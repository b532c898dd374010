#include "apps/transcribe/network.h"

#include <cmath>
#include <utility>

#include "apps/transcribe/mel.h"

namespace transcribe {
namespace {

constexpr int64_t kMostBands = 256;  // of a spectrogram; models of Whisper have 80 or 128

using reprise::Dims;
using reprise::Graph;
using reprise::Tensor;

/// An attribute of integers: one, or a list.
struct Attribute {
  const char* name;
  std::vector<int64_t> values;
  bool is_list = false;
};

/// Adds nodes to a graph until something fails; the first error is kept.
class Network {
 public:
  Network(Graph graph, const WeightFile& weights, const Sizes& sizes)
      : sizes_(sizes), graph_(std::move(graph)), weights_(weights) {}

  std::vector<int32_t> nodes(const char* op, const std::vector<int32_t>& inputs, size_t outputs,
                             const std::vector<Attribute>& attributes) {
    std::vector<reprise_graph_attribute> raw;
    raw.reserve(attributes.size());
    for (const Attribute& a : attributes) {
      reprise_graph_attribute r = REPRISE_GRAPH_ATTRIBUTE_INIT;
      r.name = a.name;
      r.kind = a.is_list ? REPRISE_ATTRIBUTE_INTS : REPRISE_ATTRIBUTE_INT;
      r.count = a.values.size();
      r.ints = a.values.data();
      raw.push_back(r);
    }
    reprise_graph_node node = REPRISE_GRAPH_NODE_INIT;
    node.op = op;
    node.inputs = inputs.data();
    node.input_count = inputs.size();
    node.attributes = raw.data();
    node.attribute_count = raw.size();
    node.output_count = outputs;
    if (failed()) return std::vector<int32_t>(outputs, REPRISE_GRAPH_NONE);
    auto made = graph_.node(node);
    if (made) return std::move(*made);
    error_ = made.error();
    return std::vector<int32_t>(outputs, REPRISE_GRAPH_NONE);
  }
  int32_t node(const char* op, const std::vector<int32_t>& inputs,
               const std::vector<Attribute>& attributes = {}) {
    return nodes(op, inputs, 1, attributes).front();
  }
  template <typename T>
  int32_t constant(const std::vector<T>& values, const std::vector<int64_t>& dims) {
    return kept([&] { return graph_.constant(Tensor("", values.data(), Dims(dims)).raw()); });
  }
  int32_t scalar(float value) { return constant(std::vector<float>{value}, {}); }
  int32_t weight(const std::string& name, const std::vector<int64_t>& dims) {
    const Result<std::vector<float>> values = weights_.floats(name, dims);
    if (values) return constant(*values, dims);
    if (!failed()) error_ = values.error();
    return REPRISE_GRAPH_NONE;
  }
  int32_t input(const std::string& name, reprise_dtype dtype,
                const std::vector<std::string>& dims) {
    return kept([&] { return graph_.input(name, dtype, dims); });
  }
  void output(const std::string& name, int32_t value) {
    if (!failed()) error_ = graph_.output(name, value);
  }

  /// A product of rows by a matrix of weights [to, from], and a bias.
  int32_t linear(int32_t x, const std::string& name, int64_t from, int64_t to) {
    return node("Gemm", {x, weight(name + "/weight", {to, from}), weight(name + "/bias", {to})},
                {{"transB", {1}}});
  }
  int32_t norm(int32_t x, const std::string& name) {
    return node("LayerNormalization", {x, weight(name + "/gamma", {sizes_.width}),
                                       weight(name + "/beta", {sizes_.width})});
  }
  /// Rows [n, width] as [heads, n, head width].
  int32_t heads(int32_t x) {
    const int32_t dims = constant<int64_t>({-1, sizes_.heads, sizes_.head_width()}, {3});
    return node("Transpose", {node("Reshape", {x, dims})}, {{"perm", {1, 0, 2}, true}});
  }
  /// Parts of rows, each as heads.
  std::vector<int32_t> parts(int32_t x, int64_t count) {
    const std::vector<int32_t> rows =
        nodes("Split", {x}, static_cast<size_t>(count), {{"axis", {1}}, {"num_outputs", {count}}});
    std::vector<int32_t> out;
    out.reserve(rows.size());
    for (const int32_t part : rows) out.push_back(heads(part));
    return out;
  }
  /// What queries find among keys and values, as rows.
  int32_t attention(int32_t q, int32_t k, int32_t v) {
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes_.head_width())));
    const int32_t scores = node("MatMul", {node("Mul", {q, scalar(scale)}),
                                           node("Transpose", {k}, {{"perm", {0, 2, 1}, true}})});
    const int32_t found = node("MatMul", {node("Softmax", {scores}, {{"axis", {-1}}}), v});
    const int32_t rows = node("Transpose", {found}, {{"perm", {1, 0, 2}, true}});
    return node("Reshape", {rows, constant<int64_t>({-1, sizes_.width}, {2})});
  }
  int32_t add(int32_t a, int32_t b) { return node("Add", {a, b}); }
  /// The two layers at the end of each block, with what goes around them.
  int32_t feed_forward(int32_t x, const std::string& name) {
    const int64_t inner = weights_.dims(name + "/linear_0/bias").empty()
                              ? 0
                              : weights_.dims(name + "/linear_0/bias").front();
    const int32_t h =
        linear(norm(x, name + "/layer_norm"), name + "/linear_0", sizes_.width, inner);
    return add(x, linear(node("Gelu", {h}), name + "/linear_1", inner, sizes_.width));
  }

  bool failed() const { return error_.status != REPRISE_OK; }
  Result<Graph> take() {
    if (failed()) return error_;
    return std::move(graph_);
  }

 private:
  template <typename F>
  int32_t kept(const F& call) {
    if (failed()) return REPRISE_GRAPH_NONE;
    const Result<int32_t> value = call();
    if (value) return *value;
    error_ = value.error();
    return REPRISE_GRAPH_NONE;
  }

  Sizes sizes_;
  Graph graph_;
  const WeightFile& weights_;
  Error error_;
};

/// The log-mel spectrogram [1, bands, kFrames] of sound.
int32_t spectrogram(Network& n, int32_t audio, int64_t bands) {
  const int32_t sound = n.node("Reshape", {audio, n.constant<int64_t>({1, 1, -1}, {3})});
  const int32_t waves =
      n.node("Conv", {sound, n.constant(fourier_window(), {2 * kBins, 1, kWindow})},
             {{"strides", {kHop}, true}});
  // The power of a bin is the sum of two squares: each has the bin's weight.
  const std::vector<float> filters = mel_filters(bands);
  std::vector<float> twice;
  twice.reserve(2 * filters.size());
  for (auto row = filters.begin(); row != filters.end(); row += kBins)
    for (int i = 0; i < 2; ++i) twice.insert(twice.end(), row, row + kBins);
  const int32_t mel =
      n.node("MatMul", {n.constant(twice, {bands, 2 * kBins}), n.node("Mul", {waves, waves})});
  const int32_t natural = n.node("Log", {n.node("Max", {mel, n.scalar(1e-10F)})});
  const int32_t log = n.node("Mul", {natural, n.scalar(static_cast<float>(1 / std::log(10.0)))});
  const int32_t least = n.node("Sub", {n.node("ReduceMax", {log}), n.scalar(8)});
  const int32_t bounded = n.node("Max", {log, least});
  return n.node("Mul", {n.add(bounded, n.scalar(4)), n.scalar(0.25F)});
}

int32_t convolution(Network& n, int32_t x, const std::string& name, int64_t from, int64_t to,
                    int64_t stride) {
  const int32_t y =
      n.node("Conv", {x, n.weight(name + "/weight", {to, from, 3}), n.weight(name + "/bias", {to})},
             {{"pads", {1, 1}, true}, {"strides", {stride}, true}});
  return n.node("Gelu", {y});
}

std::string layer_name(const std::string& side, int64_t layer) {
  return side + "/layer_" + std::to_string(layer);
}

}  // namespace

std::string of_layer(const std::string& name, int64_t layer) {
  return name + "." + std::to_string(layer);
}

Result<Sizes> Sizes::of(const WeightFile& weights) {
  const auto dim = [&](const std::string& name, size_t axis) {
    const std::vector<int64_t> dims = weights.dims(name);
    return axis < dims.size() ? dims[axis] : 0;
  };
  const Result<int64_t> heads = weights.number("decoder/num_heads");
  if (!heads) return heads.error();
  Sizes s;
  s.heads = *heads;
  s.vocabulary = dim("decoder/embeddings/weight", 0);
  s.width = dim("decoder/embeddings/weight", 1);
  s.mel_bands = dim("encoder/conv1/weight", 1);
  s.positions = dim("encoder/position_encodings/encodings", 0);
  s.text_positions = dim("decoder/position_encodings/encodings", 0);
  while (!weights.dims(layer_name("decoder", s.layers) + "/ffn/linear_0/bias").empty()) ++s.layers;
  if (s.positions != kFrames / 2 || s.heads < 1 || s.width < 1 || s.width % s.heads != 0 ||
      s.vocabulary < 1 || s.mel_bands < 1 || s.mel_bands > kMostBands || s.text_positions < 8 ||
      s.layers < 1)
    return Error{REPRISE_INVALID_MODEL, "the weights are not those of a Whisper model for 30 s"};
  return s;
}

Result<Graph> encoder_graph(const WeightFile& weights, const Sizes& s) {
  Result<Graph> graph = Graph::create();
  if (!graph) return graph.error();
  Network n(std::move(*graph), weights, s);
  const int32_t audio = n.input("audio", REPRISE_F32, {std::to_string(kPadded)});
  int32_t x = spectrogram(n, audio, s.mel_bands);
  x = convolution(n, x, "encoder/conv1", s.mel_bands, s.width, 1);
  x = convolution(n, x, "encoder/conv2", s.width, s.width, 2);
  x = n.node("Reshape", {n.node("Transpose", {x}, {{"perm", {0, 2, 1}, true}}),
                         n.constant<int64_t>({s.positions, s.width}, {2})});
  x = n.add(x, n.weight("encoder/position_encodings/encodings", {s.positions, s.width}));
  for (int64_t i = 0; !weights.dims(layer_name("encoder", i) + "/ffn/linear_0/bias").empty(); ++i) {
    const std::string layer = layer_name("encoder", i), self = layer + "/self_attention";
    const std::vector<int32_t> qkv = n.parts(
        n.linear(n.norm(x, self + "/layer_norm"), self + "/linear_0", s.width, 3 * s.width), 3);
    x = n.add(x,
              n.linear(n.attention(qkv[0], qkv[1], qkv[2]), self + "/linear_1", s.width, s.width));
    x = n.feed_forward(x, layer + "/ffn");
  }
  x = n.norm(x, "encoder/layer_norm");
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string cross = layer_name("decoder", i) + "/attention";
    const std::vector<int32_t> kv =
        n.parts(n.linear(x, cross + "/linear_1", s.width, 2 * s.width), 2);
    n.output(of_layer("cross_k", i), kv[0]);
    n.output(of_layer("cross_v", i), kv[1]);
  }
  return n.take();
}

Result<Graph> decoder_graph(const WeightFile& weights, const Sizes& s) {
  Result<Graph> graph = Graph::create();
  if (!graph) return graph.error();
  if (Error e = graph->symbol("past", 0, s.text_positions - 1); e.status != REPRISE_OK) return e;
  Network n(std::move(*graph), weights, s);
  const std::string heads = std::to_string(s.heads), head = std::to_string(s.head_width());
  const int32_t token = n.input("token", REPRISE_I64, {"1"});
  const int32_t position = n.input("position", REPRISE_I64, {"1"});
  const auto cache = [&](const char* name, int64_t layer, const std::string& length) {
    return n.input(of_layer(name, layer), REPRISE_F32, {heads, length, head});
  };
  const int32_t embeddings = n.weight("decoder/embeddings/weight", {s.vocabulary, s.width});
  const int32_t places =
      n.weight("decoder/position_encodings/encodings", {s.text_positions, s.width});
  int32_t x = n.add(n.node("Gather", {embeddings, token}), n.node("Gather", {places, position}));
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = layer_name("decoder", i), self = layer + "/self_attention";
    const std::vector<int32_t> qkv = n.parts(
        n.linear(n.norm(x, self + "/layer_norm"), self + "/linear_0", s.width, 3 * s.width), 3);
    const int32_t k = n.node("Concat", {cache("past_k", i, "past"), qkv[1]}, {{"axis", {1}}});
    const int32_t v = n.node("Concat", {cache("past_v", i, "past"), qkv[2]}, {{"axis", {1}}});
    n.output(of_layer("present_k", i), k);
    n.output(of_layer("present_v", i), v);
    x = n.add(x, n.linear(n.attention(qkv[0], k, v), self + "/linear_1", s.width, s.width));
    const std::string cross = layer + "/attention";
    const std::string length = std::to_string(s.positions);
    const int32_t q =
        n.heads(n.linear(n.norm(x, cross + "/layer_norm"), cross + "/linear_0", s.width, s.width));
    const int32_t found = n.attention(q, cache("cross_k", i, length), cache("cross_v", i, length));
    x = n.add(x, n.linear(found, cross + "/linear_2", s.width, s.width));
    x = n.feed_forward(x, layer + "/ffn");
  }
  x = n.norm(x, "decoder/layer_norm");
  n.output("logits", n.node("Gemm", {x, embeddings}, {{"transB", {1}}}));
  return n.take();
}

}  // namespace transcribe
