#include "apps/ocr/geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ocr {
namespace {

float cross(Point origin, Point a, Point b) {
  return (a.x - origin.x) * (b.y - origin.y) - (a.y - origin.y) * (b.x - origin.x);
}

float dot(Point a, Point b) {
  return a.x * b.x + a.y * b.y;
}

Point along(Point from, Point direction, float length) {
  return {from.x + direction.x * length, from.y + direction.y * length};
}

/// The direction across `d`: downwards, if `d` is to the right.
Point across(Point d) {
  return {-d.y, d.x};
}

/// Of the four directions of a rectangle's sides, the one nearest to the x axis.
Point nearest_to_right(Point d) {
  if (std::abs(d.y) > std::abs(d.x)) d = across(d);
  return d.x < 0 ? Point{-d.x, -d.y} : d;
}

/// The rectangle in this direction that contains all points.
Rectangle rectangle_along(Point right, const std::vector<Point>& points) {
  const Point down = across(right);
  float low_x = std::numeric_limits<float>::max(), low_y = low_x, high_x = -low_x, high_y = -low_x;
  for (const Point p : points) {
    low_x = std::min(low_x, dot(p, right));
    high_x = std::max(high_x, dot(p, right));
    low_y = std::min(low_y, dot(p, down));
    high_y = std::max(high_y, dot(p, down));
  }
  const Point on_axis = along({}, right, (low_x + high_x) / 2);
  return {along(on_axis, down, (low_y + high_y) / 2), right, high_x - low_x, high_y - low_y};
}

}  // namespace

float distance(Point a, Point b) {
  return std::hypot(a.x - b.x, a.y - b.y);
}

Quad Rectangle::corners() const {
  const Point down = across(right);
  const Point left_edge = along(centre, right, -width / 2);
  const Point right_edge = along(centre, right, width / 2);
  return {along(left_edge, down, -height / 2), along(right_edge, down, -height / 2),
          along(right_edge, down, height / 2), along(left_edge, down, height / 2)};
}

bool Rectangle::contains(Point p) const {
  const Point from_centre{p.x - centre.x, p.y - centre.y};
  return std::abs(dot(from_centre, right)) <= width / 2 &&
         std::abs(dot(from_centre, across(right))) <= height / 2;
}

Rectangle Rectangle::grown(float by) const {
  return {centre, right, width + 2 * by, height + 2 * by};
}

std::vector<Point> convex_hull(std::vector<Point> points) {
  const auto before = [](Point a, Point b) { return a.x < b.x || (a.x == b.x && a.y < b.y); };
  const auto equal = [](Point a, Point b) { return a.x == b.x && a.y == b.y; };
  std::sort(points.begin(), points.end(), before);
  points.erase(std::unique(points.begin(), points.end(), equal), points.end());
  if (points.size() < 3) return points;
  std::vector<Point> hull;
  // The lower half from left to right, then the upper half back.
  for (int half = 0; half < 2; ++half) {
    const size_t start = hull.size();
    for (const Point p : points) {
      while (hull.size() >= start + 2 && cross(hull[hull.size() - 2], hull.back(), p) <= 0)
        hull.pop_back();
      hull.push_back(p);
    }
    hull.pop_back();  // the other half begins with it
    std::reverse(points.begin(), points.end());
  }
  return hull;
}

Rectangle smallest_rectangle(const std::vector<Point>& points) {
  const std::vector<Point> hull = convex_hull(points);
  Rectangle best = rectangle_along({1, 0}, hull);
  // A side of the smallest rectangle lies on a side of the hull.
  for (size_t i = 0; i < hull.size(); ++i) {
    const Point a = hull[i], b = hull[(i + 1) % hull.size()];
    const float length = distance(a, b);
    if (length == 0) continue;
    const Point side{(b.x - a.x) / length, (b.y - a.y) / length};
    const Rectangle r = rectangle_along(nearest_to_right(side), hull);
    if (r.width * r.height < best.width * best.height) best = r;
  }
  return best;
}

}  // namespace ocr
