// Attributes are declared once, in the rows of their operators; whatever reads one goes by that.
#include "codegen/ops/row/attribute.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "codegen/ops/row/op.h"
#include "tests/support/paths.h"

namespace reprise::ops {
namespace {

namespace fs = std::filesystem;

graph::Node& node(const char* op) {
  static graph::Graph g;
  graph::NodeSpec n;
  n.op = op;
  return *g.add_node(std::move(n));
}

TEST(Attributes, HaveTheDefaultsOfTheRow) {
  graph::Node& n = node("LayerNormalization");
  EXPECT_EQ(Attributes(n).get_int("axis"), -1);
  EXPECT_EQ(Attributes(n).get_float("epsilon"), 1e-5F);
  n.attrs.set("axis", int64_t{2});
  EXPECT_EQ(Attributes(n).get_int("axis"), 2);
  EXPECT_EQ(Attributes(node("Conv")).get_string("auto_pad"), "NOTSET");
  EXPECT_EQ(Attributes(node("MeanVarianceNormalization")).get_ints("axes"),
            (std::vector<int64_t>{0, 2, 3}));
}

TEST(Attributes, ThatAreNotDeclaredAreAFault) {
  const graph::Node& n = node("Softmax");
  Status fault;
  EXPECT_EQ(Attributes(n, &fault).get_int("exponent"), 0);
  EXPECT_EQ(fault.code(), Code::Internal);
  EXPECT_NE(fault.message().find("'exponent'"), std::string::npos) << fault.message();
}

TEST(Attributes, WithoutValueAndDefaultAreAFault) {
  const graph::Node& n = node("Softmax");
  Status fault;
  EXPECT_FALSE(Attributes(n, &fault).has("axis"));
  EXPECT_EQ(Attributes(n, &fault).get_or<int64_t>("axis", 7), 7);
  EXPECT_TRUE(fault.ok()) << fault.message();
  EXPECT_EQ(Attributes(n, &fault).get_int("axis"), 0);
  EXPECT_EQ(fault.code(), Code::Internal);
}

Status parsed(const std::string& line) {
  return graph::parse("graph g\ninput x: float32[2,3]\n" + line + "\noutput y\n").status();
}

TEST(Attributes, OfAModelAreOfTheirTypes) {
  EXPECT_TRUE(parsed("y = Softmax<axis=1>(x) @13").ok());
  const Status type = parsed("y = Softmax<axis=\"last\">(x) @13");
  EXPECT_EQ(type.code(), Code::InvalidModel);
  EXPECT_NE(type.message().find("attribute 'axis' must be an int"), std::string::npos)
      << type.message();
  const Status missing = parsed("y = Cast(x) @13");
  EXPECT_NE(missing.message().find("attribute 'to' is missing"), std::string::npos)
      << missing.message();
  const Status unknown = parsed("y = Softmax<axes=1>(x) @13");
  EXPECT_NE(unknown.message().find("attribute 'axes' is unknown; supported: axis"),
            std::string::npos)
      << unknown.message();
}

TEST(Attributes, AreDeclaredOnceByEachRow) {
  for (const OpDef* def : all()) {
    std::set<std::string_view> seen;
    for (const AttrDecl& decl : def->attributes)
      EXPECT_TRUE(seen.insert(decl.name).second) << def->name << " declares " << decl.name;
  }
}

/// By name, the declarations of all rows.
std::multimap<std::string, AttrDecl> declarations() {
  std::multimap<std::string, AttrDecl> out;
  for (const OpDef* def : all()) {
    for (const AttrDecl& decl : def->attributes) out.emplace(decl.name, decl);
  }
  return out;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// Calls `found` with every match in the sources below `folder`, and its file.
template <typename Found>
void search(const char* folder, const std::regex& what, const Found& found) {
  for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() / folder)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), what), end; it != end; ++it)
      found(*it, fs::relative(entry.path(), test::source_dir()).string());
  }
}

bool is_of(const std::string& reader, AttrType type) {
  if (reader == "get_int") return type == AttrType::Int;
  if (reader == "get_float") return type == AttrType::Float;
  if (reader == "get_string") return type == AttrType::String;
  if (reader == "get_ints") return type == AttrType::Ints || type == AttrType::Exprs;
  if (reader == "get_exprs") return type == AttrType::Ints || type == AttrType::Exprs;
  return true;
}

/// Whatever literal name is read, by the compiler or by a host kernel, some row declares it, of the
/// type that is read.
TEST(Attributes, ThatAreReadAreDeclared) {
  const auto declared = declarations();
  static const std::regex read(
      R"RE((get_int|get_float|get_string|get_ints|get_exprs|get_or|get<[^(]*>|has)\("([a-z_0-9A-Z]+)")RE");
  size_t reads = 0;
  for (const char* folder :
       {"codegen/ops", "codegen/passes", "codegen/lower", "codegen/graph", "runtime/host"}) {
    search(folder, read, [&](const std::smatch& m, const std::string& file) {
      ++reads;
      const auto [first, last] = declared.equal_range(m[2]);
      const bool fits = std::any_of(
          first, last, [&](const auto& entry) { return is_of(m[1], entry.second.type); });
      const bool of_constant =
          file == "runtime/host/generate.cpp" && m[2].str().rfind("value_", 0) == 0;
      EXPECT_TRUE(fits || of_constant) << file << " reads " << m.str() << ": no row declares it";
    });
  }
  EXPECT_GT(reads, 300U);
}

/// The compiler has no other way to an attribute than through its declaration.
TEST(Attributes, AreReadThroughTheirDeclarations) {
  static const std::regex raw(R"RE(attrs\.(get_|get<|has\())RE");
  for (const char* folder : {"codegen/passes", "codegen/lower"}) {
    search(folder, raw, [](const std::smatch& m, const std::string& file) {
      ADD_FAILURE() << file << ": " << m.str() << ": ask ops::Attributes";
    });
  }
}

std::string text_of(const AttrDecl::Default& d) {
  std::ostringstream out;
  if (const auto* i = std::get_if<int64_t>(&d)) out << *i;
  if (const auto* f = std::get_if<float>(&d)) out << *f;
  if (const auto* s = std::get_if<std::string_view>(&d)) out << '"' << *s << '"';
  return out.str();
}

/// Host kernels know no rows: a package runs without them. What they take for an attribute that is
/// not given is a default that a row declares.
TEST(Attributes, HostKernelsHaveTheDefaultsOfRows) {
  const auto declared = declarations();
  static const std::regex read(
      R"RE((get_int|get_float|get_string)\("([a-z_]+)", (-?[0-9.]+(e-?[0-9]+)?F?|"[^"]+")\))RE");
  size_t reads = 0;
  search("runtime/host", read, [&](const std::smatch& m, const std::string& file) {
    ++reads;
    std::string given = m[3];
    if (m[1] == "get_float") given = text_of(AttrDecl::Default(std::stof(given)));
    const auto [first, last] = declared.equal_range(m[2]);
    const bool known = std::any_of(first, last, [&](const auto& entry) {
      const AttrDecl& decl = entry.second;
      // Where the row has no default, absence means something and the kernel asks has() first.
      const bool none = std::holds_alternative<std::monostate>(decl.fallback);
      return is_of(m[1], decl.type) && (none || text_of(decl.fallback) == given);
    });
    EXPECT_TRUE(known) << file << ": " << m.str() << ": rows declare another default";
  });
  EXPECT_GT(reads, 80U);
}

}  // namespace
}  // namespace reprise::ops
