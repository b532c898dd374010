// Precompiled for every C++ target (reprise_precompile in reprise_options.cmake). A source still
// includes what it uses: clang-tidy and builds with -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON read it
// without this file.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
