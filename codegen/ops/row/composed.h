// Operators that are written in other operators as a model would write them: in the form of a
// version of ONNX, with its defaults and its checks.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/ops/row/op_builder.h"

namespace reprise::ops {

inline constexpr std::string_view kMicrosoft = "com.microsoft";

class Composer : public OpBuilder {
 public:
  /// The version whose form nodes have unless they name another.
  static constexpr int64_t kOpset = 21;

  using OpBuilder::OpBuilder;

  /// Input i, or kNone if it is omitted.
  V input(size_t i) { return has(i) ? in(i) : graph::kNone; }
  /// Adds a node of ai.onnx in the form of a version, and returns its first output.
  V model(const std::string& op, std::vector<V> inputs, AttrMap attrs = {}, int64_t opset = kOpset);
  /// The same for an operator with several outputs; returns all of them, or as many of kNone.
  std::vector<V> model_all(const std::string& op, std::vector<V> inputs, AttrMap attrs,
                           size_t outputs, int64_t opset = kOpset);
  /// Adds a node of com.microsoft, and returns its first output.
  V microsoft(const std::string& op, std::vector<V> inputs, AttrMap attrs = {});
  std::vector<V> microsoft_all(const std::string& op, std::vector<V> inputs, AttrMap attrs,
                               size_t outputs);
  /// The attributes of the node that have these names and are present.
  AttrMap given(std::initializer_list<std::string_view> names);
  /// A tensor [batch, channels, spatial...] with the channels last, and the reverse.
  V channels_last(V v);
  V channels_first(V v);
  /// Applies an activation that ONNX Runtime fuses into the operator before it. "": none. Its
  /// parameters are in the order in which ONNX declares its attributes; they may be absent.
  V activated(V v, const std::string& activation, const std::vector<float>& parameters);
  /// Fails with a message about the node.
  void refuse(Code code, const std::string& message);
  /// The integers of a constant input. Fails if it depends on data.
  std::vector<int64_t> constant_ints(size_t input, const std::string& what);

 private:
  std::vector<V> add_node(graph::NodeSpec spec, size_t outputs);
};

AttrMap attributes(std::initializer_list<std::pair<const char*, Attr>> list);

/// OpDef::infer of an operator whose outputs have the types that its decomposition gives them. The
/// decomposition must not ask for the types of the outputs, always replaces the node, and checks
/// what the nodes that it adds do not check.
Status infer_composed(InferContext& ctx);

}  // namespace reprise::ops
