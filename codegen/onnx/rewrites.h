// Operators that the importer rewrites, because they have bodies that are functions.
#pragma once

#include <string>

#include "codegen/onnx/scope.h"

namespace reprise::onnx {

class Import;

/// flex_attention.cpp
bool is_flex_attention(const wire::Node& n, const std::string& domain);
Status add_flex_attention(Import& import, Scope& scope, const wire::Node& n);

/// sequence_map.cpp
bool is_sequence_map(const wire::Node& n, const std::string& domain);
Status add_sequence_map(Import& import, Scope& scope, const wire::Node& n);

}  // namespace reprise::onnx
