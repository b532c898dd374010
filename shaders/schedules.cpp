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

Result<std::vector<Product::Values>> load_left(Product& product, const std::vector<int>& rows) {
  std::vector<Product::Values> out;
  for (int r : rows) {
    RP_ASSIGN(Product::Values x, product.left(r));
    out.push_back(std::move(x));
  }
  return out;
}

Status store_rows(Product& product, kernel::Val row, int rows, kernel::Val vec,
                  const std::function<kernel::Val(int row)>& four) {
  kernel::Builder& b = product.builder();
  for (int r = 0; r < rows; ++r) {
    const kernel::Val at = b.add(row, b.i32(r));
    const auto body = [&] { return product.store(at, vec, four(r)); };
    RP_TRY(r == 0 ? body() : product.guard_row(at, body));
  }
  return {};
}

std::string Tile::describe() const {
  return std::string(schedule->name()) + " " + std::to_string(rows) + "x" + std::to_string(columns);
}

}  // namespace reprise::shaders
