// Writes nodes with a builder. The first error is kept, and what follows it does nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/builder/graph_builder.h"

namespace reprise::families {

class Nodes {
 public:
  using Value = builder::Value;
  using Values = std::vector<Value>;

  explicit Nodes(builder::GraphBuilder& b) : b_(b) {}

  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  void fail(const Status& s) {
    if (ok()) status_ = s;
  }
  builder::GraphBuilder& builder() { return b_; }

  /// The value of a result, or kOmitted after an error.
  template <typename T>
  T take(Result<T> r, T otherwise = {}) {
    if (r.ok()) return *std::move(r);
    fail(r.status());
    return otherwise;
  }

  Value op(const char* op, Values inputs, AttrMap attrs = {});
  Values all(const char* op, Values inputs, AttrMap attrs, size_t outputs);
  Value core(const builder::CoreNode& n);

  Value constant(const std::string& name, HostTensor t);
  Value number(float v);
  Value sizes(const std::vector<Expr>& dims, bool scalar = false);
  Value reshape(Value v, const std::vector<Expr>& dims);
  Value add(Value a, Value b) { return op("Add", {a, b}); }
  Value mul(Value a, Value b) { return op("Mul", {a, b}); }
  Value transpose(Value v, const std::vector<int64_t>& perm);

 private:
  builder::GraphBuilder& b_;
  Status status_;
};

}  // namespace reprise::families
