// Makes model files by hand for tests, through the importer's generated classes.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/onnx/importer.h"
#include "codegen/onnx/onnx_minimal.pb.h"

namespace reprise::onnx::test {

inline constexpr int kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kString = 8,
                     kBool = 9, kFloat16 = 10;

/// A dimension: a number, or a name ("" for an unnamed one).
struct Dim {
  Dim(int v) : value(v) {}          // NOLINT(google-explicit-constructor)
  Dim(const char* p) : param(p) {}  // NOLINT(google-explicit-constructor)
  int64_t value = INT64_MIN;
  std::string param;
};

void set_value(wire::ValueInfo& v, const std::string& name, int type,
               std::initializer_list<Dim> dims);
void set_tensor(wire::Tensor& t, const std::string& name, int type, std::vector<int64_t> dims);
void add_float(wire::Graph& g, const std::string& name, const std::vector<float>& v);
void add_int64(wire::Graph& g, const std::string& name, const std::vector<int64_t>& v);
wire::Attribute* attribute(wire::Node* n, const std::string& name, int type);
wire::Node* fill(wire::Node* n, const std::string& op, std::vector<std::string> in,
                 std::vector<std::string> out, const std::string& name = "");

/// A model with the default domain at an opset, to which tests add.
struct Model {
  explicit Model(int64_t opset = 17);
  wire::Graph& graph() { return *proto.mutable_graph(); }
  Model& input(const std::string& name, int type, std::initializer_list<Dim> dims);
  Model& output(const std::string& name, int type, std::initializer_list<Dim> dims);
  Model& output(const std::string& name);  // without a type
  wire::Node* node(const std::string& op, std::vector<std::string> in, std::vector<std::string> out,
                   const std::string& name = "");
  Model& opset(const std::string& domain, int64_t version);
  std::string bytes() const { return proto.SerializeAsString(); }
  wire::Model proto;
};

/// x: float32[2,3] -> Relu -> y
Model relu_model();

Result<std::unique_ptr<graph::Graph>> import(const std::string& bytes, const ImportOptions& o = {});
/// The imported graph's text, or the error's message.
std::string imported(const Model& m, const ImportOptions& o = {});

}  // namespace reprise::onnx::test
