#include "codegen/ops/row/attribute.h"

#include <algorithm>

#include "codegen/ops/row/op.h"

namespace reprise::ops {

namespace {

const AttrDecl* declaration(std::span<const AttrDecl> declared, std::string_view name) {
  const auto at = std::ranges::find(declared, name, &AttrDecl::name);
  return at == declared.end() ? nullptr : &*at;
}

}  // namespace

Attributes::Attributes(const graph::Node& n, Status* fault) : node_(n), fault_(fault) {
  if (const OpDef* def = ops::find(n)) declared_ = def->attributes;
}

bool Attributes::declares(std::string_view name) const {
  return declaration(declared_, name) != nullptr;
}

const AttrDecl* Attributes::find(std::string_view name) const {
  const AttrDecl* decl = declaration(declared_, name);
  if (decl == nullptr) report(name, "is read, but the operator's row does not declare it");
  return decl;
}

void Attributes::report(std::string_view name, const char* what) const {
  if (fault_ == nullptr || !fault_->ok()) return;
  *fault_ = internal_error("node '" + node_.name + "' (" + node_.op + "): attribute '" +
                           std::string(name) + "' " + what)
                .about(node_.origins);
}

template <typename T, typename Default>
T Attributes::value(std::string_view name) const {
  const AttrDecl* decl = find(name);
  if (decl == nullptr) return {};
  if (const T* given = node_.attrs.get<T>(name)) return *given;
  if (const Default* fallback = std::get_if<Default>(&decl->fallback)) {
    if constexpr (std::is_same_v<T, Default>) {
      return *fallback;
    } else {
      return T(fallback->begin(), fallback->end());
    }
  }
  constexpr bool is_list = std::is_same_v<T, std::vector<int64_t>>;
  if (!is_list)
    report(name, "is read, but the node does not have it and the row declares no default");
  return {};
}

int64_t Attributes::get_int(std::string_view name) const {
  return value<int64_t, int64_t>(name);
}
float Attributes::get_float(std::string_view name) const {
  return value<float, float>(name);
}
std::string Attributes::get_string(std::string_view name) const {
  return value<std::string, std::string_view>(name);
}
std::vector<int64_t> Attributes::get_ints(std::string_view name) const {
  return value<std::vector<int64_t>, std::span<const int64_t>>(name);
}

}  // namespace reprise::ops
