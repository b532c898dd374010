// The spelling of names, strings and numbers, for print.cpp and parse.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/tensor.h"
#include "runtime/operators/attrs.h"

namespace reprise::graph::text {

/// Constants with more elements are written by hash.
inline constexpr int64_t kMaxInlineElements = 16;

bool is_word_char(char c);
/// Whether the word begins a statement. A name that does is quoted.
bool is_keyword(std::string_view word);
std::string quoted(std::string_view s);
/// The name, quoted only if necessary.
std::string name(std::string_view s);
/// The shortest text that reads back to the same value. It has a '.', 'e', "inf" or "nan".
std::string real(double v);
std::string real(float v);

/// False for NaNs with a payload, which decimal text cannot represent.
bool prints_exactly(const HostTensor& t);
/// "1, 2, 3"
std::string contents(const HostTensor& t);
/// The value of an attribute. `tensor` formats a value that is a tensor.
std::string attribute(const Attr& a, std::span<const Symbol> symbols,
                      const std::function<std::string(const HostTensor&)>& tensor);
/// Expressions, separated by commas.
std::string exprs(const std::vector<Expr>& list, std::span<const Symbol> symbols);
/// Parses the items of contents() into a tensor with these dims.
Result<HostTensor> read_contents(DType dtype, std::vector<int64_t> dims,
                                 const std::vector<std::string>& items);
Result<double> read_real(std::string_view s);

}  // namespace reprise::graph::text
