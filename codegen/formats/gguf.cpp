#include "codegen/formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "codegen/formats/quoted.h"
#include "runtime/platform/file.h"

namespace reprise::formats {

namespace {

constexpr GgufTypeTraits kTypes[] = {
    {GgufType::F32, "F32", 1, 4},
    {GgufType::F16, "F16", 1, 2},
    {GgufType::Q4_0, "Q4_0", 32, 18},
    {GgufType::Q4_1, "Q4_1", 32, 20},
    {GgufType::Q5_0, "Q5_0", 32, 22},
    {GgufType::Q5_1, "Q5_1", 32, 24},
    {GgufType::Q8_0, "Q8_0", 32, 34},
    {GgufType::Q8_1, "Q8_1", 32, 36},
    {GgufType::Q2_K, "Q2_K", 256, 84},
    {GgufType::Q3_K, "Q3_K", 256, 110},
    {GgufType::Q4_K, "Q4_K", 256, 144},
    {GgufType::Q5_K, "Q5_K", 256, 176},
    {GgufType::Q6_K, "Q6_K", 256, 210},
    {GgufType::Q8_K, "Q8_K", 256, 292},
    {GgufType::IQ2_XXS, "IQ2_XXS", 256, 66},
    {GgufType::IQ2_XS, "IQ2_XS", 256, 74},
    {GgufType::IQ3_XXS, "IQ3_XXS", 256, 98},
    {GgufType::IQ1_S, "IQ1_S", 256, 50},
    {GgufType::IQ4_NL, "IQ4_NL", 32, 18},
    {GgufType::IQ3_S, "IQ3_S", 256, 110},
    {GgufType::IQ2_S, "IQ2_S", 256, 82},
    {GgufType::IQ4_XS, "IQ4_XS", 256, 136},
    {GgufType::I8, "I8", 1, 1},
    {GgufType::I16, "I16", 1, 2},
    {GgufType::I32, "I32", 1, 4},
    {GgufType::I64, "I64", 1, 8},
    {GgufType::F64, "F64", 1, 8},
    {GgufType::IQ1_M, "IQ1_M", 256, 56},
    {GgufType::BF16, "BF16", 1, 2},
    {GgufType::TQ1_0, "TQ1_0", 256, 54},
    {GgufType::TQ2_0, "TQ2_0", 256, 66},
    {GgufType::MXFP4, "MXFP4", 32, 17},
};

constexpr uint32_t kKinds = 13;
constexpr uint64_t kMostAlignment = uint64_t{1} << 24;

/// Bytes of a value of a kind without parts; 0 for texts and arrays.
constexpr size_t kind_bytes(GgufKind kind) {
  switch (kind) {
    case GgufKind::U8:
    case GgufKind::I8:
    case GgufKind::Bool:
      return 1;
    case GgufKind::U16:
    case GgufKind::I16:
      return 2;
    case GgufKind::U32:
    case GgufKind::I32:
    case GgufKind::F32:
      return 4;
    case GgufKind::U64:
    case GgufKind::I64:
    case GgufKind::F64:
      return 8;
    case GgufKind::Text:
    case GgufKind::Array:
      break;
  }
  return 0;
}

template <typename T>
T load(const std::byte* at) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), at, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

}  // namespace

const GgufTypeTraits* gguf_type_traits(uint32_t number) {
  const auto* at = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) {
    return static_cast<uint32_t>(t.type) == number;
  });
  return at == std::end(kTypes) ? nullptr : at;
}

std::optional<std::string_view> GgufValue::text(size_t index) const {
  if (item_kind_ != GgufKind::Text || index >= count_) return std::nullopt;
  const std::byte* at = bytes_ + (texts_.empty() ? 0 : texts_[index]);
  return std::string_view(reinterpret_cast<const char*>(at) + 8, load<uint64_t>(at));
}

std::optional<int64_t> GgufValue::integer(size_t index) const {
  if (index >= count_) return std::nullopt;
  const std::byte* at = bytes_ + index * kind_bytes(item_kind_);
  switch (item_kind_) {
    case GgufKind::U8:
      return load<uint8_t>(at);
    case GgufKind::I8:
      return load<int8_t>(at);
    case GgufKind::U16:
      return load<uint16_t>(at);
    case GgufKind::I16:
      return load<int16_t>(at);
    case GgufKind::U32:
      return load<uint32_t>(at);
    case GgufKind::I32:
      return load<int32_t>(at);
    case GgufKind::I64:
      return load<int64_t>(at);
    case GgufKind::U64: {
      const auto value = load<uint64_t>(at);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> GgufValue::number(size_t index) const {
  if (index >= count_) return std::nullopt;
  const std::byte* at = bytes_ + index * kind_bytes(item_kind_);
  if (item_kind_ == GgufKind::F32) return load<float>(at);
  if (item_kind_ == GgufKind::F64) return load<double>(at);
  if (item_kind_ == GgufKind::U64) return static_cast<double>(load<uint64_t>(at));
  const std::optional<int64_t> value = integer(index);
  return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
}

std::optional<bool> GgufValue::boolean(size_t index) const {
  if (item_kind_ != GgufKind::Bool || index >= count_) return std::nullopt;
  return bytes_[index] != std::byte{0};
}

/// Reads a file from its beginning to the end of the directory of tensors. Each length is checked
/// against what is left of the file before anything depends on it.
class GgufReader {
 public:
  GgufReader(std::span<const std::byte> file, Gguf& out) : file_(file), out_(out) {}

  Status read() {
    RP_TRY(read_header());
    for (uint64_t i = 0; i < keys_; ++i) RP_TRY(read_metadata(i));
    RP_TRY(read_alignment());
    for (uint64_t i = 0; i < tensors_; ++i) RP_TRY(read_tensor(i));
    return place_tensors();
  }

 private:
  uint64_t left() const { return file_.size() - at_; }

  Status need(uint64_t bytes, const std::string& what) const {
    if (bytes <= left()) return {};
    return invalid_model("the file ends in " + what + ": " + std::to_string(bytes) +
                         " bytes are needed from byte " + std::to_string(at_) + " on, but only " +
                         std::to_string(left()) + " are there");
  }

  template <typename T>
  Result<T> take(const std::string& what) {
    RP_TRY(need(sizeof(T), what));
    const T value = load<T>(file_.data() + at_);
    at_ += sizeof(T);
    return value;
  }

  Result<std::string_view> take_text(const std::string& what) {
    RP_ASSIGN(const uint64_t size, take<uint64_t>(what));
    RP_TRY(need(size, what));
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + at_, size);
    at_ += size;
    return text;
  }

  Status read_header() {
    static constexpr std::string_view kMagic = "GGUF";
    if (file_.size() < 4 || std::memcmp(file_.data(), kMagic.data(), 4) != 0)
      return invalid_model("this is not a GGUF file: it does not begin with 'GGUF'");
    at_ = 4;
    RP_ASSIGN(out_.version_, take<uint32_t>("the version"));
    if ((out_.version_ & 0xFFFF) == 0) {
      return unsupported(
          "the file is for machines whose numbers begin with the most significant byte; convert it "
          "on such a machine");
    }
    if (out_.version_ != 2 && out_.version_ != 3) {
      return unsupported("version " + std::to_string(out_.version_) +
                         " of the format is not supported, only 2 and 3; convert the model again");
    }
    RP_ASSIGN(tensors_, take<uint64_t>("the number of tensors"));
    RP_ASSIGN(keys_, take<uint64_t>("the number of keys"));
    // A key takes at least 13 bytes and a tensor at least 24.
    if (keys_ > left() / 13 || tensors_ > left() / 24) {
      return invalid_model("the file says that it has " + std::to_string(keys_) + " keys and " +
                           std::to_string(tensors_) + " tensors, more than fit in its " +
                           std::to_string(file_.size()) + " bytes");
    }
    return {};
  }

  Result<GgufKind> take_kind(const std::string& what) {
    RP_ASSIGN(const uint32_t number, take<uint32_t>(what));
    if (number < kKinds) return static_cast<GgufKind>(number);
    return invalid_model(what + " has type " + std::to_string(number) + ", but types are 0 to 12");
  }

  Status read_metadata(uint64_t index) {
    RP_ASSIGN(const std::string_view key, take_text("key " + std::to_string(index)));
    const std::string what = "the value of key " + quoted(key);
    if (key.empty()) return invalid_model("key " + std::to_string(index) + " is empty");
    GgufValue value;
    RP_ASSIGN(value.kind_, take_kind(what));
    value.item_kind_ = value.kind_;
    if (value.kind_ == GgufKind::Array) {
      RP_ASSIGN(value.item_kind_, take_kind(what));
      if (value.item_kind_ == GgufKind::Array)
        return unsupported(what + " is an array of arrays, which is not supported");
      RP_ASSIGN(value.count_, take<uint64_t>(what));
    }
    RP_TRY(read_items(value, what));
    if (!out_.keys_.emplace(key, out_.metadata_.size()).second)
      return invalid_model("key " + quoted(key) + " is there twice");
    out_.metadata_.emplace_back(key, std::move(value));
    return {};
  }

  Status read_items(GgufValue& value, const std::string& what) {
    value.bytes_ = file_.data() + at_;
    const uint64_t count = value.count_;
    if (value.item_kind_ != GgufKind::Text) {
      const uint64_t each = kind_bytes(value.item_kind_);
      if (count > left() / each) return need(std::numeric_limits<uint64_t>::max(), what);
      if (value.item_kind_ == GgufKind::Bool) RP_TRY(check_booleans(count, what));
      at_ += count * each;
      return {};
    }
    if (count > left() / 8) return need(std::numeric_limits<uint64_t>::max(), what);
    const uint64_t begin = at_;
    if (value.kind_ == GgufKind::Array) value.texts_.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      if (value.kind_ == GgufKind::Array) value.texts_.push_back(at_ - begin);
      const auto text = take_text(what);
      if (!text.ok()) return text.status();
    }
    return {};
  }

  Status check_booleans(uint64_t count, const std::string& what) const {
    for (uint64_t i = 0; i < count; ++i) {
      if (file_[at_ + i] > std::byte{1})
        return invalid_model(what + " has a boolean that is neither 0 nor 1");
    }
    return {};
  }

  Status read_alignment() {
    RP_ASSIGN(const int64_t value, out_.integer_or("general.alignment", 32));
    if (value < 1 || static_cast<uint64_t>(value) > kMostAlignment ||
        !std::has_single_bit(static_cast<uint64_t>(value))) {
      return invalid_model("general.alignment is " + std::to_string(value) +
                           ", but must be a power of two of at most " +
                           std::to_string(kMostAlignment));
    }
    out_.alignment_ = static_cast<uint64_t>(value);
    return {};
  }

  Status read_tensor(uint64_t index) {
    GgufTensor t;
    RP_ASSIGN(t.name, take_text("the name of tensor " + std::to_string(index)));
    const std::string what = "tensor " + quoted(t.name);
    if (t.name.empty()) return invalid_model("tensor " + std::to_string(index) + " has no name");
    RP_ASSIGN(const uint32_t rank, take<uint32_t>(what));
    if (rank > t.dims.size())
      return invalid_model(what + " has " + std::to_string(rank) + " dimensions, but 4 are most");
    t.rank = rank;
    for (size_t d = 0; d < rank; ++d) {
      RP_ASSIGN(t.dims[d], take<uint64_t>(what));
    }
    RP_ASSIGN(const uint32_t type, take<uint32_t>(what));
    RP_ASSIGN(t.offset, take<uint64_t>(what));
    const GgufTypeTraits* traits = gguf_type_traits(type);
    if (traits == nullptr)
      return unsupported(what + " has type " + std::to_string(type) + ", which is not known");
    t.type = traits->type;
    RP_TRY(set_sizes(t, *traits, what));
    if (!out_.names_.emplace(t.name, out_.tensors_.size()).second)
      return invalid_model(what + " is there twice");
    out_.tensors_.push_back(t);
    return {};
  }

  /// Counts the elements and finds the number of bytes, for which `bytes` has no place yet.
  Status set_sizes(GgufTensor& t, const GgufTypeTraits& traits, const std::string& what) {
    t.count = 1;
    for (const uint64_t dim : t.dims) {
      if (dim > 0 && t.count > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / dim)
        return invalid_model(what + " has more elements than can be counted");
      t.count *= dim;
    }
    if (t.dims[0] % traits.block != 0) {
      return invalid_model(what + " has rows of " + std::to_string(t.dims[0]) +
                           " elements, but those of type " + traits.name + " are multiples of " +
                           std::to_string(traits.block));
    }
    const uint64_t blocks = t.count / traits.block;
    if (blocks > file_.size() / traits.block_bytes) {
      return invalid_model(what + " has " + std::to_string(t.count) + " elements of type " +
                           traits.name + ", more than the file's " + std::to_string(file_.size()) +
                           " bytes can have");
    }
    t.bytes = file_.first(blocks * traits.block_bytes);
    return {};
  }

  /// Offsets count from the end of the directory, rounded up to the alignment.
  Status place_tensors() {
    const uint64_t mask = out_.alignment_ - 1;
    const uint64_t data = (at_ + mask) & ~mask;
    for (GgufTensor& t : out_.tensors_) {
      const std::string what = "tensor " + quoted(t.name);
      if ((t.offset & mask) != 0) {
        return invalid_model(what + " begins at offset " + std::to_string(t.offset) +
                             ", which is no multiple of the alignment " +
                             std::to_string(out_.alignment_));
      }
      if (t.bytes.empty()) continue;
      const uint64_t room = file_.size() > data ? file_.size() - data : 0;
      if (t.offset > room || t.bytes.size() > room - t.offset) {
        return invalid_model("the file ends in " + what + ": it needs " +
                             std::to_string(t.bytes.size()) + " bytes from offset " +
                             std::to_string(t.offset) + " on, but the file has " +
                             std::to_string(room) + " bytes of data; it may be cut off");
      }
      t.offset += data;
      t.bytes = file_.subspan(t.offset, t.bytes.size());
    }
    return check_overlaps();
  }

  Status check_overlaps() const {
    std::vector<const GgufTensor*> order;
    order.reserve(out_.tensors_.size());
    for (const GgufTensor& t : out_.tensors_) {
      if (!t.bytes.empty()) order.push_back(&t);
    }
    std::sort(order.begin(), order.end(),
              [](const auto* a, const auto* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i - 1]->offset + order[i - 1]->bytes.size() <= order[i]->offset) continue;
      return invalid_model("tensors " + quoted(order[i - 1]->name) + " and " +
                           quoted(order[i]->name) + " overlap");
    }
    return {};
  }

  std::span<const std::byte> file_;
  Gguf& out_;
  uint64_t at_ = 0, keys_ = 0, tensors_ = 0;
};

Result<Gguf> Gguf::parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                         std::string name) {
  Gguf out;
  out.name_ = std::move(name);
  out.owner_ = std::move(owner);
  RP_TRY(GgufReader(bytes, out).read().with_context(out.name_));
  return out;
}

Result<Gguf> Gguf::open(const std::string& path) {
  auto file = platform::InputFile::open(path);
  if (!file.ok()) return file.status();
  if (file->size() == 0) return invalid_model(path + ": the file is empty");
  auto memory = file->map();
  if (!memory.ok()) return memory.status().with_context(path);
  return parse(**memory, *memory, path);
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto at = keys_.find(key);
  return at == keys_.end() ? nullptr : &metadata_[at->second].second;
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto at = names_.find(name);
  return at == names_.end() ? nullptr : &tensors_[at->second];
}

Result<const GgufValue*> Gguf::require(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value != nullptr) return value;
  return invalid_model(name_ + ": the metadata has no key " + quoted(key));
}

Status Gguf::wrong_kind(std::string_view key, const char* expected) const {
  return invalid_model(name_ + ": the value of key " + quoted(key) + " must be " + expected);
}

Result<std::string_view> Gguf::text(std::string_view key) const {
  RP_ASSIGN(const GgufValue* value, require(key));
  if (value->kind() != GgufKind::Text) return wrong_kind(key, "a text");
  return *value->text();
}

Result<int64_t> Gguf::integer(std::string_view key) const {
  RP_ASSIGN(const GgufValue* value, require(key));
  const std::optional<int64_t> found = value->integer();
  if (value->kind() == GgufKind::Array || !found) return wrong_kind(key, "an integer");
  return *found;
}

Result<double> Gguf::number(std::string_view key) const {
  RP_ASSIGN(const GgufValue* value, require(key));
  const std::optional<double> found = value->number();
  if (value->kind() == GgufKind::Array || !found) return wrong_kind(key, "a number");
  return *found;
}

Result<bool> Gguf::boolean(std::string_view key) const {
  RP_ASSIGN(const GgufValue* value, require(key));
  if (value->kind() != GgufKind::Bool) return wrong_kind(key, "a boolean");
  return *value->boolean();
}

Result<const GgufValue*> Gguf::array(std::string_view key, bool of_texts) const {
  RP_ASSIGN(const GgufValue* value, require(key));
  if (value->kind() != GgufKind::Array || (value->item_kind() == GgufKind::Text) != of_texts)
    return wrong_kind(key, of_texts ? "an array of texts" : "an array of numbers");
  return value;
}

Result<const GgufValue*> Gguf::texts(std::string_view key) const {
  return array(key, true);
}

Result<const GgufValue*> Gguf::numbers(std::string_view key) const {
  return array(key, false);
}

Result<std::string_view> Gguf::text_or(std::string_view key, std::string_view otherwise) const {
  return find(key) == nullptr ? Result<std::string_view>(otherwise) : text(key);
}

Result<int64_t> Gguf::integer_or(std::string_view key, int64_t otherwise) const {
  return find(key) == nullptr ? Result<int64_t>(otherwise) : integer(key);
}

Result<double> Gguf::number_or(std::string_view key, double otherwise) const {
  return find(key) == nullptr ? Result<double>(otherwise) : number(key);
}

Result<bool> Gguf::boolean_or(std::string_view key, bool otherwise) const {
  return find(key) == nullptr ? Result<bool>(otherwise) : boolean(key);
}

}  // namespace reprise::formats
