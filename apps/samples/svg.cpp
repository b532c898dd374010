#include "apps/samples/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "apps/samples/text_output.h"

namespace samples {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

double step_of_marks(double range) {
  const double tenth = std::max(range, 1e-9) / 10;
  const double power = std::pow(10, std::floor(std::log10(tenth)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= tenth) return factor * power;
  return 10 * power;
}

Svg::Svg(double width, double height, std::string style)
    : width_(width), height_(height), style_(std::move(style)) {}

std::string Svg::number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

void Svg::rectangle(const char* css_class, double x, double y, double width, double height) {
  shapes_ += std::string("<rect class=\"") + css_class + "\" x=\"" + number(x) + "\" y=\"" +
             number(y) + "\" width=\"" + number(width) + "\" height=\"" + number(height) + "\"/>\n";
}

void Svg::path(const char* css_class, const std::string& data) {
  shapes_ += std::string("<path class=\"") + css_class + "\" d=\"" + data + "\"/>\n";
}

void Svg::text(double x, double y, const char* anchor, const std::string& content) {
  shapes_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor +
             "\">" + escaped(content) + "</text>\n";
}

reprise::Error Svg::save(const std::string& path) const {
  return write_file(path, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width_) +
                              "\" height=\"" + number(height_) +
                              "\">\n<style>text{font:12px sans-serif;fill:#444}path{fill:none}" +
                              style_ +
                              "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
                              shapes_ + "</svg>\n");
}

}  // namespace samples
