#include <algorithm>

#include "shaders/contraction.h"

namespace reprise::shaders {

std::span<const Schedule* const> schedules() {
  static const Schedule* const table[] = {
      &subgroup_columns_schedule(),
      &subgroup_rows_schedule(),
      &register_schedule(),
  };
  return table;
}

std::vector<Tile> candidates(const ProductSize& size, const Predicate& device) {
  std::vector<Tile> all;
  for (const Schedule* s : schedules()) {
    for (Tile t : s->tiles(size, device)) {
      t.schedule = s;
      all.push_back(t);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Tile& a, const Tile& b) { return a.cost < b.cost; });
  return all;
}

std::string Tile::describe() const {
  return std::string(schedule->name()) + " " + std::to_string(rows) + "x" + std::to_string(columns);
}

}  // namespace reprise::shaders
