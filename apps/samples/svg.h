// Plots of the sample applications, which are SVG files.
#pragma once

#include <string>

#include "reprise/reprise.hpp"

namespace samples {

/// The distance of marks on an axis, such that a range has between five and ten: 1, 2 or 5 times a
/// power of ten.
double step_of_marks(double range);

/// Collects shapes. Coordinates are pixels, from the upper left corner.
class Svg {
 public:
  /// `style` is the CSS of the classes of shapes. Paths are not filled.
  Svg(double width, double height, std::string style);

  void rectangle(const char* css_class, double x, double y, double width, double height);
  /// `data` as the attribute d of SVG's path has it; number() writes coordinates.
  void path(const char* css_class, const std::string& data);
  /// `anchor` is "start", "middle" or "end": which part of the text is at x.
  void text(double x, double y, const char* anchor, const std::string& content);
  /// A coordinate as text.
  static std::string number(double value);

  reprise::Error save(const std::string& path) const;

 private:
  double width_, height_;
  std::string style_, shapes_;
};

}  // namespace samples
