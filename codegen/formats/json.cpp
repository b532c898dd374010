#include "codegen/formats/json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "codegen/formats/quoted.h"
#include "runtime/platform/file.h"

namespace reprise::formats {

// Values stand in the order of the text, so that a value's items follow it.
struct Json::Node {
  struct Place {
    uint32_t begin, size;
  };
  Kind kind = Kind::Null;
  Place key{0, 0};
  uint32_t next = 0;  // the first node that is not in this one
  uint32_t count = 0;
  union {
    int64_t integer = 0;
    double number;
    Place text;
  };
};

struct Json::Document {
  std::string name;
  std::string texts;  // keys and texts, one after the other
  std::vector<Node> nodes;

  std::string_view view(const Node::Place& p) const {
    return std::string_view(texts).substr(p.begin, p.size);
  }
};

namespace {

using Parser = nlohmann::json;

const char* name_of(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::Null:
      return "null";
    case Json::Kind::Boolean:
      return "a boolean";
    case Json::Kind::Integer:
      return "an integer";
    case Json::Kind::Number:
      return "a number";
    case Json::Kind::Text:
      return "a text";
    case Json::Kind::Array:
      return "an array";
    case Json::Kind::Object:
      break;
  }
  return "an object";
}

}  // namespace

/// What the parser calls. A call that returns false ends the parser.
class Json::Reader {
 public:
  Reader(Document& document, const JsonLimits& limits) : d_(document), limits_(limits) {}

  bool null() { return add(Kind::Null) != nullptr; }
  bool boolean(bool value) { return add_integer(Kind::Boolean, value ? 1 : 0); }
  bool number_integer(int64_t value) { return add_integer(Kind::Integer, value); }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return number_float(static_cast<double>(value), {});
    return add_integer(Kind::Integer, static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string& /*text*/) {
    Node* n = add(Kind::Number);
    if (n != nullptr) n->number = value;
    return n != nullptr;
  }
  bool string(const std::string& value) {
    const Node::Place place = keep(value);
    Node* n = add(Kind::Text);
    if (n != nullptr) n->text = place;
    return n != nullptr;
  }
  bool binary(const Parser::binary_t& /*value*/) { return fail("has binary data"); }
  bool key(const std::string& value) {
    key_ = keep(value);
    return true;
  }
  bool start_object(size_t /*count*/) { return open(Kind::Object); }
  bool start_array(size_t /*count*/) { return open(Kind::Array); }
  bool end_array() {
    d_.nodes[open_.back()].next = static_cast<uint32_t>(d_.nodes.size());
    open_.pop_back();
    return true;
  }
  bool end_object() {
    const size_t at = open_.back();
    end_array();
    return keys_differ(at);
  }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& e) {
    // The parser's message ends with what was wrong: "[json.exception.parse_error.101] ...: syntax
    // error while ...".
    std::string what = e.what();
    const size_t id = what.find("] ");
    if (id != std::string::npos) what = what.substr(id + 2);
    for (char& c : what) c = static_cast<unsigned char>(c) < 0x80 ? c : '?';  // parts of characters
    return fail("is not valid JSON at byte " + std::to_string(position) + ": " + what);
  }

  std::string take_error() { return std::move(error_); }

 private:
  bool fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    return false;
  }
  Node::Place keep(const std::string& text) {
    const Node::Place place{static_cast<uint32_t>(d_.texts.size()),
                            static_cast<uint32_t>(text.size())};
    d_.texts += text;
    return place;
  }
  Node* add(Kind kind) {
    if (d_.nodes.size() >= limits_.values) {
      fail("has more than " + std::to_string(limits_.values) + " values");
      return nullptr;
    }
    if (!open_.empty()) ++d_.nodes[open_.back()].count;
    Node& n = d_.nodes.emplace_back();
    n.kind = kind;
    n.key = std::exchange(key_, Node::Place{0, 0});
    n.next = static_cast<uint32_t>(d_.nodes.size());
    return &n;
  }
  bool add_integer(Kind kind, int64_t value) {
    Node* n = add(kind);
    if (n != nullptr) n->integer = value;
    return n != nullptr;
  }
  bool open(Kind kind) {
    if (open_.size() >= limits_.depth)
      return fail("is nested deeper than " + std::to_string(limits_.depth) + " levels");
    if (add(kind) == nullptr) return false;
    open_.push_back(d_.nodes.size() - 1);
    return true;
  }
  bool keys_differ(size_t object) {
    const Node& n = d_.nodes[object];
    std::vector<std::string_view> keys;
    keys.reserve(n.count);
    for (size_t at = object + 1; at < n.next; at = d_.nodes[at].next)
      keys.push_back(d_.view(d_.nodes[at].key));
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice == keys.end()) return true;
    return fail("has an object with two members " + quoted(*twice));
  }

  Document& d_;
  const JsonLimits& limits_;
  Node::Place key_{0, 0};
  std::vector<size_t> open_;
  std::string error_;
};

Result<Json> Json::parse(std::string_view text, std::string name, const JsonLimits& limits) {
  // Places are numbers of 32 bits.
  const size_t most = std::min<size_t>(limits.bytes, std::numeric_limits<int32_t>::max());
  if (text.size() > most) {
    return invalid_model(name + ": has " + std::to_string(text.size()) +
                         " bytes, more than the limit of " + std::to_string(most));
  }
  const auto document = std::make_shared<Document>();
  document->name = std::move(name);
  Reader reader(*document, limits);
  if (!Parser::sax_parse(text.begin(), text.end(), &reader))
    return invalid_model(document->name + ": " + reader.take_error());
  return Json(document, 0);
}

Result<Json> Json::read(const std::string& path, const JsonLimits& limits) {
  auto file = platform::InputFile::open(path);
  if (!file.ok()) return file.status();
  if (file->size() > limits.bytes) {
    return invalid_model(path + ": has " + std::to_string(file->size()) +
                         " bytes, more than the limit of " + std::to_string(limits.bytes));
  }
  std::string text(file->size(), '\0');
  RP_TRY(file->read(0, std::as_writable_bytes(std::span(text))).with_context(path));
  return parse(text, path, limits);
}

const Json::Node& Json::node() const {
  return document_->nodes[at_];
}

Json::Kind Json::kind() const {
  return node().kind;
}

size_t Json::size() const {
  return node().count;
}

std::string_view Json::key() const {
  return document_->view(node().key);
}

Json::Iterator& Json::Iterator::operator++() {
  at_ = parent_->document_->nodes[at_].next;
  return *this;
}

Json::Iterator Json::Items::begin() const {
  return {&parent, parent.at_ + 1};
}

Json::Iterator Json::Items::end() const {
  return {&parent, parent.node().next};
}

Json::Items Json::items() const {
  return {*this};
}

std::optional<Json> Json::find(std::string_view key) const {
  if (!is(Kind::Object)) return std::nullopt;
  for (const Json& m : items()) {
    if (m.key() == key) return m.is(Kind::Null) ? std::nullopt : std::optional<Json>(m);
  }
  return std::nullopt;
}

Result<Json> Json::at(std::string_view key) const {
  if (!is(Kind::Object)) return expected("an object");
  for (const Json& m : items()) {
    if (m.key() == key) return m;
  }
  return error("has no member " + quoted(key));
}

Result<std::string_view> Json::text() const {
  if (!is(Kind::Text)) return expected("a text");
  return document_->view(node().text);
}

Result<int64_t> Json::integer() const {
  if (!is(Kind::Integer)) return expected("an integer");
  return node().integer;
}

Result<int64_t> Json::integer(int64_t min, int64_t max) const {
  RP_ASSIGN(const int64_t value, integer());
  if (value >= min && value <= max) return value;
  return error("is " + std::to_string(value) + ", but must be from " + std::to_string(min) +
               " to " + std::to_string(max));
}

Result<double> Json::number() const {
  if (is(Kind::Integer)) return static_cast<double>(node().integer);
  if (!is(Kind::Number)) return expected("a number");
  return node().number;
}

Result<bool> Json::boolean() const {
  if (!is(Kind::Boolean)) return expected("a boolean");
  return node().integer != 0;
}

Result<Json> Json::array() const {
  if (!is(Kind::Array)) return expected("an array");
  return *this;
}

Result<Json> Json::object() const {
  if (!is(Kind::Object)) return expected("an object");
  return *this;
}

Result<std::optional<Json>> Json::member(std::string_view key) const {
  if (!is(Kind::Object)) return expected("an object");
  return find(key);
}

Result<std::string> Json::text_or(std::string_view key, std::string_view otherwise) const {
  RP_ASSIGN(const std::optional<Json> m, member(key));
  if (!m) return std::string(otherwise);
  RP_ASSIGN(const std::string_view value, m->text());
  return std::string(value);
}

Result<int64_t> Json::integer_or(std::string_view key, int64_t otherwise) const {
  RP_ASSIGN(const std::optional<Json> m, member(key));
  return m ? m->integer() : Result<int64_t>(otherwise);
}

Result<double> Json::number_or(std::string_view key, double otherwise) const {
  RP_ASSIGN(const std::optional<Json> m, member(key));
  return m ? m->number() : Result<double>(otherwise);
}

Result<bool> Json::boolean_or(std::string_view key, bool otherwise) const {
  RP_ASSIGN(const std::optional<Json> m, member(key));
  return m ? m->boolean() : Result<bool>(otherwise);
}

std::string Json::path() const {
  // Only errors need the path, so a value does not keep it: the search goes from the root to it.
  std::string out;
  const std::vector<Node>& nodes = document_->nodes;
  size_t inside = 0;
  while (inside != at_) {
    size_t child = inside + 1, index = 0;
    for (; nodes[child].next <= at_; ++index) child = nodes[child].next;
    if (nodes[inside].kind == Kind::Array) {
      out += "[" + std::to_string(index) + "]";
    } else {
      if (!out.empty()) out += ".";
      const std::string_view key = document_->view(nodes[child].key);
      out += beginning_of(key, 60);
    }
    inside = child;
  }
  return out;
}

Status Json::error(const std::string& what) const {
  const std::string where = path();
  return invalid_model(document_->name + ": " + (where.empty() ? "" : where + ": ") + what);
}

Status Json::expected(const char* what) const {
  return error(std::string("must be ") + what + ", but is " + name_of(kind()));
}

}  // namespace reprise::formats
