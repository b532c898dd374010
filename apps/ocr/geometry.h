// Points, hulls and rectangles at any angle.
#pragma once

#include <array>
#include <vector>

namespace ocr {

struct Point {
  float x = 0, y = 0;
};

/// Corners in the order top left, top right, bottom right, bottom left.
using Quad = std::array<Point, 4>;

/// A rectangle whose sides need not be parallel to the axes.
struct Rectangle {
  Point centre;
  Point right;  // unit vector along `width`; within 45 degrees of the x axis
  float width = 0, height = 0;

  Quad corners() const;
  bool contains(Point p) const;
  /// The same with all sides moved outwards.
  Rectangle grown(float distance) const;
};

/// The corners of the convex hull, in one direction around it.
std::vector<Point> convex_hull(std::vector<Point> points);
/// The rectangle of the smallest area that contains all points. There must be at least one.
Rectangle smallest_rectangle(const std::vector<Point>& points);

float distance(Point a, Point b);

}  // namespace ocr
