// Files in the format GGUF, versions 2 and 3: metadata and tensors, which stay where they are in
// the file. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::formats {

/// The types of tensors, with the numbers of the format. Numbers that are missing are those of
/// types that the format has given up.
enum class GgufType : uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q8_1 = 9,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  Q8_K = 15,
  IQ2_XXS = 16,
  IQ2_XS = 17,
  IQ3_XXS = 18,
  IQ1_S = 19,
  IQ4_NL = 20,
  IQ3_S = 21,
  IQ2_S = 22,
  IQ4_XS = 23,
  I8 = 24,
  I16 = 25,
  I32 = 26,
  I64 = 27,
  F64 = 28,
  IQ1_M = 29,
  BF16 = 30,
  TQ1_0 = 34,
  TQ2_0 = 35,
  MXFP4 = 39,
};

struct GgufTypeTraits {
  GgufType type;
  const char* name;      // "Q4_0"
  uint32_t block;        // elements that are stored together; 1 for types without blocks
  uint32_t block_bytes;  // bytes of such a block
};

/// Null for a number that is no type.
const GgufTypeTraits* gguf_type_traits(uint32_t number);
inline const GgufTypeTraits& gguf_type_traits(GgufType type) {
  return *gguf_type_traits(static_cast<uint32_t>(type));
}

/// The types of metadata, with the numbers of the format.
enum class GgufKind : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  Text,
  Array,
  U64,
  I64,
  F64
};

/// A value of the metadata. It refers to the memory of the file. An array of arrays is refused.
class GgufValue {
 public:
  GgufKind kind() const { return kind_; }
  /// Of the items of an array.
  GgufKind item_kind() const { return item_kind_; }
  /// The number of items of an array; 1 for other values.
  size_t size() const { return count_; }

  /// Item `index` of an array, or the value itself with index 0. Nothing if the index or the kind
  /// is wrong; integers of every width and sign are integers, and integers and floats are
  /// numbers.
  std::optional<std::string_view> text(size_t index = 0) const;
  std::optional<int64_t> integer(size_t index = 0) const;
  std::optional<double> number(size_t index = 0) const;
  std::optional<bool> boolean(size_t index = 0) const;

 private:
  friend class GgufReader;
  GgufKind kind_ = GgufKind::U8;
  GgufKind item_kind_ = GgufKind::U8;
  size_t count_ = 1;
  const std::byte* bytes_ = nullptr;  // of the first item, which need not be aligned
  std::vector<uint64_t> texts_;       // where each text of an array begins, from bytes_ on
};

struct GgufTensor {
  std::string_view name;
  GgufType type = GgufType::F32;
  /// As in the file: the first dimension is the one whose elements are adjacent.
  std::array<uint64_t, 4> dims{1, 1, 1, 1};
  size_t rank = 0;
  uint64_t count = 0;  // of elements
  /// From the beginning of the file on.
  uint64_t offset = 0;
  /// In the memory of the file, aligned to the file's alignment.
  std::span<const std::byte> bytes;
};

/// A file that has been read and checked as a whole: all lengths, names, types and places. Nothing
/// changes it, so several threads may use it. Names, texts and bytes refer to its memory.
class Gguf {
 public:
  /// Maps the file into memory. Messages name the path.
  static Result<Gguf> open(const std::string& path);
  /// `bytes` must live as long as `owner` does. `name` is for messages.
  static Result<Gguf> parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                            std::string name);

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  /// In the order of the file.
  std::span<const std::pair<std::string_view, GgufValue>> metadata() const { return metadata_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  /// Null if there is none of that name.
  const GgufValue* find(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;

  /// The value of a key, which must be there and of that kind. Errors name file and key.
  Result<std::string_view> text(std::string_view key) const;
  Result<int64_t> integer(std::string_view key) const;
  Result<double> number(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  /// An array, whose items must be texts or must not be.
  Result<const GgufValue*> texts(std::string_view key) const;
  Result<const GgufValue*> numbers(std::string_view key) const;
  /// The same, with a value for files without the key.
  Result<std::string_view> text_or(std::string_view key, std::string_view otherwise) const;
  Result<int64_t> integer_or(std::string_view key, int64_t otherwise) const;
  Result<double> number_or(std::string_view key, double otherwise) const;
  Result<bool> boolean_or(std::string_view key, bool otherwise) const;

  /// What the memory belongs to.
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  friend class GgufReader;
  Result<const GgufValue*> require(std::string_view key) const;
  Result<const GgufValue*> array(std::string_view key, bool of_texts) const;
  Status wrong_kind(std::string_view key, const char* expected) const;

  std::string name_;
  std::shared_ptr<const void> owner_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> keys_, names_;
};

}  // namespace reprise::formats
