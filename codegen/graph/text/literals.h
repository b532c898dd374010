// Parses the literals in a graph's text: dtypes, expressions, tensors and attributes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/graph/text/cursor.h"

namespace reprise::graph::text {

class Literals {
 public:
  /// `pool` has the constants that are written by hash, or is null. The arguments must outlive
  /// this.
  Literals(Cursor& in, const ConstantPool* pool, std::span<const Symbol> symbols)
      : in_(in), pool_(pool), symbols_(symbols) {}

  /// Parses `s`, which the caller has read.
  Result<Expr> expr(const std::string& s);
  /// Reads up to and including the closing bracket.
  Result<std::vector<Expr>> exprs(char close);
  Result<DType> dtype();
  /// float32[2]{1, 2} or float32[1000]#0123456789abcdef
  Result<HostTensor> tensor();
  /// Reads a tensor whose dtype the caller has read.
  Result<HostTensor> tensor_of(DType t);
  /// Reads what follows '<', up to and including '>'.
  Status attributes(AttrMap& attrs);

 private:
  /// "float32" or "seq(map(string,float32))", without spaces.
  Result<std::string> type_name(int depth = 0);
  Result<Attr> attribute();
  /// Reads a number. Its exponent may have a sign ("1e+10"), and '+' is not a word character.
  Status number_text(std::string& out);
  static bool is_real(const std::string& s) { return s.find_first_of(".en") != std::string::npos; }
  Result<Attr> number_attr(const std::string& s);
  Result<float> real(const std::string& s);
  Result<int64_t> integer(const std::string& s);
  /// [1, 2], [1.0, 2.0] or ["a", "b"]. The first item determines the type.
  Result<Attr> list();

  Cursor& in_;
  const ConstantPool* pool_;
  std::span<const Symbol> symbols_;
};

}  // namespace reprise::graph::text
