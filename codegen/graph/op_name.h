// Interned operator names.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::graph {

/// An interned operator name. Equal names share one pointer, so comparison and table lookup read no
/// text. Names are never freed: a reader of untrusted models must look an operator up by its text
/// before it interns the name. Several threads may intern names.
class OpName {
 public:
  OpName() = default;  // ""
  OpName(std::string_view text) : entry_(intern(text)) {}
  OpName(const std::string& text) : OpName(std::string_view(text)) {}
  OpName(const char* text) : OpName(std::string_view(text)) {}

  bool empty() const { return entry_ == nullptr; }
  const std::string& str() const;
  operator const std::string&() const { return str(); }
  operator std::string_view() const { return str(); }
  /// A small number that is unique to the name, usable as an index. It is 0 for "".
  size_t number() const { return entry_ == nullptr ? 0 : entry_->number; }

  friend bool operator==(OpName a, OpName b) { return a.entry_ == b.entry_; }
  /// Compares text without interning it.
  template <std::convertible_to<std::string_view> Text>
  requires(!std::same_as<Text, OpName>) friend bool operator==(OpName a, const Text& b) {
    return std::string_view(a) == std::string_view(b);
  }
  friend std::string operator+(std::string a, OpName b) { return std::move(a) + b.str(); }
  friend std::string operator+(OpName a, std::string_view b) { return a.str() + std::string(b); }

 private:
  struct Entry {
    std::string text;
    size_t number;
  };
  static const Entry* intern(std::string_view text);

  const Entry* entry_ = nullptr;
};

}  // namespace reprise::graph
