#include "tests/emit/mutate.h"

#include <spirv/unified1/GLSL.std.450.h>
#include <map>
#include <spirv/unified1/spirv.hpp>
#include <utility>

namespace reprise::test {
namespace {

const std::map<uint32_t, uint32_t>& other_opcode() {
  static const std::map<uint32_t, uint32_t> table = {
      {spv::OpFAdd, spv::OpFSub},
      {spv::OpFSub, spv::OpFAdd},
      {spv::OpFMul, spv::OpFAdd},
      {spv::OpFDiv, spv::OpFMul},
      {spv::OpFNegate, spv::OpCopyObject},
      {spv::OpIAdd, spv::OpISub},
      {spv::OpISub, spv::OpIAdd},
      {spv::OpIMul, spv::OpIAdd},
      {spv::OpSDiv, spv::OpIMul},
      {spv::OpUDiv, spv::OpIMul},
      {spv::OpUMod, spv::OpUDiv},
      {spv::OpSNegate, spv::OpNot},
      {spv::OpLogicalAnd, spv::OpLogicalOr},
      {spv::OpLogicalOr, spv::OpLogicalAnd},
      {spv::OpLogicalNotEqual, spv::OpLogicalEqual},
      {spv::OpLogicalEqual, spv::OpLogicalNotEqual},
      {spv::OpLogicalNot, spv::OpCopyObject},
      {spv::OpBitwiseAnd, spv::OpBitwiseOr},
      {spv::OpBitwiseOr, spv::OpBitwiseAnd},
      {spv::OpBitwiseXor, spv::OpBitwiseAnd},
      {spv::OpNot, spv::OpSNegate},
      {spv::OpShiftLeftLogical, spv::OpShiftRightLogical},
      {spv::OpShiftRightLogical, spv::OpShiftLeftLogical},
      {spv::OpShiftRightArithmetic, spv::OpShiftLeftLogical},
      {spv::OpIEqual, spv::OpINotEqual},
      {spv::OpINotEqual, spv::OpIEqual},
      {spv::OpFOrdEqual, spv::OpFUnordNotEqual},
      {spv::OpFUnordNotEqual, spv::OpFOrdEqual},
      {spv::OpFOrdLessThan, spv::OpFOrdGreaterThan},
      {spv::OpFOrdGreaterThan, spv::OpFOrdLessThan},
      {spv::OpFOrdLessThanEqual, spv::OpFOrdGreaterThanEqual},
      {spv::OpFOrdGreaterThanEqual, spv::OpFOrdLessThanEqual},
      {spv::OpSLessThan, spv::OpSGreaterThan},
      {spv::OpSGreaterThan, spv::OpSLessThan},
      {spv::OpSLessThanEqual, spv::OpSGreaterThanEqual},
      {spv::OpSGreaterThanEqual, spv::OpSLessThanEqual},
      {spv::OpULessThan, spv::OpUGreaterThan},
      {spv::OpUGreaterThan, spv::OpULessThan},
      {spv::OpULessThanEqual, spv::OpUGreaterThanEqual},
      {spv::OpUGreaterThanEqual, spv::OpULessThanEqual},
  };
  return table;
}

uint32_t other_function(uint32_t number) {
  static const std::map<uint32_t, uint32_t> table = {
      {GLSLstd450Fma, GLSLstd450FMix},   {GLSLstd450FMin, GLSLstd450FMax},
      {GLSLstd450FMax, GLSLstd450FMin},  {GLSLstd450SMin, GLSLstd450SMax},
      {GLSLstd450SMax, GLSLstd450SMin},  {GLSLstd450UMin, GLSLstd450UMax},
      {GLSLstd450UMax, GLSLstd450UMin},  {GLSLstd450SAbs, GLSLstd450SSign},
      {GLSLstd450SSign, GLSLstd450SAbs}, {GLSLstd450Floor, GLSLstd450Ceil},
      {GLSLstd450FAbs, GLSLstd450Floor},
  };
  const auto it = table.find(number);
  return it == table.end() ? static_cast<uint32_t>(GLSLstd450Floor) : it->second;
}

// The first that a statement holds is applied.
constexpr std::pair<const char*, const char*> kChanges[] = {
    {"rp_fma(", "rp_fma(-"},
    {"rp_fmin(", "rp_fmax("},
    {"rp_fmax(", "rp_fmin("},
    {"rp_div(", "rp_fmin("},
    {"rp_floor(", "rp_ceil("},
    {"rp_ceil(", "rp_floor("},
    {"rp_rint(", "rp_trunc("},
    {"rp_trunc(", "rp_rint("},
    {"rp_fabs(", "rp_floor("},
    {"rp_abs(", "-("},
    {"rp_sqrt(", "rp_fabs("},
    {"rp_rsqrt(", "rp_sqrt("},
    {"rp_exp(", "rp_exp2("},
    {"rp_exp2(", "rp_exp("},
    {"rp_log(", "rp_log2("},
    {"rp_log2(", "rp_log("},
    {" <= ", " >= "},
    {" >= ", " <= "},
    {" << ", " >> "},
    {" >> ", " << "},
    {" == ", " != "},
    {" != ", " == "},
    {" && ", " || "},
    {" || ", " && "},
    {" < ", " > "},
    {" > ", " < "},
    {" + ", " - "},
    {" - ", " + "},
    {" * ", " + "},
    {" / ", " * "},
    {" % ", " / "},
    {" & ", " | "},
    {" | ", " & "},
    {" ^ ", " & "},
    {" ? ", ""},  // the condition is negated
    {"(-", "(~"},
    {"= -", "= "},
    {"!", ""},
    {"~", "-"},
};

}  // namespace

bool mutate_spirv(std::vector<uint32_t>& words) {
  // Bool operands and results pass through OpINotEqual and OpSelect; a row of those names comes
  // last, or right before the OpSelect that stores its result.
  std::vector<size_t> candidates;
  for (size_t at = 5; at < words.size(); at += words[at] >> spv::WordCountShift) {
    const uint32_t op = words[at] & spv::OpCodeMask;
    if (op == spv::OpExtInst || op == spv::OpSelect || other_opcode().contains(op)) {
      candidates.push_back(at);
    }
  }
  if (candidates.empty()) return false;
  size_t at = candidates.back();
  const auto opcode = [&](size_t position) { return words[position] & spv::OpCodeMask; };
  if (opcode(at) == spv::OpSelect && candidates.size() > 1) {
    const size_t before = candidates[candidates.size() - 2];
    const bool feeds = words[before + 2] == words[at + 3];
    if (feeds) at = before;
  }
  if (opcode(at) == spv::OpExtInst) {
    words[at + 4] = other_function(words[at + 4]);
  } else if (opcode(at) == spv::OpSelect) {
    std::swap(words[at + 4], words[at + 5]);
  } else {
    words[at] = (words[at] & ~spv::OpCodeMask) | other_opcode().at(opcode(at));
  }
  return true;
}

bool mutate_cuda(std::string& text, int32_t value) {
  const size_t begin = text.find(" v" + std::to_string(value) + " = ");
  if (begin == std::string::npos) return false;
  const size_t end = text.find('\n', begin);
  std::string line = text.substr(begin, end - begin);
  for (const auto& [from, to] : kChanges) {
    const size_t at = line.find(from);
    if (at == std::string::npos) continue;
    if (*to == '\0' && *from == ' ') {
      line.insert(line.find("= ") + 2, "!");
    } else {
      line.replace(at, std::string(from).size(), to);
    }
    text.replace(begin, end - begin, line);
    return true;
  }
  return false;
}

}  // namespace reprise::test
