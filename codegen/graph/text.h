// What print.cpp and parse.cpp share: the spelling of names, strings and numbers.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/attrs.h"
#include "runtime/base/tensor.h"

namespace reprise::graph::text {

/// Larger constants are written by hash.
inline constexpr int64_t kMaxInlineElements = 16;

bool is_word_char(char c);
/// Words that begin a statement are quoted when they are names.
bool is_keyword(std::string_view word);
std::string quoted(std::string_view s);
/// Bare when possible, else quoted.
std::string name(std::string_view s);
/// Shortest text that reads back to the same value; always has a '.', 'e', "inf" or "nan".
std::string real(double v);
std::string real(float v);

/// False for NaNs with a payload, which decimal text cannot keep.
bool prints_exactly(const HostTensor& t);
/// "1, 2, 3"
std::string contents(const HostTensor& t);
/// An attribute's value; `tensor` writes one that is a tensor.
std::string attribute(const Attr& a, std::span<const Symbol> symbols,
                      const std::function<std::string(const HostTensor&)>& tensor);
/// Expressions with commas between them.
std::string exprs(const std::vector<Expr>& list, std::span<const Symbol> symbols);
/// Reads the comma-separated items of contents() into a tensor of these dims.
Result<HostTensor> read_contents(DType dtype, std::vector<int64_t> dims,
                                 const std::vector<std::string>& items);
Result<double> read_real(std::string_view s);

}  // namespace reprise::graph::text
