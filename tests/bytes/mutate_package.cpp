#include <flatbuffers/idl.h>
#include <flatbuffers/reflection.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/package/header.h"
#include "runtime/package/package.h"
#include "tests/bytes/mutators.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fb = flatbuffers;
using package::Header;

/// The schema that the project is built with, so that new fields are changed as well.
const reflection::Schema& schema() {
  static const std::string binary = [] {
    fb::Parser parser;
    const std::string text = read_file(source_dir() / "runtime/package/package.fbs");
    if (!parser.Parse(text.c_str())) return std::string();
    parser.Serialize();
    return std::string(reinterpret_cast<const char*>(parser.builder_.GetBufferPointer()),
                       parser.builder_.GetSize());
  }();
  return *reflection::GetSchema(binary.data());
}

struct Place {
  uint8_t* data;
  reflection::BaseType type;
};

/// Scalars, vector lengths and characters of a table, and of what it holds. Of the elements of a
/// long vector only some, so that changes are spread over all fields.
class Places {
 public:
  explicit Places(Random& random) : random_(random) {}

  void table(const fb::Table& t, const reflection::Object& object) {
    for (const reflection::Field* field : *object.fields()) {
      if (!t.CheckField(field->offset())) continue;
      const auto type = field->type()->base_type();
      if (fb::IsScalar(type)) {
        add(t.GetAddressOf(field->offset()), type);
      } else if (type == reflection::String) {
        string(*t.GetPointer<const fb::String*>(field->offset()));
      } else if (type == reflection::Obj && !is_struct(*field)) {
        table(*t.GetPointer<const fb::Table*>(field->offset()), object_of(*field));
      } else if (type == reflection::Obj) {
        structure(t.GetStruct<const uint8_t*>(field->offset()), object_of(*field));
      } else if (type == reflection::Vector) {
        vector(*t.GetPointer<const fb::VectorOfAny*>(field->offset()), *field);
      }
    }
  }

  const std::vector<Place>& all() const { return places_; }

 private:
  static const reflection::Object& object_of(const reflection::Field& field) {
    return *schema().objects()->Get(static_cast<fb::uoffset_t>(field.type()->index()));
  }
  static bool is_struct(const reflection::Field& field) { return object_of(field).is_struct(); }

  void add(const uint8_t* at, reflection::BaseType type) {
    places_.push_back({const_cast<uint8_t*>(at), type});
  }

  void length(const void* vector) { add(static_cast<const uint8_t*>(vector), reflection::UInt); }

  template <typename F>
  void some_elements(fb::uoffset_t count, const F& f) {
    constexpr fb::uoffset_t kMost = 8;
    for (fb::uoffset_t i = 0; i < std::min(count, kMost); ++i)
      f(count <= kMost ? i : static_cast<fb::uoffset_t>(below(random_, count)));
  }

  void string(const fb::String& s) {
    length(&s);
    some_elements(s.size(), [&](fb::uoffset_t i) { add(s.Data() + i, reflection::Byte); });
  }

  void structure(const uint8_t* at, const reflection::Object& object) {
    for (const reflection::Field* field : *object.fields())
      add(at + field->offset(), field->type()->base_type());
  }

  void vector(const fb::VectorOfAny& v, const reflection::Field& field) {
    length(&v);
    const auto element = field.type()->element();
    some_elements(v.size(), [&](fb::uoffset_t i) {
      if (fb::IsScalar(element)) {
        add(v.Data() + i * fb::GetTypeSize(element), element);
      } else if (element == reflection::String) {
        string(*fb::GetAnyVectorElemPointer<const fb::String>(&v, i));
      } else if (is_struct(field)) {
        structure(v.Data() + i * static_cast<size_t>(object_of(field).bytesize()),
                  object_of(field));
      } else {
        table(*fb::GetAnyVectorElemPointer<const fb::Table>(&v, i), object_of(field));
      }
    });
  }

  Random& random_;
  std::vector<Place> places_;
};

}  // namespace

std::string with_checksums(std::string bytes) {
  Header h;
  if (bytes.size() < sizeof h) return bytes;
  std::memcpy(&h, bytes.data(), sizeof h);
  const auto hash = [&](size_t from, size_t size) {
    return package::hash_bytes(std::as_bytes(std::span(bytes)).subspan(from, size));
  };
  if (h.metadata_bytes <= bytes.size() - sizeof h)
    h.metadata_hash = hash(sizeof h, h.metadata_bytes);
  h.file_bytes = bytes.size();
  std::memcpy(bytes.data(), &h, sizeof h);
  h.header_hash = hash(0, offsetof(Header, header_hash));
  std::memcpy(bytes.data(), &h, sizeof h);
  return bytes;
}

std::string mutate_package(const std::string& bytes, Random& random) {
  Header h;
  std::string out = bytes;
  if (out.size() < sizeof h || random() % 16 == 0) return with_checksums(mutate_bytes(out, random));
  std::memcpy(&h, out.data(), sizeof h);
  auto* metadata = reinterpret_cast<uint8_t*>(out.data()) + sizeof h;
  const bool whole = h.metadata_bytes <= out.size() - sizeof h;
  if (!whole || !fb::Verify(schema(), *schema().root_table(), metadata, h.metadata_bytes))
    return with_checksums(mutate_bytes(out, random));
  Places places(random);
  places.table(*fb::GetAnyRoot(metadata), *schema().root_table());
  if (places.all().empty()) return with_checksums(mutate_bytes(out, random));
  for (size_t changes = 1 + below(random, 3); changes > 0; --changes) {
    const Place& p = places.all()[below(random, places.all().size())];
    const uint64_t value = static_cast<uint64_t>(edge_number(random));
    std::memcpy(p.data, &value, fb::GetTypeSize(p.type));
  }
  return with_checksums(std::move(out));
}

}  // namespace reprise::test
