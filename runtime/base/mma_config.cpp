#include "runtime/base/mma_config.h"

#include <iterator>

namespace reprise {
namespace {

constexpr std::string_view kMmaTypes[] = {"fp16",     "bf16", "fp32",  "tf32", "fp8 e4m3",
                                          "fp8 e5m2", "int8", "uint8", "int32"};

}  // namespace

bool is_mma_type(uint8_t number) {
  return number < std::size(kMmaTypes);
}

std::string_view name_of(MmaType t) {
  const auto number = static_cast<uint8_t>(t);
  return is_mma_type(number) ? kMmaTypes[number] : "an unknown type";
}

std::string MmaConfig::str() const {
  std::string out = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " in ";
  out += name_of(types.a);
  if (types.b != types.a) out.append(" and ").append(name_of(types.b));
  out.append(" with ").append(name_of(types.sum)).append(" sums");
  if (scope == MmaScope::Team) out += " of four subgroups";
  if (scope == MmaScope::Workgroup) out += " of a workgroup";
  if (invocations != 0) out += " of " + std::to_string(invocations);
  return out;
}

}  // namespace reprise
