// JSON documents that others wrote: configurations, tokenizers, headers of weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace reprise::formats {

/// Bounds of a document. A document takes about 40 bytes for each value, beside its text.
struct JsonLimits {
  size_t depth = 64;
  size_t bytes = size_t{256} << 20;
  size_t values = size_t{1} << 25;
};

/// A value in a document. Copies are cheap: all share the document, which lives as long as one of
/// them, and which nothing changes, so that several threads may read it. Texts that are returned as
/// views live as long as the document. Errors are Code::InvalidModel, and their messages begin with
/// the name of the document and the path of the value: "config.json: layers[3].size".
class Json {
 public:
  enum class Kind : unsigned char { Null, Boolean, Integer, Number, Text, Array, Object };

  /// `name` is that of the file, for messages. A member that an object has twice is an error, as
  /// is text that is not valid UTF-8.
  static Result<Json> parse(std::string_view text, std::string name, const JsonLimits& limits = {});
  /// Reads a file.
  static Result<Json> read(const std::string& path, const JsonLimits& limits = {});

  Kind kind() const;
  bool is(Kind k) const { return kind() == k; }
  /// The number of items of an array or of members of an object; otherwise 0.
  size_t size() const;
  /// The name of a member of an object; empty for other values.
  std::string_view key() const;

  /// The member of an object, or nothing if there is none, if it is null, or if this is no object.
  /// Takes time in proportion to the number of members.
  std::optional<Json> find(std::string_view key) const;
  /// The member of an object, which may be null.
  Result<Json> at(std::string_view key) const;

  /// The value, which must be of that kind. An integer is also a number.
  Result<std::string_view> text() const;
  Result<int64_t> integer() const;
  Result<int64_t> integer(int64_t min, int64_t max) const;
  Result<double> number() const;
  Result<bool> boolean() const;
  /// The value itself, which must be an array or an object.
  Result<Json> array() const;
  Result<Json> object() const;

  /// Member `key`, or `otherwise` if it is absent or null. This must be an object.
  Result<std::string> text_or(std::string_view key, std::string_view otherwise) const;
  Result<int64_t> integer_or(std::string_view key, int64_t otherwise) const;
  Result<double> number_or(std::string_view key, double otherwise) const;
  Result<bool> boolean_or(std::string_view key, bool otherwise) const;

  /// The items of an array or the members of an object, in the order of the text:
  /// `for (const Json& item : value.items())`.
  class Iterator;
  struct Items;
  Items items() const;

  /// Where the value stands, as in messages.
  std::string path() const;
  Status error(const std::string& what) const;

 private:
  struct Node;
  struct Document;
  class Reader;
  Json(std::shared_ptr<const Document> document, size_t at)
      : document_(std::move(document)), at_(at) {}
  const Node& node() const;
  Status expected(const char* what) const;
  Result<std::optional<Json>> member(std::string_view key) const;

  std::shared_ptr<const Document> document_;
  size_t at_ = 0;
};

class Json::Iterator {
 public:
  Json operator*() const { return {parent_->document_, at_}; }
  Iterator& operator++();
  bool operator!=(const Iterator& o) const { return at_ != o.at_; }

 private:
  friend class Json;
  Iterator(const Json* parent, size_t at) : parent_(parent), at_(at) {}
  const Json* parent_;
  size_t at_;
};

struct Json::Items {
  Json parent;
  Iterator begin() const;
  Iterator end() const;
};

}  // namespace reprise::formats
